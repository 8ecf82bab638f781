package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// readyTimeout bounds one check of the record: a prober that waits longer has
// given up.
const readyTimeout = 2 * time.Second

// adminHosts returns the names under which requests may address a listener of operators,
// beside IP addresses and localhost: that of the home and the one in admin.listen.
func adminHosts(home, listen string) []string {
	names := []string{home}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		names = append(names, host)
	}
	return names
}

// isLoopback reports whether only programs on this machine reach an address.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// guard wraps a handler of the admin listener that tells what strangers must not know.
type guard func(http.Handler) http.Handler

// unguarded leaves a handler as it is: the listener itself keeps strangers out.
func unguarded(h http.Handler) http.Handler { return h }

// adminGuard returns the guard of admin.listen: beyond loopback, a caller of profiles and
// metrics needs an operator token with the scope to read.
func (p *program) adminGuard(operator *operatorapi.Operator, admit operatorapi.Admission) guard {
	if p.admin == nil || isLoopback(p.admin.Addr()) {
		return unguarded
	}
	return func(h http.Handler) http.Handler { return operator.Admitted(admit, federation.ReadScope, h) }
}

// mountAdmin registers what operators and probers read. The guard covers profiles and
// metrics, not the two checks of probers.
func mountAdmin(mux *http.ServeMux, p *program, metrics bool, admit guard) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, []byte(`{"live":true}`))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ready := p.readiness(r.Context())
		if r.URL.Query().Has(contract.PeersParameter) {
			ready = p.withPeers(ready)
		}
		status := http.StatusOK
		if !ready.Ready {
			status = http.StatusServiceUnavailable
		}
		text, err := json.Marshal(ready)
		if err != nil {
			status = http.StatusInternalServerError
		}
		answer(w, status, text)
	})
	for path, serve := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle("GET "+path, admit(serve))
	}
	mux.Handle("GET /statusz", admit(http.HandlerFunc(p.serveStatus)))
	if metrics {
		mux.Handle("GET /metrics", admit(promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{})))
	}
}

// readiness says what the gateway cannot do now. The state of other operators' homes and
// registries is no part of it: see [program.withPeers].
func (p *program) readiness(ctx context.Context) contract.Readiness {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ready := contract.Readiness{Reasons: []string{}}
	if err := p.record.Ready(ctx); err != nil {
		ready.Reasons = append(ready.Reasons, "record: "+err.Error())
	}
	if err := roomAt(p.file.Path(".")); err != nil {
		ready.Reasons = append(ready.Reasons, "disk: "+err.Error())
	}
	if err := p.relay.Ready(); err != nil {
		ready.Reasons = append(ready.Reasons, "relay: "+err.Error())
	}
	if p.hub != nil && p.hub.Ready() != nil {
		ready.Reasons = append(ready.Reasons, "hub: "+p.hub.Ready().Error())
	}
	for _, name := range p.gateway.Links().Down() {
		ready.Reasons = append(ready.Reasons, "link "+name+": down")
	}
	ready.Ready = len(ready.Reasons) == 0
	return ready
}

// minFreeBytes is how much room the disk of data_dir needs: what one batch of commits
// writes at most, with the log that it goes through first.
const minFreeBytes = 4 << 20

// roomAt returns an error where a disk is about to be full.
func roomAt(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("measure %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < minFreeBytes { //nolint:gosec // no system has blocks of a negative size
		return fmt.Errorf("%d bytes are free at %s, fewer than %d", free, dir, minFreeBytes)
	}
	return nil
}

func answer(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// newMetrics returns the registry of this process.
func newMetrics() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	v := buildVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "baton", Name: "build_info", Help: "1, with what was built.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision},
	})
	info.Set(1)
	reg.MustRegister(info)
	return reg
}

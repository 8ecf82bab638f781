package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
)

// readyTimeout bounds one check of the record: a prober that waits longer has
// given up.
const readyTimeout = 2 * time.Second

// readiness is the answer of /readyz.
type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// mountAdmin registers what operators and probers read.
func mountAdmin(mux *http.ServeMux, p *program, metrics bool) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, []byte(`{"live":true}`))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, ready := http.StatusOK, p.readiness(r.Context())
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
		mux.HandleFunc("GET "+path, serve)
	}
	if metrics {
		mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{}))
	}
}

// readiness says what the gateway cannot do now.
func (p *program) readiness(ctx context.Context) readiness {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ready := readiness{Reasons: []string{}}
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
	for _, name := range p.gateway.fleet.down() {
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

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	if err := p.relay.Ready(); err != nil {
		ready.Reasons = append(ready.Reasons, "relay: "+err.Error())
	}
	for _, name := range p.gateway.fleet.down() {
		ready.Reasons = append(ready.Reasons, "link "+name+": down")
	}
	ready.Ready = len(ready.Reasons) == 0
	return ready
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

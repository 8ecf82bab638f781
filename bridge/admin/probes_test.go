package admin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/admin"
)

func TestCheckReadinessNamesEachPartThatFails(t *testing.T) {
	t.Parallel()
	works, fails := func(context.Context) error { return nil }, func(context.Context) error { return errors.New("full") }
	got := admin.CheckReadiness(t.Context(), []admin.Part{{Name: "record", Check: works}, {Name: "disk", Check: fails}}, []string{"lab"})
	want := admin.Readiness{Reasons: []string{"disk: full", "link lab: down"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ready := admin.CheckReadiness(t.Context(), []admin.Part{{Name: "record", Check: works}}, nil); !ready.Ready {
		t.Errorf("got %+v", ready)
	}
}

func TestGuardCoversOnlyProfilesAndMetrics(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	admin.Probes{
		Ready:   func(context.Context) admin.Readiness { return admin.Readiness{Reasons: []string{"disk: full"}} },
		Metrics: http.NotFoundHandler(),
		Guard: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		},
	}.Mount(mux)
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/metrics": http.StatusUnauthorized,
		"/debug/pprof/": http.StatusUnauthorized, "/debug/pprof/profile": http.StatusUnauthorized,
	} {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", path, recorder.Code, want)
		}
	}
}

func TestLoopbackIsOnlyThisMachine(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]bool{"127.0.0.1": true, "::1": true, "192.0.2.1": false, "0.0.0.0": false} {
		if got := admin.IsLoopback(&net.TCPAddr{IP: net.ParseIP(ip)}); got != want {
			t.Errorf("%s: %t", ip, got)
		}
	}
	if diff := cmp.Diff([]string{"gw.example", "ops.example"}, admin.ListenerHosts("gw.example", "ops.example:8081")); diff != "" {
		t.Error(diff)
	}
}

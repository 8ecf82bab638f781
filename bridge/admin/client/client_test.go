package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// open returns a client of a gateway that answers with a handler.
func open(t *testing.T, token string, serve http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	c, err := client.Open(server.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRequestCarriesTheToken(t *testing.T) {
	t.Parallel()
	c := open(t, "secret", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/operator/v1/links/lab" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte(`{"name":"lab"}`))
	})
	link, err := client.Call(t.Context(), c, admin.GetLink, admin.ByName{Name: "lab"})
	if err != nil || link.Name != "lab" {
		t.Errorf("got %+v, %v", link, err)
	}
}

func TestProblemIsAnErrorWithItsCode(t *testing.T) {
	t.Parallel()
	c := open(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"status":409,"code":"illegal-step","detail":"it is open"}`))
	})
	_, err := client.Call(t.Context(), c, admin.GetLink, admin.ByName{Name: "lab"})
	if problem, ok := errors.AsType[*bridge.ProblemError](err); !ok || problem.Code != "illegal-step" || problem.Error() != "it is open" {
		t.Errorf("got %v", err)
	}
}

func TestErrorNamesTheStatusOfOtherAnswers(t *testing.T) {
	t.Parallel()
	c := open(t, "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := client.Call(t.Context(), c, admin.GetLink, admin.ByName{Name: "lab"}); err == nil || err.Error() != "the gateway answers 502 Bad Gateway" {
		t.Errorf("got %v", err)
	}
}

func TestRequestToASilentGatewayIsUnavailable(t *testing.T) {
	t.Parallel()
	c, err := client.Open("unix:"+filepath.Join(t.TempDir(), "none.sock"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, asked := client.Call(t.Context(), c, admin.GetLink, admin.ByName{Name: "lab"})
	_, probed := c.Readiness(t.Context(), false)
	for _, err := range []error{asked, probed} {
		if away, ok := errors.AsType[*federation.UnavailableError](err); !ok || away.What != "gateway" {
			t.Errorf("got %v", err)
		}
	}
}

func TestNewRefusesInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "gw.example", "ftp://gw.example", "http://", "://"} {
		if _, err := client.Open(address, ""); !errors.As(err, new(*client.AddressError)) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestRequestRefusesInvalidPathNames(t *testing.T) {
	t.Parallel()
	c, err := client.Open("http://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"": true, ".": true, "..": true, "a/b": false, "did:key:z6Mk": false} {
		_, err := client.Call(t.Context(), c, admin.UnbindName, admin.NameUnbinding{Network: "lab", Name: name})
		if _, ok := errors.AsType[*route.NameError](err); ok != refused {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSocketNeedsNoToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.sock")
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte(`{"ready":false,"reasons":["disk: full"]}`))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Shutdown(context.WithoutCancel(t.Context())) })
	c, err := client.Open("unix:"+path, "secret")
	if err != nil {
		t.Fatal(err)
	}
	if ready, err := c.Readiness(t.Context(), false); err != nil || ready.Ready || len(ready.Reasons) != 1 {
		t.Errorf("got %+v, %v", ready, err)
	}
}

func TestHandoffReadsAllPages(t *testing.T) {
	t.Parallel()
	c := open(t, "", func(w http.ResponseWriter, r *http.Request) {
		page := `{"steps":[{"verb":"offer"}],"next_cursor":"2"}`
		if r.URL.Query().Get("cursor") == "2" {
			page = `{"state":"completed","steps":[{"verb":"complete"}]}`
		}
		_, _ = w.Write([]byte(page))
	})
	h, err := c.Handoff(t.Context(), "Y6Z0AB")
	if err != nil || len(h.Steps) != 2 || h.Steps[1].Verb != federation.Complete || h.State != "completed" {
		t.Errorf("got %+v, %v", h, err)
	}
}

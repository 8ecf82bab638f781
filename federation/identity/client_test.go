package identity_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func insideConfig() identity.FetchConfig {
	return identity.FetchConfig{AllowPrivate: true, Timeout: 5 * time.Second, MaxBytes: 1000, PerHost: 100}
}

func TestClientReadsAnswers(t *testing.T) {
	elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("elsewhere")) })
	ends := make(chan struct{})
	mux := http.NewServeMux()
	reply := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(status)
		}
	}
	body := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", n))) }
	}
	mux.HandleFunc("/good", body(1000))
	mux.HandleFunc("/huge", body(1001))
	mux.HandleFunc("/missing", reply(http.StatusNotFound))
	mux.HandleFunc("/gone", reply(http.StatusGone))
	mux.HandleFunc("/forbidden", reply(http.StatusForbidden))
	mux.HandleFunc("/busy", reply(http.StatusTooManyRequests))
	mux.HandleFunc("/broken", reply(http.StatusInternalServerError))
	mux.Handle("/moved", http.RedirectHandler("/good", http.StatusFound))
	mux.Handle("/moved/twice", http.RedirectHandler("/moved", http.StatusFound))
	mux.Handle("/moved/away", http.RedirectHandler(elsewhere.URL, http.StatusFound))
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { <-ends })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("x"))
	})
	host := serve(t, mux.ServeHTTP)
	defer close(ends) // before the server closes, which waits for its handlers
	dead := httptest.NewServer(mux)
	dead.Close()

	config := insideConfig()
	config.Timeout = 300 * time.Millisecond
	client := identity.NewClient(config)
	for name, test := range map[string]struct {
		address     string
		wantBytes   int
		wantErr     error
		unavailable bool
		retryAfter  time.Duration
	}{
		"a document of just the size":      {address: host.URL + "/good", wantBytes: 1000},
		"one byte more":                    {address: host.URL + "/huge", wantErr: identity.ErrTooLarge},
		"nothing there":                    {address: host.URL + "/missing", wantErr: federation.ErrNotFound},
		"nothing there any more":           {address: host.URL + "/gone", wantErr: federation.ErrNotFound},
		"forbidden is no evidence":         {address: host.URL + "/forbidden", unavailable: true, retryAfter: 30 * time.Second},
		"asked too often":                  {address: host.URL + "/busy", unavailable: true, retryAfter: 30 * time.Second},
		"a broken host":                    {address: host.URL + "/broken", unavailable: true, retryAfter: 30 * time.Second},
		"one redirect within the host":     {address: host.URL + "/moved", wantBytes: 1000},
		"two redirects":                    {address: host.URL + "/moved/twice", unavailable: true},
		"a redirect to another host":       {address: host.URL + "/moved/away", unavailable: true},
		"a host that says nothing":         {address: host.URL + "/silent", unavailable: true},
		"an answer that breaks off":        {address: host.URL + "/cut", unavailable: true},
		"a dead host":                      {address: dead.URL + "/good", unavailable: true},
		"a name without an address":        {address: "http://gw.invalid/", unavailable: true},
		"another scheme":                   {address: "file:///etc/hostname"},
		"something that is not an address": {address: "http://[::1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := client.Get(t.Context(), test.address)
			if len(got) != test.wantBytes || (err == nil) != (test.wantBytes > 0) {
				t.Errorf("got %d bytes and error %v, want %d bytes", len(got), err, test.wantBytes)
			}
			if test.wantErr != nil && !errors.Is(err, test.wantErr) {
				t.Errorf("got %v, want %v", err, test.wantErr)
			}
			later, unavailable := errors.AsType[*federation.UnavailableError](err)
			if unavailable != test.unavailable {
				t.Errorf("got %v; unavailable: want %t", err, test.unavailable)
			}
			if unavailable && later.RetryAfter != test.retryAfter {
				t.Errorf("retry after %v, want %v", later.RetryAfter, test.retryAfter)
			}
		})
	}
}

func TestClientDialsNoPrivateAddress(t *testing.T) {
	var asked atomic.Int32
	listener := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	listener.Config.ConnState = func(net.Conn, http.ConnState) { asked.Add(1) }
	_, port, err := net.SplitHostPort(listener.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	config := insideConfig()
	config.AllowPrivate = false
	client := identity.NewClient(config)
	for name, host := range map[string]string{
		"loopback":                  "127.0.0.1",
		"loopback of IPv6":          "[::1]",
		"loopback inside IPv6":      "[::ffff:127.0.0.1]",
		"a name that leads inside":  "localhost",
		"the unspecified address":   "0.0.0.0",
		"a private network":         "10.0.0.1",
		"where clouds keep secrets": "169.254.169.254",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := client.Get(t.Context(), "https://"+host+":"+port+"/"); err == nil {
				t.Error("got an answer")
			} else if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
				t.Errorf("got %v, want unavailable", err)
			}
		})
	}
	t.Run("nor is plain http spoken", func(t *testing.T) {
		if _, err := client.Get(t.Context(), listener.URL); err == nil {
			t.Error("got an answer")
		}
	})
	if n := asked.Load(); n != 0 {
		t.Errorf("the server saw %d connections", n)
	}
}

func TestClientDialsNoDeniedNetwork(t *testing.T) {
	var asked atomic.Int32
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }))
	listener.Config.ConnState = func(net.Conn, http.ConnState) { asked.Add(1) }
	listener.Start()
	t.Cleanup(listener.Close)
	_, port, err := net.SplitHostPort(listener.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	config := insideConfig()
	config.Denied = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	client, peer := identity.NewClient(config), identity.NewPeerClient(config)
	for name, host := range map[string]string{
		"an address":             "127.0.0.1",
		"an address inside IPv6": "[::ffff:127.0.0.1]",
		"a name":                 "localhost",
	} {
		t.Run(name, func(t *testing.T) {
			address := "http://" + host + ":" + port + "/"
			if _, err := client.Get(t.Context(), address); !errors.Is(err, identity.ErrNotAllowed) {
				t.Errorf("Get: %v, want that the address is not allowed", err)
			}
			if _, err := client.Call(t.Context(), address, http.Header{}, nil); !errors.Is(err, identity.ErrNotAllowed) {
				t.Errorf("Call: %v, want that the address is not allowed", err)
			}
			if err := client.Callable(t.Context(), address); !errors.Is(err, identity.ErrNotAllowed) {
				t.Errorf("Callable: %v, want that the address is not allowed", err)
			}
			if _, _, err := peer.Do(t.Context(), http.MethodGet, address, nil, nil); !errors.Is(err, identity.ErrNotAllowed) {
				t.Errorf("to another home: %v, want that the address is not allowed", err)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server saw %d connections", n)
	}
	config.Denied = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if _, err := identity.NewClient(config).Get(t.Context(), listener.URL); err != nil {
		t.Errorf("an address of no denied network: %v", err)
	}
}

func TestClientLimitsFetchesPerHost(t *testing.T) {
	var asked atomic.Int32
	host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("x"))
	})
	config := insideConfig()
	config.PerHost = 2
	config.Timeout = 100 * time.Millisecond // sooner than a third turn comes
	client := identity.NewClient(config)
	for range 5 {
		_, err := client.Get(t.Context(), host.URL)
		if _, later := errors.AsType[*federation.UnavailableError](err); err != nil && !later {
			t.Errorf("got %v, want an answer or unavailable", err)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the host was asked %d times, want 2", n)
	}
}

func TestClientBoundsItsRates(t *testing.T) {
	client := identity.NewClient(insideConfig())
	for i := range identity.MaxHosts + 1 {
		if n := identity.HostsAfter(client, fmt.Sprintf("h%d.example", i)); n > identity.MaxHosts {
			t.Fatalf("%d hosts are remembered", n)
		}
	}
}

func TestFetchEndsWithItsCaller(t *testing.T) {
	host := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := identity.NewClient(insideConfig()).Get(ctx, host.URL)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
}

package httpd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge/httpd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server that serves.
type running struct {
	url   string
	stop  context.CancelFunc
	ended chan error
	log   *lockedBuffer

	server *httpd.Server
}

// serve starts a server on a free port of loopback and stops it with the test.
func serve(t *testing.T, cfg httpd.Config, handler http.Handler) running {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	log := &lockedBuffer{}
	server := httpd.New(cfg, handler, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := running{url: "http://" + server.Addr().String(), stop: stop, ended: make(chan error, 1), log: log, server: server}
	go func() { r.ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
}

// get sends one request.
func get(ctx context.Context, method, url string, header ...string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestListenReturnsOneLineForATakenPort(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	server := httpd.New(httpd.Config{Listen: address}, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	err = server.Listen(t.Context())
	if err == nil || err.Error() != "listen "+address+": address already in use: stop the other program or choose another port" {
		t.Errorf("Listen returned %v", err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("Close returned %v", err)
	}
}

func TestCloseReleasesThePort(t *testing.T) {
	t.Parallel()
	server := httpd.New(httpd.Config{Listen: "127.0.0.1:0"}, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing again returned %v", err)
	}
}

func TestServePassesRequestsUnchanged(t *testing.T) {
	t.Parallel()
	r := serve(t, httpd.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.EscapedPath())
	}))
	for method, path := range map[string]string{
		http.MethodGet: "/identity/did%3Aweb%3Agw.example%253A8080", http.MethodPost: "/", http.MethodOptions: "/messages", "BREW": "/pot",
	} {
		got, err := get(t.Context(), method, r.url+path)
		if err != nil || got.status != http.StatusTeapot || got.body != method+" "+path {
			t.Errorf("%s %s: %+v %v", method, path, got, err)
		}
	}
}

func TestServeHidesThePanicOfAHandler(t *testing.T) {
	t.Parallel()
	r := serve(t, httpd.Config{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hunter2") }))
	got, err := get(t.Context(), http.MethodGet, r.url)
	if err != nil || got.status != http.StatusInternalServerError ||
		!strings.HasPrefix(got.body, `{"error":"internal"`) || strings.Contains(got.body, "hunter2") {
		t.Errorf("answered %+v %v", got, err)
	}
	if kind := got.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type is %q", kind)
	}
	if !strings.Contains(r.log.String(), "hunter2") {
		t.Errorf("logged %s", r.log)
	}
}

func TestOriginsAreAllowedWithoutCredentials(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		allowed []string
		want    string
	}{
		"any":         {[]string{"*"}, "*"},
		"this one":    {[]string{"https://app.example"}, "https://app.example"},
		"another one": {[]string{"https://other.example"}, ""},
		"none":        {nil, ""},
	} {
		r := serve(t, httpd.Config{CORSOrigins: test.allowed}, http.NotFoundHandler())
		for _, method := range []string{http.MethodGet, http.MethodOptions} {
			got, err := get(t.Context(), method, r.url, "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
			if err != nil {
				t.Fatal(err)
			}
			if origin := got.header.Get("Access-Control-Allow-Origin"); origin != test.want {
				t.Errorf("%s, %s: allowed %q, want %q", name, method, origin, test.want)
			}
			if credentials := got.header.Get("Access-Control-Allow-Credentials"); credentials != "" {
				t.Errorf("%s, %s: credentials %q", name, method, credentials)
			}
		}
	}
}

func TestForwardedAddressNeedsATrustedProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trusted []netip.Prefix
		want    string
	}{
		"by default nobody's":   {nil, "client=127.0.0.1"},
		"a trusted proxy's":     {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "client=192.0.2.7"},
		"not that of another's": {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "client=127.0.0.1"},
	} {
		r := serve(t, httpd.Config{TrustedProxies: test.trusted}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "client="+host)
		}))
		seen, err := get(t.Context(), http.MethodGet, r.url+"/x?secret=1", "X-Forwarded-For", "198.51.100.1, 192.0.2.7")
		if err != nil || seen.body != test.want {
			t.Errorf("%s: the handler sees %s, %v, want %s", name, seen.body, err, test.want)
		}
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		if log := r.log.String(); !strings.Contains(log, test.want) || strings.Contains(log, "secret") {
			t.Errorf("%s: logged %s, want %s", name, log, test.want)
		}
	}
}

func TestShutdownCompletesRequests(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	r := serve(t, httpd.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-finish
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusGone)
		}
	}))
	answered := make(chan int, 1)
	go func() {
		got, _ := get(t.Context(), http.MethodGet, r.url) // no answer has status 0
		answered <- got.status
	}()
	<-began
	r.stop()
	select {
	case err := <-r.ended:
		t.Errorf("the server ended before its request: %v", err)
	default:
	}
	close(finish)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

func TestServeSpeaksTLSWithACertificate(t *testing.T) {
	t.Parallel()
	own := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, and a client that trusts it
	defer own.Close()
	server := httpd.New(httpd.Config{Listen: "127.0.0.1:0", TLS: own.TLS.Clone()}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			w.WriteHeader(http.StatusUpgradeRequired)
		}
	}), slog.New(slog.DiscardHandler))
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := own.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("status %d, %v", response.StatusCode, err)
	}
	own.Client().CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestRetryAfterIsOnEach503And429(t *testing.T) {
	r := serve(t, httpd.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		if wait := r.URL.Query().Get("wait"); wait != "" {
			w.Header().Set("Retry-After", wait)
		}
		w.WriteHeader(status)
	}))
	for query, want := range map[string]string{"status=503": "5", "status=429": "60", "status=503&wait=7": "7", "status=500": "", "status=200": ""} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/?"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := response.Header.Get("Retry-After"); got != want {
			t.Errorf("%s: Retry-After %q, want %q", query, got, want)
		}
	}
}

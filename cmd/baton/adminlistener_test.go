package main_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// asksAdmin sends a GET to the admin listener and returns the status of the answer.
func (h *house) asksAdmin(t *testing.T, path, host, token string) (int, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header
}

func TestAdminListenerNeedsATokenBeyondLoopback(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, port, err := net.SplitHostPort(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	reached := h.admin
	h.admin = net.JoinHostPort("0.0.0.0", port)
	h.configure(t)
	h.admin = reached
	h.start(t)
	var made struct{ Token string }
	h.asks(t, &made, "token", "create", "--scope", "read", "--name", "prometheus", "--reason", "scrapes")
	h.secrets = append(h.secrets, made.Token)
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		if status, header := h.asksAdmin(t, path, "", ""); status != http.StatusUnauthorized || header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s without a token is answered %d", path, status)
		}
		if status, _ := h.asksAdmin(t, path, "", made.Token); status != http.StatusOK {
			t.Errorf("%s with a token that may read is answered %d", path, status)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, _ := h.asksAdmin(t, path, "", ""); status != http.StatusOK {
			t.Errorf("%s is answered %d to a prober", path, status)
		}
	}
}

func TestAdminDebugTokenGuardsProfilesOnLoopback(t *testing.T) {
	h := newHouse(t)
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.config, []byte(strings.Replace(string(text), "[admin]\n", "[admin]\ndebug = \"token\"\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	var made struct{ Token string }
	h.asks(t, &made, "token", "create", "--scope", "read", "--name", "profiler", "--reason", "profiles")
	h.secrets = append(h.secrets, made.Token)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/heap?debug=1"} {
		if status, header := h.asksAdmin(t, path, "", ""); status != http.StatusUnauthorized || header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s without a token is answered %d", path, status)
		}
		if status, _ := h.asksAdmin(t, path, "", made.Token); status != http.StatusOK {
			t.Errorf("%s with a token that may read is answered %d", path, status)
		}
	}
	for _, path := range []string{"/livez", "/metrics"} {
		if status, _ := h.asksAdmin(t, path, "", ""); status != http.StatusOK {
			t.Errorf("%s is answered %d", path, status)
		}
	}
}

func TestAdminListenerRefusesForeignHosts(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	_, port, err := net.SplitHostPort(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/livez", "/metrics", "/debug/pprof/", "/operator/v1/links"} {
		for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example"} {
			if status, _ := h.asksAdmin(t, path, host, ""); status != http.StatusMisdirectedRequest {
				t.Errorf("%s for Host %s is answered %d, want 421", path, host, status)
			}
		}
		for _, host := range []string{"localhost:" + port, h.admin, "gw.test", "[::1]:" + port} {
			if status, _ := h.asksAdmin(t, path, host, ""); status == http.StatusMisdirectedRequest {
				t.Errorf("%s for Host %s is answered %d", path, host, status)
			}
		}
	}
}

func TestListenersRefuseCONNECT(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	for _, address := range []string{h.public, h.admin} {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\nConnection: close\r\n\r\n", h.admin); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 64)
		n, err := conn.Read(line)
		if err != nil || !strings.HasPrefix(string(line[:n]), "HTTP/1.1 405 ") {
			t.Errorf("%s answers CONNECT with %q (%v)", address, line[:n], err)
		}
	}
}

package httpd_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/httpd"
)

// A trusted proxy names the client in one of several forms, or the request is rejected. A port in
// the header must not bypass limits and blocks.
func TestForwardedHeaderNamesTheClient(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("2001:db8:f::/48")}
	servers := map[string]running{}
	for _, header := range []string{httpd.XForwardedFor, httpd.Forwarded} {
		servers[header] = serve(t, httpd.Config{TrustedProxies: trusted, ForwardedHeader: header}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, bridge.SubnetOf(r.RemoteAddr).String())
		}))
	}
	const refused = `{"error":"bad_forwarded","message":"the proxy in front of this gateway sent no client address"}`
	for _, tt := range []struct{ header, value, want string }{
		{httpd.XForwardedFor, "203.0.113.5", "203.0.113.5/32"},
		{httpd.XForwardedFor, "203.0.113.5:4711", "203.0.113.5/32"},
		{httpd.XForwardedFor, "2001:db8::5", "2001:db8::/64"},
		{httpd.XForwardedFor, "[2001:db8::5]", "2001:db8::/64"},
		{httpd.XForwardedFor, "[2001:db8::5]:443", "2001:db8::/64"},
		{httpd.XForwardedFor, `"[2001:db8::5]:443"`, "2001:db8::/64"},
		{httpd.XForwardedFor, "::ffff:203.0.113.5", "203.0.113.5/32"},
		{httpd.XForwardedFor, "198.51.100.1, 203.0.113.5:1", "203.0.113.5/32"},
		{httpd.XForwardedFor, "unknown, 203.0.113.5", "203.0.113.5/32"}, // only the proxy's entry counts
		{httpd.XForwardedFor, "203.0.113.5:1, 127.0.0.9:2, [2001:db8:f::1]:3", "203.0.113.5/32"},
		{httpd.XForwardedFor, "127.0.0.9", "invalid Prefix"}, // no client is named
		{httpd.XForwardedFor, "", "invalid Prefix"},
		{httpd.XForwardedFor, "a, b:9999", refused},
		{httpd.XForwardedFor, "203.0.113.5,", refused},
		{httpd.XForwardedFor, "unknown", refused},
		{httpd.XForwardedFor, "client.example:80", refused},
		{httpd.XForwardedFor, "[203.0.113.5]", refused},
		{httpd.XForwardedFor, "203.0.113.5:99999", refused},
		{httpd.XForwardedFor, `"203.0.113.5`, refused},
		{httpd.XForwardedFor, "for=203.0.113.5", refused},
		{httpd.XForwardedFor, "b, 127.0.0.9", refused},
		{httpd.Forwarded, "for=203.0.113.5", "203.0.113.5/32"},
		{httpd.Forwarded, `For="203.0.113.5:4711";proto=https;by=10.0.0.1`, "203.0.113.5/32"},
		{httpd.Forwarded, `for=198.51.100.1, proto=https; for="[2001:db8::5]:443"`, "2001:db8::/64"},
		{httpd.Forwarded, `for=203.0.113.5, for="[2001:db8:f::1]"`, "203.0.113.5/32"},
		{httpd.Forwarded, `host="a,b;for=198.51.100.1";for=203.0.113.5`, "203.0.113.5/32"},
		{httpd.Forwarded, "for=unknown", refused},
		{httpd.Forwarded, "for=_hidden", refused},
		{httpd.Forwarded, "proto=https", refused},
		{httpd.Forwarded, "for=203.0.113.5;for=198.51.100.1", refused},
		{httpd.Forwarded, "203.0.113.5", refused},
		{httpd.Forwarded, "", "invalid Prefix"},
	} {
		got, err := get(t.Context(), http.MethodGet, servers[tt.header].url, tt.header, tt.value)
		status := http.StatusOK
		if tt.want == refused {
			status = http.StatusBadRequest
		}
		if err != nil || got.body != tt.want || got.status != status {
			t.Errorf("%s: %s is answered %d %s, %v; want %s", tt.header, tt.value, got.status, got.body, err, tt.want)
		}
	}
	other, err := get(t.Context(), http.MethodGet, servers[httpd.Forwarded].url, "X-Forwarded-For", "203.0.113.5")
	if err != nil || other.body != "invalid Prefix" {
		t.Errorf("the other header is answered %s, %v", other.body, err)
	}
	for header, want := range map[string]bridge.Unforwarded{
		httpd.XForwardedFor: {Header: httpd.XForwardedFor, Unreadable: 9, Unnamed: 2, Last: `"b" is not an address`},
		httpd.Forwarded:     {Header: httpd.Forwarded, Unreadable: 5, Unnamed: 2, Last: "the header is missing"},
	} {
		s := servers[header]
		seen := s.server.Unforwarded()
		if seen.At.IsZero() {
			t.Error("the last one has no time")
		}
		if seen.At = want.At; seen != want {
			t.Errorf("noted %+v, want %+v", seen, want)
		}
		s.stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if log := s.log.String(); strings.Count(log, "trusted proxy sent no client address") != 1 { // in a minute
			t.Errorf("logged %s", log)
		}
	}
}

package httpd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/httpd"
)

// exchange sends the bytes of a request, and returns the answer to it.
func exchange(t *testing.T, url, request string) (answer, error) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return answer{}, err
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		return answer{}, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

func TestGuardRefusesCONNECT(t *testing.T) {
	t.Parallel()
	r := serve(t, httpd.Config{CORSOrigins: []string{"*"}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	for _, target := range []string{"example.org:443", "/federation/relay", "127.0.0.1:22"} {
		got, err := exchange(t, r.url, fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: example.org:443\r\n\r\n", target))
		if err != nil {
			t.Fatal(err)
		}
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" || !strings.Contains(got.body, `"method_not_allowed"`) {
			t.Errorf("CONNECT %s: answered %d %s, Allow %q", target, got.status, got.body, got.header.Get("Allow"))
		}
	}
}

func TestGuardRefusesForeignHosts(t *testing.T) {
	t.Parallel()
	answered := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })
	guarded, open := serve(t, httpd.Config{Hosts: []string{"gw.example"}}, answered), serve(t, httpd.Config{}, answered)
	want := map[string]int{
		"gw.example": 200, "GW.Example.:8081": 200, "localhost": 200, "localhost:8081": 200, "127.0.0.1:8081": 200, "[::1]:8081": 200,
		"192.0.2.7": 200, "evil.example": 421, "evil.example:8081": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
		"gw.example.evil.example:8081": 421, "": 200,
	}
	got := map[string]int{}
	for host := range want {
		for _, r := range []running{guarded, open} {
			response, err := exchange(t, r.url, fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host))
			if err != nil {
				t.Fatal(err)
			}
			if r.url == open.url {
				if response.status != http.StatusOK {
					t.Errorf("without names, Host %q is answered %d", host, response.status)
				}
				continue
			}
			got[host] = response.status
			if response.status == http.StatusMisdirectedRequest && strings.Contains(response.body, "secret") {
				t.Errorf("Host %q: answered %s", host, response.body)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers by Host: -want +got:\n%s", diff)
	}
	if log := guarded.log.String(); !strings.Contains(log, "foreign Host") || !strings.Contains(log, "evil.example") {
		t.Errorf("logged %s", log)
	}
}

func TestGuardAllowsAnyOriginOnEveryAnswer(t *testing.T) {
	t.Parallel()
	r := serve(t, httpd.Config{CORSOrigins: []string{"*"}}, http.NotFoundHandler())
	restricted := serve(t, httpd.Config{CORSOrigins: []string{"https://app.example"}}, http.NotFoundHandler())
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		got, err := get(t.Context(), method, r.url+"/api/presence")
		if err != nil {
			t.Fatal(err)
		}
		if origin := got.header.Get("Access-Control-Allow-Origin"); origin != "*" {
			t.Errorf("%s without Origin: allowed %q", method, origin)
		}
		if got, err = get(t.Context(), method, restricted.url+"/api/presence"); err != nil {
			t.Fatal(err)
		}
		if origin := got.header.Get("Access-Control-Allow-Origin"); origin != "" {
			t.Errorf("%s where one origin may: allowed %q", method, origin)
		}
	}
}

package identity_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type names struct {
	mu      sync.Mutex
	address netip.Addr
}

func (n *names) say(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.address = netip.MustParseAddr(address)
}

func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(theirs)
		return ours, nil
	}}
}

// serve answers questions on a stream, each with its length before it.
func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	for {
		text := make([]byte, 512)
		if _, err := conn.Read(text[:2]); err != nil {
			return
		}
		length := int(text[0])<<8 | int(text[1])
		if _, err := conn.Read(text[:length]); err != nil {
			return
		}
		answer, err := n.answer(text[:length])
		if err != nil {
			return
		}
		if _, err := conn.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

func (n *names) answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: n.address.As4()},
		}}
	}
	return m.Pack()
}

func TestClientRefusesDNSRebinding(t *testing.T) {
	var asked atomic.Int32
	listener := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	listener.Config.ConnState = func(net.Conn, http.ConnState) { asked.Add(1) }
	_, port, err := net.SplitHostPort(listener.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dns := &names{}
	config := insideConfig()
	config.AllowPrivate, config.Resolver = false, dns.resolver(t)
	client := identity.NewClient(config)
	address := "https://hook.example:" + port + "/"
	dns.say("93.184.216.34")
	if err := client.Callable(t.Context(), address); err != nil {
		t.Fatalf("a public address: %v", err)
	}
	for _, inside := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254"} {
		dns.say(inside)
		if err := client.Callable(t.Context(), address); !errors.Is(err, identity.ErrNotAllowed) {
			t.Errorf("%s is callable: %v", inside, err)
		}
		if _, err := client.Call(t.Context(), address, http.Header{}, nil); !errors.Is(err, identity.ErrNotAllowed) {
			t.Errorf("%s is called: %v", inside, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server saw %d connections", n)
	}
}

func TestPeerClientRefusesAddresses(t *testing.T) {
	config := insideConfig()
	config.AllowPrivate = false
	client := identity.NewClient(config)
	for name, address := range map[string]string{
		"plain http":                "http://hook.example/",
		"another scheme":            "gopher://hook.example/",
		"no host":                   "https:///path",
		"no address":                "https://%zz",
		"a user before the host":    "https://user:secret@hook.example/",
		"a fragment":                "https://hook.example/#x",
		"loopback":                  "https://127.0.0.1/",
		"loopback of IPv6":          "https://[::1]/",
		"loopback inside IPv6":      "https://[::ffff:127.0.0.1]/",
		"loopback in other words":   "https://2130706433/",
		"loopback in octal":         "https://0177.0.0.1/",
		"a private network":         "https://192.168.1.1/",
		"where clouds keep secrets": "https://169.254.169.254/",
		"a name that leads inside":  "https://localhost/",
	} {
		if err := client.Callable(t.Context(), address); !errors.Is(err, identity.ErrNotAllowed) {
			t.Errorf("%s: %v", name, err)
		}
		if err := client.Callable(t.Context(), address); err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s tells a password: %v", name, err)
		}
	}
}

func receiver(t *testing.T, answer http.HandlerFunc) (address string, calls *atomic.Int32) {
	t.Helper()
	calls = &atomic.Int32{}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // before that a server does not notice a closed connection
		answer(w, r)
	})
	return server.URL, calls
}

func TestPeerClientReadsOnlyTheStatus(t *testing.T) {
	inner, reached := receiver(t, func(http.ResponseWriter, *http.Request) {})
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   identity.Answer
	}{
		"a body that is cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusAccepted)
		}, identity.Answer{Status: http.StatusAccepted}},
		"a body without end": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, identity.Answer{Status: http.StatusOK}},
		"a redirect inside": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inner, http.StatusTemporaryRedirect)
		}, identity.Answer{Status: http.StatusTemporaryRedirect}},
		"a time to come again": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, identity.Answer{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Minute}},
		"one that is gone": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, identity.Answer{Status: http.StatusGone}},
	} {
		t.Run(name, func(t *testing.T) {
			address, calls := receiver(t, tt.answer)
			got, err := identity.NewClient(insideConfig()).Call(t.Context(), address, http.Header{"X-Test": {"1"}}, []byte("{}"))
			if err != nil || got.Status != tt.want.Status || got.RetryAfter != tt.want.RetryAfter {
				t.Errorf("answered %+v, %v, want %+v", got, err, tt.want)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

func TestPeerClientTimesOut(t *testing.T) {
	config := insideConfig()
	config.Timeout = 50 * time.Millisecond
	address, _ := receiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := identity.NewClient(config).Call(t.Context(), address, http.Header{}, nil)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Errorf("got %v, want unavailable", err)
	}
	var slow interface{ Timeout() bool }
	if !errors.As(err, &slow) || !slow.Timeout() {
		t.Errorf("nothing says that it took too long: %v", err)
	}
}

func TestPeerClientLimitsCallsPerHost(t *testing.T) {
	config := insideConfig()
	config.PerHost = 2
	address, calls := receiver(t, func(http.ResponseWriter, *http.Request) {})
	client := identity.NewClient(config)
	var err error
	for range 3 {
		_, err = client.Call(t.Context(), address, http.Header{}, nil)
	}
	if !errors.Is(err, identity.ErrTurn) || calls.Load() != 2 {
		t.Errorf("the third of %d calls: %v", calls.Load(), err)
	}
}

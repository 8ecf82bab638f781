package identity_test

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
)

type nameServer struct {
	conn net.PacketConn

	mu     sync.Mutex
	trick  federationtest.Trick
	asked  map[dnsmessage.Type]int
	served sync.WaitGroup
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	s.served.Go(s.serve)
	t.Cleanup(func() {
		conn.Close()
		s.served.Wait()
	})
	return s
}

func (s *nameServer) play(trick federationtest.Trick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trick, s.asked = trick, make(map[dnsmessage.Type]int)
}

func (s *nameServer) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return // closed
		}
		if reply, err := s.answer(packet[:n]); err == nil {
			_, _ = s.conn.WriteTo(reply, from) // the client may be gone
		}
	}
}

func (s *nameServer) answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for _, address := range s.next(m.Questions[0].Type) {
		head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}
		switch {
		case m.Questions[0].Type == dnsmessage.TypeA && address.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: address.As4()}})
		case m.Questions[0].Type == dnsmessage.TypeAAAA && address.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: address.As16()}})
		}
	}
	return m.Pack()
}

func (s *nameServer) next(kind dnsmessage.Type) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trick.Answers) == 0 {
		return nil
	}
	n := min(s.asked[kind], len(s.trick.Answers)-1)
	s.asked[kind]++
	return s.trick.Answers[n]
}

func TestClientRefusesTricks(t *testing.T) {
	const public = "public.example.com:443" // a name that the test server has a certificate for
	var location atomic.Value
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, location.Load().(string), http.StatusFound)
	}))
	t.Cleanup(host.Close)
	pool := x509.NewCertPool()
	pool.AddCert(host.Certificate())
	var inside atomic.Int32
	listener := serve(t, func(http.ResponseWriter, *http.Request) { inside.Add(1) })
	listener.Config.ConnState = func(net.Conn, http.ConnState) { inside.Add(1) }
	_, port, err := net.SplitHostPort(listener.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	names := newNameServer(t)
	table, err := federationtest.Tricks(port)
	if err != nil {
		t.Fatal(err)
	}
	if len(table) < 60 {
		t.Errorf("the table has %d tricks, want 60 at least", len(table))
	}
	for _, trick := range table {
		t.Run(trick.Name, func(t *testing.T) {
			names.play(trick)
			location.Store(trick.Location)
			client := identity.NewClient(identity.FetchConfig{Timeout: 5 * time.Second, MaxBytes: 1000, PerHost: 100})
			identity.ResolveWith(client, names.conn.LocalAddr().String())
			if trick.Location != "" {
				identity.Trust(client, pool)
				identity.Publish(client, public, host.Listener.Addr().String())
			}
			for range max(1, len(trick.Answers)) {
				body, err := client.Get(t.Context(), trick.Address)
				if !refusedByUs(err) {
					t.Errorf("got %d bytes and %v, want our own refusal", len(body), err)
				}
			}
		})
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("inside, %d connections were seen", n)
	}
}

// refusedByUs reports whether a fetch ended before anything was dialled, by a rule
// and not by luck.
func refusedByUs(err error) bool {
	return errors.Is(err, identity.ErrNotAllowed) || errors.Is(err, ssrf.ErrProhibitedIP) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork)
}

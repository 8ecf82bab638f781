package main_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// silent is a host that accepts connections and never says a word. It keeps them open
// until it is closed.
type silent struct {
	addr string

	mu    sync.Mutex
	calls []net.Conn
}

// newSilent starts a host that ends with the test.
func newSilent(t *testing.T) *silent {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silent{addr: listener.Addr().String()}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			call, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.calls = append(s.calls, call)
			s.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		for _, call := range s.calls {
			_ = call.Close()
		}
	})
	return s
}

// called tells how many connections were made.
func (s *silent) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// signer returns a key of a did:web whose document is at the host.
func (s *silent) signer(t *testing.T) federation.SigningKey {
	t.Helper()
	key := newKey(t)
	key.DID = federation.DID("did:web:" + url.QueryEscape(s.addr))
	return key
}

// silentSigners returns keys of so many did:webs, each at a host of its own.
func silentSigners(t *testing.T, n int) []federation.SigningKey {
	t.Helper()
	keys := make([]federation.SigningKey, n)
	for i := range keys {
		keys[i] = newSilent(t).signer(t)
	}
	return keys
}

// dialSilently opens a connection that sends some text and no more.
func dialSilently(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprint(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

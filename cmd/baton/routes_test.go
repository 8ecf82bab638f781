package main_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// host serves documents of did:webs, over TLS.
type host struct {
	*httptest.Server
	did string // of the host itself; agents are below it
}

// newHost serves documents by their paths. Programs started afterwards trust
// it.
func newHost(t *testing.T, documents func(of host) map[string]string) host {
	t.Helper()
	cert := certify(t, newHouse(t), "localhost")
	t.Setenv("SSL_CERT_FILE", cert.certFile)
	mux := http.NewServeMux()
	h := host{Server: httptest.NewUnstartedServer(mux)}
	h.TLS = &tls.Config{Certificates: []tls.Certificate{cert.certificate}, MinVersion: tls.VersionTLS12}
	h.StartTLS()
	t.Cleanup(h.Close)
	_, port, err := net.SplitHostPort(h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	h.did = "did:web:localhost%3A" + port
	for path, text := range documents(h) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	return h
}

// The home of a mailbox is found by only the DID: its document names it, or the host of
// the DID does. The DID was never seen there before.
func TestRouteFollowsTheMailboxOfADID(t *testing.T) {
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	b.start(t)
	status, profile := get(t, b.url()+"/.well-known/baton")
	if status != http.StatusOK {
		t.Fatalf("the well-known document of b: %d %s", status, profile)
	}
	_, bob := b.key(t, 2)
	key := strings.TrimPrefix(bob, "did:key:")
	document := func(did, service string) string {
		return `{"id":"` + did + `","verificationMethod":[{"id":"#1","type":"Multikey","controller":"` + did + `","publicKeyMultibase":"` + key + `"}]` + service + `}`
	}
	other := newHost(t, func(of host) map[string]string {
		return map[string]string{
			"/bob/did.json":      document(of.did+":bob", `,"service":[{"id":"#baton","type":"BatonHome","serviceEndpoint":"`+b.url()+`"}]`),
			"/carol/did.json":    document(of.did+":carol", ""),
			"/.well-known/baton": profile,
		}
	})
	a.start(t)
	alice, _ := a.key(t, 1)
	for _, name := range []string{"bob", "carol"} {
		id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", other.did+":"+name, "--title", "Found you")
		agree(t, id, "offer", a, b)
		if out := b.must(t, "inbox", "show", other.did+":"+name); !strings.Contains(out, id) {
			t.Errorf("%s at b has: %s", name, out)
		}
	}
}

package identity_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// maxHeld is far more than a host can make this program read of one document, including the buffers
// of both ends.
const maxHeld = 8 << 20

// flood writes without end, and counts the bytes taken by the far side.
func flood(taken *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for chunk := []byte(strings.Repeat("[", 1<<16)); ; {
			n, err := w.Write(chunk)
			taken.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

// hosts is a host of did:web documents and a directory of did:plc, on loopback, which
// answer as a test has it.
type hosts struct {
	web, plc *httptest.Server
	handler  atomic.Value // http.HandlerFunc
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	h := &hosts{}
	handle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.handler.Load().(http.HandlerFunc)(w, r) })
	h.web, h.plc = httptest.NewTLSServer(handle), httptest.NewServer(handle)
	t.Cleanup(h.web.Close)
	t.Cleanup(h.plc.Close)
	return h
}

// did is that of the host, with its port.
func (h *hosts) did() federation.DID {
	return federation.DID("did:web:" + strings.Replace(h.web.Listener.Addr().String(), ":", "%3A", 1))
}

func (h *hosts) source(t *testing.T) *identity.KeySource {
	t.Helper()
	client := identity.NewClient(identity.FetchConfig{AllowPrivate: true, Timeout: 300 * time.Millisecond, MaxBytes: 64 << 10, PerHost: 100})
	pool := x509.NewCertPool()
	pool.AddCert(h.web.Certificate())
	identity.Trust(client, pool)
	directory := identity.NewDirectory(identity.DirectoryConfig{
		PLC: h.plc.URL, Fresh: time.Hour, Negative: time.Minute, Stale: time.Hour,
	}, client)
	return newKeySource(directory, client, storetest.Open(t))
}

// judge returns the verdict on a step of a DID, signed by the private key of a seed.
func judge(t *testing.T, source *identity.KeySource, did federation.DID, seed byte, spoil bool) federation.Verdict {
	t.Helper()
	ev := federationtest.Offer(1, did, "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
	ev.Fields = map[string]string{"handoff": "offer", "handoff-title": "t"}
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	signed, err := signing.Seal(t.Context(), federation.SigningKey{
		Public: seededKey(seed),
		Sign:   func(_ context.Context, m []byte) ([]byte, error) { return ed25519.Sign(private, m), nil },
	}, ev)
	if err != nil {
		t.Fatal(err)
	}
	if spoil {
		signed.Fields["handoff-title"] = "another"
	}
	_, verdict, _ := signing.Verify(t.Context(), source, signed) // the verdict says it all
	return verdict
}

func TestKeySourceVerdictUnderHostFaults(t *testing.T) {
	h := newHosts(t)
	l, _, _ := newLedger() // whose key is b
	var taken atomic.Int64
	elsewhere := serve(t, answer(page(h.did(), seededKey('b'))))
	const (
		valid, invalid, unverifiable = federation.Valid, federation.Invalid, federation.Unverifiable
	)
	for name, test := range map[string]struct {
		web, plc http.HandlerFunc // both the same if there is no plc
		want     federation.Verdict
		seed     byte
		spoil    bool
	}{
		"a good one": {
			web: answer(page(h.did(), seededKey('b'))), plc: answer(l.page()), seed: 'b', want: valid,
		},
		"a good one, and a step that was changed": {
			web: answer(page(h.did(), seededKey('b'))), plc: answer(l.page()), seed: 'b', spoil: true, want: invalid,
		},
		"a good one, and a key that is not listed": {
			web: answer(page(h.did(), seededKey('b'))), plc: answer(l.page()), seed: 'x', want: unverifiable,
		},
		"a slow one": {
			web: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, seed: 'b', want: unverifiable,
		},
		"one that trickles": {
			web: func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					_, _ = w.Write([]byte(" "))
					w.(http.Flusher).Flush()
					<-time.After(10 * time.Millisecond) // which is how it trickles
				}
			}, seed: 'b', want: unverifiable,
		},
		"a huge one": {web: flood(&taken), seed: 'b', want: unverifiable},
		"one with a huge head": {
			web: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Padding", strings.Repeat("x", 1<<20))
				_, _ = w.Write([]byte(page(h.did(), seededKey('b'))))
			}, seed: 'b', want: unverifiable,
		},
		"one that redirects elsewhere": {
			web: http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, seed: 'b', want: unverifiable,
		},
		"one that redirects without end": {
			web: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, seed: 'b', want: unverifiable,
		},
		"one that has the document of another": {
			web: answer(page("did:web:bob.example", seededKey('b'))), plc: answer(l.page()[:len(l.page())-1] + " "), seed: 'b', want: unverifiable,
		},
		"one that lists another's key": {
			web: answer(page(h.did(), seededKey('x'))), plc: answer(strings.ReplaceAll(l.page(), multikey(seededKey('b')), multikey(seededKey('x')))),
			seed: 'b', want: unverifiable,
		},
		"one that lies to let a thief in": { // the thief has a key listed; the host of a did:web decides its keys
			plc:  answer(strings.ReplaceAll(l.page(), multikey(seededKey('b')), multikey(seededKey('x')))),
			seed: 'x', want: unverifiable,
		},
		"one that nests": {web: answer(strings.Repeat("[", 60_000)), seed: 'b', want: unverifiable},
		"one that has nothing": {
			web: http.NotFound, seed: 'b', want: unverifiable,
		},
		"one that is broken": {
			web:  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			seed: 'b', want: unverifiable,
		},
		"one that hangs up": {
			web:  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			seed: 'b', want: unverifiable,
		},
	} {
		if test.plc == nil {
			test.plc = test.web
		}
		for did, handler := range map[federation.DID]http.HandlerFunc{h.did(): test.web, l.did: test.plc} {
			if handler == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", name, did.Method()), func(t *testing.T) {
				h.handler.Store(handler)
				if got := judge(t, h.source(t), did, test.seed, test.spoil); got != test.want {
					t.Errorf("verdict %s, want %s", got, test.want)
				}
			})
		}
	}
	if n := taken.Load(); n > maxHeld {
		t.Errorf("%d bytes of an endless document were taken", n)
	}
	t.Run("dead ones", func(t *testing.T) {
		h.web.Close()
		h.plc.Close()
		for _, did := range []federation.DID{h.did(), l.did} {
			if got := judge(t, h.source(t), did, 'b', false); got != unverifiable {
				t.Errorf("%s: verdict %s, want unverifiable", did.Method(), got)
			}
		}
	})
}

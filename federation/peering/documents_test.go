package peering_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/peering"
	"github.com/baton-gateway/baton/federation/signing"
)

type histories federation.KeyHistory

func (h histories) History(context.Context, federation.DID) (federation.KeyHistory, error) {
	return federation.KeyHistory(h), nil
}

// recorded returns a key that a document named for b.test.
func recorded(key federation.SigningKey) histories {
	return histories{{DID: "did:web:b.test", Public: key.Public, KeyID: federation.KeyID(key.Public), Origin: federation.DocumentKey, Since: time.Now().Add(-time.Hour)}}
}

// hidden is b.test behind NAT: a hub brings its document.
type hidden struct {
	key, signer federation.SigningKey // of the document, and of the answer
	linked      peering.Linked
	accounts    bool
	known       histories
	log         strings.Builder
}

func newHidden() *hidden {
	h := &hidden{key: keyOf("b"), signer: keyOf("b"), accounts: true}
	h.linked = peering.Linked{
		Home:    "b.test",
		Vouches: func(context.Context) (bool, error) { return h.accounts, nil },
		Lookup: func(ctx context.Context, _ federation.URLPath) (peering.Answer, error) {
			key := h.key
			key.DID = "did:web:b.test"
			answer := peering.Answer{Document: identity.DIDDocument(key, ""), Signed: []byte("the answer")}
			var err error
			answer.Signature, err = signing.SignHome(ctx, h.signer, answer.Signed)
			return answer, err
		},
		Get: func(context.Context, string) ([]byte, error) {
			return nil, &federation.UnavailableError{What: "b.test", Err: errors.New("connection refused")}
		},
	}
	return h
}

func (h *hidden) read(t *testing.T) ([]byte, error) {
	t.Helper()
	documents := &peering.Documents{
		Linked: func(home federation.HomeID) (peering.Linked, bool) { return h.linked, home == "b.test" },
		Keys:   func() federation.KeySource { return nil }, Histories: h.known, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
	}
	body, known, err := documents.Read(t.Context(), "b.test", "/.well-known/did.json")
	if !known {
		t.Error("b.test is not known")
	}
	return body, err
}

func TestDocumentsReadTheKeyThroughAHub(t *testing.T) {
	t.Parallel()
	other := keyOf("another home")
	for name, test := range map[string]struct {
		change func(h *hidden)
		want   string // in the error; "" if the document is believed
	}{
		"is believed at a hub with accounts":                    {func(*hidden) {}, ""},
		"is believed where an address does not answer":          {func(h *hidden) { h.linked.URL = "https://b.test" }, ""},
		"is not believed at a hub without accounts":             {func(h *hidden) { h.accounts = false }, "set key in [[peers]]"},
		"is believed where it is on record":                     {func(h *hidden) { h.accounts, h.known = false, recorded(keyOf("b")) }, ""},
		"is not believed beside one on record, with an address": {func(h *hidden) { h.linked.URL, h.known = "https://b.test", recorded(other) }, "make https://b.test reachable"},
		"replaces one on record, without an address":            {func(h *hidden) { h.known = recorded(other) }, ""},
		"is believed where it is configured":                    {func(h *hidden) { h.accounts, h.linked.Key = false, federation.KeyID(keyOf("b").Public) }, ""},
		"is not believed where another one is configured":       {func(h *hidden) { h.linked.Key = federation.KeyID(other.Public) }, "[[peers]] key is"},
		"is not believed where it did not sign the answer":      {func(h *hidden) { h.signer = other }, "no key of the document signed it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHidden()
			test.change(h)
			body, err := h.read(t)
			_, away := errors.AsType[*federation.UnavailableError](err)
			switch {
			case test.want == "" && (err != nil || len(body) == 0):
				t.Errorf("it is not believed: %v", err)
			case test.want != "" && (!away || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q and that it is no verdict", err, test.want)
			}
		})
	}
}

func TestDocumentsLogAKeyVouchedByTheHub(t *testing.T) {
	t.Parallel()
	for want, known := range map[string]histories{
		"key of a home accepted from the hub": nil, "home has another key according to the hub": recorded(keyOf("a")),
	} {
		h := newHidden()
		h.known = known
		if _, err := h.read(t); err != nil || !strings.Contains(h.log.String(), want) || !strings.Contains(h.log.String(), federation.KeyID(h.key.Public)) {
			t.Errorf("want %q: %v, %s", want, err, h.log.String())
		}
	}
}

func TestDocumentsPreferHTTPSToTheHub(t *testing.T) {
	t.Parallel()
	h := newHidden()
	h.linked.URL = "https://b.test"
	h.linked.Get = func(_ context.Context, address string) ([]byte, error) { return []byte(address), nil }
	if body, err := h.read(t); err != nil || string(body) != "https://b.test/.well-known/did.json" {
		t.Errorf("got %s, %v", body, err)
	}
	h.linked.Get = func(context.Context, string) ([]byte, error) {
		return nil, &federation.UnavailableError{What: "b.test", Err: federation.ErrNotFound}
	}
	if _, err := h.read(t); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a document that is not there: %v", err)
	}
	h.linked.Get = func(context.Context, string) ([]byte, error) { return make([]byte, 1<<20), nil }
	if _, err := h.read(t); !errors.Is(err, identity.ErrTooLarge) {
		t.Errorf("a large document: %v", err)
	}
}

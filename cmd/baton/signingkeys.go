package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"

	"baton/federation"
	"baton/federation/identity"
)

// signingKeys serves the keys of those whose steps this gateway writes on freeq
// servers, which look up there each key that they do not know.
//
// spec: freeq-rest "Keys"
type signingKeys struct {
	server func() []federation.SigningKey // of the gateway itself, those that are being retired too
	keys   federation.Keys
}

// mount registers the routes.
func (s signingKeys) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/signing-keys/{did}", s.serve)
	mux.HandleFunc("GET /api/v1/signing-keys/{did}/{kid}", s.serve)
}

// servedKey is one answer.
type servedKey struct {
	DID       federation.DID `json:"did"`
	KeyID     string         `json:"kid,omitempty"`
	Algorithm string         `json:"algorithm"`
	PublicKey string         `json:"public_key"`
	Encoding  string         `json:"encoding"`
	Source    string         `json:"source"`
}

func (s signingKeys) serve(w http.ResponseWriter, r *http.Request) {
	kid := r.PathValue("kid")
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		answer(w, http.StatusNotFound, []byte(`{"error":"no such key"}`))
		return
	}
	key, err := s.find(r.Context(), did, kid)
	switch {
	case err != nil:
		answer(w, http.StatusServiceUnavailable, []byte(`{"error":"the keys cannot be read now"}`))
		return
	case key == nil:
		answer(w, http.StatusNotFound, []byte(`{"error":"no such key"}`))
		return
	}
	text, err := json.Marshal(servedKey{
		DID: did, KeyID: kid, Algorithm: "ed25519", PublicKey: base64.RawURLEncoding.EncodeToString(key),
		Encoding: "base64url", Source: "key-store",
	})
	if err != nil {
		answer(w, http.StatusInternalServerError, []byte(`{"error":"internal"}`))
		return
	}
	answer(w, http.StatusOK, text)
}

// find returns the key of a DID with an id, or the first one known where that is
// empty; nil for none. Keys are on record for ever. The key of a did:key and the keys of the
// gateway itself need no record. A key that a freeq server serves for its user is served to the
// other freeq servers, unless any other source has named a key of that DID: a server must not
// speak for the users of another one. A request makes this gateway fetch nothing.
func (s signingKeys) find(ctx context.Context, did federation.DID, kid string) (ed25519.PublicKey, error) {
	fits := func(key ed25519.PublicKey) bool { return len(key) > 0 && (kid == "" || kid == federation.KeyID(key)) }
	history, err := s.keys.History(ctx, did)
	if err != nil {
		return nil, err
	}
	for _, w := range history {
		if (w.Origin != federation.PeerKey || oneSource(history)) && fits(w.Public) {
			return w.Public, nil
		}
	}
	for _, key := range s.server() {
		if did == key.DID && fits(key.Public) {
			return key.Public, nil
		}
	}
	if key, err := identity.ParseKeyDID(did); err == nil && fits(key) {
		return key, nil
	}
	return nil, nil
}

// oneSource reports whether one source alone has named keys of a DID.
func oneSource(history federation.KeyHistory) bool {
	return !slices.ContainsFunc(history, func(w federation.KeyWindow) bool {
		return w.Origin != history[0].Origin || w.Via != history[0].Via
	})
}

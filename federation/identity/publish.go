package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Publisher serves the keys for verifying signatures: the gateway's DID document, and the keys of
// signers whose steps the gateway writes on freeq servers.
//
// spec: did:web "Read"
// spec: freeq-rest "Keys"
type Publisher struct {
	Home      federation.HomeID
	PublicURL string // of the gateway, without a path
	Keyring   *Keyring
	Keys      federation.Keys
}

// Mount registers the routes.
func (p Publisher) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/did.json", p.serveDocument)
	mux.HandleFunc("GET /api/v1/signing-keys/{did}", p.serveKey)
	mux.HandleFunc("GET /api/v1/signing-keys/{did}/{kid}", p.serveKey)
}

func (p Publisher) serveDocument(w http.ResponseWriter, _ *http.Request) {
	good := p.Keyring.Good(ServerKey, time.Now())
	var retiring []ed25519.PublicKey
	for _, key := range good[1:] {
		retiring = append(retiring, key.Public)
	}
	w.Header().Set("Content-Type", "application/did+json")
	document := DIDDocument(federation.SigningKey{DID: p.Home.DID(), Public: good[0].Public}, p.PublicURL, retiring...)
	_, _ = w.Write(document) // the client is gone
}

type servedKey struct {
	DID       federation.DID `json:"did"`
	KeyID     string         `json:"kid,omitempty"`
	Algorithm string         `json:"algorithm"`
	PublicKey string         `json:"public_key"`
	Encoding  string         `json:"encoding"`
	Source    string         `json:"source"`
}

type keyProblem struct {
	Error string `json:"error"`
}

func (p Publisher) serveKey(w http.ResponseWriter, r *http.Request) {
	kid := r.PathValue("kid")
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		writeKeyAnswer(w, http.StatusNotFound, keyProblem{"no such key"})
		return
	}
	key, err := p.find(r.Context(), did, kid)
	switch {
	case err != nil:
		writeKeyAnswer(w, http.StatusServiceUnavailable, keyProblem{"the keys cannot be read now"})
	case key == nil:
		writeKeyAnswer(w, http.StatusNotFound, keyProblem{"no such key"})
	default:
		writeKeyAnswer(w, http.StatusOK, servedKey{
			DID: did, KeyID: kid, Algorithm: "ed25519", PublicKey: base64.RawURLEncoding.EncodeToString(key),
			Encoding: "base64url", Source: "key-store",
		})
	}
}

func writeKeyAnswer(w http.ResponseWriter, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// The ID "" finds the first key; the result may be nil. A server must not represent users of another
// server. A key from a freeq server is therefore served only if no other source has listed a key of that
// DID. A request never causes a fetch.
func (p Publisher) find(ctx context.Context, did federation.DID, kid string) (ed25519.PublicKey, error) {
	fits := func(key ed25519.PublicKey) bool { return len(key) > 0 && (kid == "" || kid == federation.KeyID(key)) }
	history, err := p.Keys.History(ctx, did)
	if err != nil {
		return nil, err
	}
	for _, w := range history {
		if (w.Origin != federation.PeerKey || oneSource(history)) && fits(w.Public) {
			return w.Public, nil
		}
	}
	for _, key := range p.Keyring.ServerKeys(p.Home, time.Now()) {
		if did == key.DID && fits(key.Public) {
			return key.Public, nil
		}
	}
	if key, err := ParseKeyDID(did); err == nil && fits(key) {
		return key, nil
	}
	return nil, nil
}

// ServerKeys returns the keys that verify the gateway's signatures at the given time, the signing key
// first.
func (k *Keyring) ServerKeys(home federation.HomeID, now time.Time) []federation.SigningKey {
	keys := []federation.SigningKey{k.Server(home)}
	for _, key := range k.Good(ServerKey, now)[1:] {
		keys = append(keys, federation.SigningKey{Public: key.Public, DID: home.DID()})
	}
	return keys
}

func oneSource(history federation.KeyHistory) bool {
	return !slices.ContainsFunc(history, func(w federation.KeyWindow) bool {
		return w.Origin != history[0].Origin || w.Via != history[0].Via
	})
}

// DIDDocument returns the document of a did:web: the signing key, then the other valid keys, and the
// address of the mailbox home, which may be "". It is deterministic, so that it may be cached.
//
// spec: did-core §5.2, §5.3; controlled-identifiers §2.2.2
func DIDDocument(key federation.SigningKey, mailbox string, retiring ...ed25519.PublicKey) []byte {
	return writeDocument(key, nil, mailbox, retiring)
}

// AgentDocument is a [DIDDocument] for an agent whose key the gateway keeps, with its other DIDs.
//
// spec: did-core §5.1.3
func AgentDocument(did federation.DID, kept ed25519.PublicKey, mailbox string, others ...federation.DID) []byte {
	return writeDocument(federation.SigningKey{DID: did, Public: kept}, others, mailbox, nil)
}

func writeDocument(key federation.SigningKey, others []federation.DID, mailbox string, retiring []ed25519.PublicKey) []byte {
	document := struct {
		Context            []string         `json:"@context"`
		ID                 federation.DID   `json:"id"`
		AlsoKnownAs        []federation.DID `json:"alsoKnownAs,omitempty"`
		VerificationMethod []ownMethod      `json:"verificationMethod"`
		AssertionMethod    []string         `json:"assertionMethod"`
		Authentication     []string         `json:"authentication"`
		Service            []service        `json:"service,omitempty"`
	}{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		ID:      key.DID, AlsoKnownAs: others,
	}
	for _, public := range append([]ed25519.PublicKey{key.Public}, retiring...) {
		method := newOwnMethod(key.DID, public)
		document.VerificationMethod = append(document.VerificationMethod, method)
		document.AssertionMethod = append(document.AssertionMethod, method.ID)
	}
	if mailbox != "" {
		document.Service = []service{{ID: string(key.DID) + "#baton", Type: mailboxService, Endpoint: mailbox}}
	}
	document.Authentication = document.AssertionMethod[:1] // the private part of a retiring key is deleted
	text, err := json.Marshal(document)
	if err != nil {
		panic("identity: write DID document: " + err.Error()) // it contains only strings
	}
	return text
}

func newOwnMethod(did federation.DID, public ed25519.PublicKey) ownMethod {
	return ownMethod{
		ID: string(did) + "#" + federation.KeyID(public), Type: "Multikey", Controller: string(did), PublicKeyMultibase: writeMultibase(federation.PublicKey{Kind: federation.Ed25519, Bytes: public}),
	}
}

type ownMethod struct {
	ID                 string `json:"id"`
	Type               string `json:"type"`
	Controller         string `json:"controller"`
	PublicKeyMultibase string `json:"publicKeyMultibase"`
}

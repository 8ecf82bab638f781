package participant

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// Login returns the new session of a DID proved with a key. The signed bytes name this gateway.
func Login(did federation.DID, key federation.PublicKey, address string, now time.Time) federation.Session {
	return credential.NewSession(federation.Session{
		Participant: string(did), Began: federation.BeganDID, Bound: true, Key: federation.KeyID(key.Bytes), Address: address,
	}, now)
}

// NotProved explains why a signature does not prove a DID; err may be a problem with the DID's document.
func NotProved(did federation.DID, err error) string {
	said := "the signature is not that of a key of " + string(did)
	if err != nil {
		said += ": " + err.Error()
	}
	return said
}

// WriteJSON answers a request with a document.
func WriteJSON(w http.ResponseWriter, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// Denied answers a request without a valid token; metadata is the URL of the resource's metadata, or "".
//
// spec: RFC 9728 §5.1
func Denied(w http.ResponseWriter, err error, metadata string) bridge.ProblemError {
	p := ProblemOf(err)
	if p.Status == http.StatusUnauthorized {
		challenge := "Bearer"
		if metadata != "" {
			challenge += ` resource_metadata="` + metadata + `"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	bridge.RetryHeader(w.Header(), p.Status, p.RetryAfter)
	w.Header().Set("Cache-Control", "no-store")
	WriteJSON(w, p.Status, p)
	return p
}

package agentapi

import (
	"net/http"
	"time"

	"baton/bridge/credential"
	"baton/federation"
)

// newTokens returns the tokens of this API.
func newTokens(key []byte, home federation.HomeID) *credential.Tokens {
	return credential.NewTokens(key, string(home), func(credential.Use) string { return string(home) + Prefix })
}

// Proved returns what finds the DID that a token of this API in a request is for, for
// networks that serve the same callers.
func Proved(key []byte, home federation.HomeID) func(r *http.Request, now time.Time) (federation.DID, bool) {
	tokens := newTokens(key, home)
	return func(r *http.Request, now time.Time) (federation.DID, bool) {
		text, err := credential.Bearer(r)
		if err != nil {
			return "", false
		}
		claims, err := tokens.Read(text, credential.Access, now)
		return federation.DID(claims.Subject), err == nil
	}
}

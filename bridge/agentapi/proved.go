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

// Authenticate implements [bridge.Authenticator]: callers that proved a DID here keep the
// token on the other routes of the gateway.
func (l *Link) Authenticate(r *http.Request) (did federation.DID, ok bool, err error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return "", false, nil //nolint:nilerr // the request carries no token
	}
	claims, err := l.tokens.Read(text, credential.Access, time.Now())
	return federation.DID(claims.Subject), err == nil, nil
}

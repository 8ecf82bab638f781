package agentapi

import (
	"net/http"
	"time"

	"baton/bridge/credential"
	"baton/federation"
)

// Authenticate implements [bridge.Authenticator]: callers that proved a DID here keep the
// token on the other routes of the gateway.
func (l *Link) Authenticate(r *http.Request) (did federation.DID, ok bool, err error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return "", false, nil //nolint:nilerr // the request carries no token
	}
	claims, err := l.access.Tokens().Read(text, credential.Access, time.Now())
	return federation.DID(claims.Subject), err == nil, nil
}

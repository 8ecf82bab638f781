package agentapi

import (
	"errors"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
)

// Authenticate implements [bridge.Authenticator]: callers that proved a DID here keep the
// token on the other routes of the gateway.
func (l *Link) Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return who, false, nil //nolint:nilerr // the request carries no token
	}
	now := time.Now()
	claims, err := l.access.Tokens().Read(text, credential.Access, now)
	if err != nil {
		return who, false, nil //nolint:nilerr // the token may be that of another link
	}
	who.DID = federation.DID(claims.Subject)
	who.Session, err = credential.SessionOf(r.Context(), l.deps.Sessions, claims, now)
	if errors.Is(err, credential.ErrSession) || errors.Is(err, federation.ErrSessionEnded) {
		return who, false, nil
	}
	return who, err == nil, err
}

package agentapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"baton/bridge/agentapi/contract"
	"baton/bridge/credential"
	"baton/bridge/participant"
	"baton/federation"
	"baton/federation/signing"
)

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

// caller is the caller of a request, with the connection of the request.
type caller struct {
	participant.Caller

	bearer  string // the header that says so
	address string // of the client, without a port
	control *http.ResponseController
	// upgrade turns a request for a WebSocket into one.
	upgrade func(w http.ResponseWriter) (*websocket.Conn, error)
}

func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller) // zero in operations without a token
	return who
}

// person returns the DID of the caller, and refuses an operator, which has none.
func person(ctx context.Context) (federation.DID, error) { return callerOf(ctx).Person() }

// reauthenticate returns nil while the caller of a request would still be admitted.
func (l *Link) reauthenticate(ctx context.Context, now time.Time) error {
	r := &http.Request{Header: http.Header{"Authorization": {callerOf(ctx).bearer}}}
	_, err := l.access.Authenticate(r.WithContext(ctx), now)
	return err
}

// CreateChallenge implements [contract.StrictServerInterface].
func (l *Link) CreateChallenge(ctx context.Context, req contract.CreateChallengeRequestObject) (contract.CreateChallengeResponseObject, error) {
	did, err := federation.ParseDID(req.Body.DID)
	if err != nil {
		return nil, usage("did: " + err.Error())
	}
	if err := l.access.CheckBlocked(ctx, did); err != nil {
		return nil, err
	}
	challenge, ends := l.challenges.Issue(string(did), time.Now())
	return contract.CreateChallenge200JSONResponse{Challenge: l.audience() + challenge, ExpiresAt: ends.UTC()}, nil
}

// audience begins each challenge: the signer can read for which gateway and for what its signature is.
func (l *Link) audience() string { return string(l.deps.Home) + "/login/" }

// CreateToken implements [contract.StrictServerInterface]. The challenge is used up by a
// valid and by an invalid signature, but not by an unverifiable one.
func (l *Link) CreateToken(ctx context.Context, req contract.CreateTokenRequestObject) (contract.CreateTokenResponseObject, error) {
	now := time.Now()
	did, err := federation.ParseDID(req.Body.DID)
	if err != nil {
		return nil, usage("did: " + err.Error())
	}
	signature, err := signing.DecodeBase64URL(req.Body.Signature)
	if err != nil {
		return nil, usage("signature: want base64url without padding")
	}
	if err := l.access.CheckBlocked(ctx, did); err != nil { // before its key is looked for
		return nil, err
	}
	challenge, ours := strings.CutPrefix(req.Body.Challenge, l.audience())
	if !ours {
		return nil, credential.ErrChallenge
	}
	if err := l.challenges.Spend(challenge, string(did), now); err != nil {
		return nil, err
	}
	key, verdict, err := l.deps.Keys.Proved(ctx, did, []byte(req.Body.Challenge), signature)
	if verdict == federation.Unverifiable {
		l.challenges.Restore(challenge)
		return nil, &federation.UnavailableError{What: "the document of " + did.Short(), Err: err}
	}
	if verdict != federation.Valid {
		return nil, participant.Unauthorized(participant.NotProved(did, err))
	}
	session := participant.Login(did, key, callerOf(ctx).address, now)
	if err := l.deps.Sessions.StartSession(ctx, session); err != nil {
		return nil, err
	}
	tokens, err := l.issue(session, now)
	return contract.CreateToken200JSONResponse(tokens), err
}

// RefreshToken implements [contract.StrictServerInterface].
func (l *Link) RefreshToken(ctx context.Context, req contract.RefreshTokenRequestObject) (contract.RefreshTokenResponseObject, error) {
	now := time.Now()
	claims, err := l.access.Tokens().Read(req.Body.RefreshToken, credential.Refresh, now)
	if err != nil {
		return nil, err
	}
	if err := l.access.CheckBlocked(ctx, federation.DID(claims.Subject)); err != nil {
		return nil, err
	}
	session, err := l.deps.Sessions.AdvanceSession(ctx, claims.Session, claims.Generation, now, now.Add(credential.RefreshLife).Truncate(time.Second))
	switch {
	case errors.Is(err, federation.ErrTokenUsed), errors.Is(err, federation.ErrNotFound):
		return nil, credential.ErrSession
	case err != nil:
		return nil, err
	}
	tokens, err := l.issue(session, now)
	return contract.RefreshToken200JSONResponse(tokens), err
}

// issue returns the tokens of a session.
func (l *Link) issue(s federation.Session, now time.Time) (contract.Tokens, error) {
	pair, err := l.access.Tokens().Pair(s, now)
	return contract.Tokens{AccessToken: pair.Access, RefreshToken: pair.Refresh, TokenType: "Bearer", ExpiresAt: pair.Ends.UTC()}, err
}

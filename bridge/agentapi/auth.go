package agentapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"baton/bridge/agentapi/contract"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/signing"
)

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

// caller is the DID or the operator that makes a request. It is zero before the caller has
// proved anything.
type caller struct {
	did      federation.DID
	operator bool
	bearer   string // the header that says so
	control  *http.ResponseController
	// upgrade turns a request for a WebSocket into one.
	upgrade func(w http.ResponseWriter) (*websocket.Conn, error)
}

func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller) // zero in operations without a token
	return who
}

// person returns the DID of the caller, and refuses an operator, which has none.
func person(ctx context.Context) (federation.DID, error) {
	who := callerOf(ctx)
	if who.did == "" {
		return "", forbidden("this is for agents: an operator has no DID, and asks the operator API")
	}
	return who.did, nil
}

// authenticate returns whose token a request carries: one of this API, of the registry,
// or of an operator. It refuses a DID that an operator blocked.
func (l *Link) authenticate(r *http.Request, now time.Time) (caller, error) {
	who, err := l.bearer(r, now)
	if err == nil && who.did != "" {
		err = l.checkBlocked(r.Context(), who.did)
	}
	if err != nil {
		return caller{}, err
	}
	return who, nil
}

func (l *Link) checkBlocked(ctx context.Context, did federation.DID) error {
	return l.deps.CheckBlocked(ctx, federation.Source{Network: network, DIDs: []federation.DID{did}})
}

func (l *Link) bearer(r *http.Request, now time.Time) (caller, error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return caller{}, err
	}
	claims, err := l.tokens.Read(text, credential.Access, now)
	if err == nil {
		return caller{did: federation.DID(claims.Subject)}, nil
	}
	if errors.Is(err, credential.ErrTokenExpired) {
		return caller{}, err
	}
	did, ok, err := l.deps.Callers.Authenticate(r)
	switch {
	case err != nil:
		return caller{}, fmt.Errorf("look up agent: %w", err)
	case ok:
		return caller{did: did}, nil
	}
	operator, err := l.deps.Callers.Operator(r)
	switch {
	case err != nil:
		return caller{}, fmt.Errorf("look up operator: %w", err)
	case !operator:
		return caller{}, credential.ErrToken
	}
	return caller{operator: true}, nil
}

// reauthenticate returns nil while the caller of a request would still be admitted.
func (l *Link) reauthenticate(ctx context.Context, now time.Time) error {
	r := &http.Request{Header: http.Header{"Authorization": {callerOf(ctx).bearer}}}
	_, err := l.authenticate(r.WithContext(ctx), now)
	return err
}

// CreateChallenge implements [contract.StrictServerInterface].
func (l *Link) CreateChallenge(ctx context.Context, req contract.CreateChallengeRequestObject) (contract.CreateChallengeResponseObject, error) {
	did, err := federation.ParseDID(req.Body.DID)
	if err != nil {
		return nil, usage("did: " + err.Error())
	}
	if err := l.checkBlocked(ctx, did); err != nil {
		return nil, err
	}
	challenge, ends := l.challenges.Issue(string(did), time.Now())
	return contract.CreateChallenge200JSONResponse{Challenge: challenge, ExpiresAt: ends.UTC()}, nil
}

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
	if err := l.checkBlocked(ctx, did); err != nil { // before its key is looked for
		return nil, err
	}
	if err := l.challenges.Spend(req.Body.Challenge, string(did), now); err != nil {
		return nil, err
	}
	verdict, err := l.deps.Keys.Proved(ctx, did, []byte(req.Body.Challenge), signature)
	if verdict == federation.Unverifiable {
		l.challenges.Restore(req.Body.Challenge)
		return nil, &federation.UnavailableError{What: "the document of " + did.Short(), Err: err}
	}
	if verdict != federation.Valid {
		return nil, unauthorized("the signature is not that of a key of " + string(did))
	}
	session := credential.NewSession(string(did), now)
	if err := l.deps.Sessions.StartSession(ctx, session); err != nil {
		return nil, err
	}
	tokens, err := l.issue(session, now)
	return contract.CreateToken200JSONResponse(tokens), err
}

// RefreshToken implements [contract.StrictServerInterface].
func (l *Link) RefreshToken(ctx context.Context, req contract.RefreshTokenRequestObject) (contract.RefreshTokenResponseObject, error) {
	now := time.Now()
	claims, err := l.tokens.Read(req.Body.RefreshToken, credential.Refresh, now)
	if err != nil {
		return nil, err
	}
	if err := l.checkBlocked(ctx, federation.DID(claims.Subject)); err != nil {
		return nil, err
	}
	session, err := l.deps.Sessions.AdvanceSession(ctx, claims.Session, claims.Generation, now, now.Add(credential.RefreshLife).Truncate(time.Second))
	switch {
	case errors.Is(err, federation.ErrTokenUsed), errors.Is(err, federation.ErrNotFound):
		return nil, unauthorized("the session of this token has ended")
	case err != nil:
		return nil, err
	}
	tokens, err := l.issue(session, now)
	return contract.RefreshToken200JSONResponse(tokens), err
}

// issue returns the tokens of a session.
func (l *Link) issue(s federation.Session, now time.Time) (contract.Tokens, error) {
	pair, err := l.tokens.Pair(s, now)
	return contract.Tokens{AccessToken: pair.Access, RefreshToken: pair.Refresh, TokenType: "Bearer", ExpiresAt: pair.Ends.UTC()}, err
}

package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"baton/bridge/agents/participant"
	"baton/bridge/agents/rest/contract"
	"baton/bridge/credential"
	"baton/bridge/route"
	"baton/federation"
	"baton/federation/signing"
)

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

// caller is the caller of a request, with the connection of the request.
type caller struct {
	participant.Caller

	denied error // why the caller is unknown; nil for a known one

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

func (l *Link) createChallenge(ctx context.Context, req route.Body[contract.ChallengeRequest]) (contract.Challenge, error) {
	var none contract.Challenge
	b, err := req.Read()
	if err != nil {
		return none, err
	}
	did, err := federation.ParseDID(b.DID)
	if err != nil {
		return none, usage("did: " + err.Error())
	}
	if err := l.access.CheckBlocked(ctx, did); err != nil {
		return none, err
	}
	challenge, ends := l.challenges.Issue(string(did), time.Now())
	return contract.Challenge{Challenge: l.audience() + challenge, ExpiresAt: ends.UTC()}, nil
}

// audience begins each challenge: the signer can read for which gateway and for what its signature is.
func (l *Link) audience() string { return string(l.deps.Home) + "/login/" }

// createToken returns the tokens of a new session. The challenge is used up by a valid and by an
// invalid signature, but not by an unverifiable one.
func (l *Link) createToken(ctx context.Context, req route.Body[contract.TokenRequest]) (contract.Tokens, error) {
	now, none := time.Now(), contract.Tokens{}
	b, err := req.Read()
	if err != nil {
		return none, err
	}
	did, err := federation.ParseDID(b.DID)
	if err != nil {
		return none, usage("did: " + err.Error())
	}
	signature, err := signing.DecodeBase64URL(b.Signature)
	if err != nil {
		return none, usage("signature: want base64url without padding")
	}
	if err := l.access.CheckBlocked(ctx, did); err != nil { // before its key is looked for
		return none, err
	}
	challenge, ours := strings.CutPrefix(b.Challenge, l.audience())
	if !ours {
		return none, credential.ErrChallenge
	}
	if err := l.challenges.Spend(challenge, string(did), now); err != nil {
		return none, err
	}
	key, verdict, err := l.deps.Keys.Proved(ctx, did, []byte(b.Challenge), signature)
	if verdict == federation.Unverifiable {
		l.challenges.Restore(challenge)
		return none, &federation.UnavailableError{What: "the document of " + did.Short(), Err: err}
	}
	if verdict != federation.Valid {
		return none, participant.Unauthorized(participant.NotProved(did, err))
	}
	session := participant.Login(did, key, callerOf(ctx).address, now)
	if err := l.deps.Record.StartSession(ctx, session); err != nil {
		return none, err
	}
	return l.issue(session, now)
}

func (l *Link) refreshToken(ctx context.Context, req route.Body[contract.RefreshRequest]) (contract.Tokens, error) {
	now, none := time.Now(), contract.Tokens{}
	b, err := req.Read()
	if err != nil {
		return none, err
	}
	claims, err := l.access.Tokens().Read(b.RefreshToken, credential.Refresh, now)
	if err != nil {
		return none, err
	}
	if err := l.access.CheckBlocked(ctx, federation.DID(claims.Subject)); err != nil {
		return none, err
	}
	session, err := l.deps.Record.AdvanceSession(ctx, claims.Session, claims.Generation, now, now.Add(credential.RefreshLife).Truncate(time.Second))
	switch {
	case errors.Is(err, federation.ErrTokenUsed), errors.Is(err, federation.ErrNotFound):
		return none, credential.ErrSession
	case err != nil:
		return none, err
	}
	return l.issue(session, now)
}

// issue returns the tokens of a session.
func (l *Link) issue(s federation.Session, now time.Time) (contract.Tokens, error) {
	pair, err := l.access.Tokens().Pair(s, now)
	return contract.Tokens{AccessToken: pair.Access, RefreshToken: pair.Refresh, TokenType: "Bearer", ExpiresAt: pair.Ends.UTC()}, err
}

package rest

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

type callerKey struct{}

type caller struct {
	participant.Caller

	denied error // why the caller is unknown; nil for a known caller

	bearer  string
	address string // without a port
	subnet  netip.Prefix
	control *http.ResponseController
	upgrade func(w http.ResponseWriter) (*websocket.Conn, error)
}

func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller) // zero in operations without a token
	return who
}

// person refuses operators, which have no DID.
func person(ctx context.Context) (federation.DID, error) { return callerOf(ctx).Person() }

// reauthenticate returns an error if the caller would no longer be admitted.
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

// audience starts each challenge. It shows the signer the gateway and the purpose.
func (l *Link) audience() string { return string(l.deps.Home) + "/login/" }

// createToken consumes the challenge unless the signature cannot be verified now.
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
	if err := l.access.CheckBlocked(ctx, did); err != nil { // before the key is looked up
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
	session, err := l.access.Refresh(ctx, b.RefreshToken, "", now)
	if err != nil {
		return none, err
	}
	return l.issue(session, now)
}

func (l *Link) redeemPairing(ctx context.Context, req route.Body[contract.PairingRequest]) (contract.Tokens, error) {
	now := time.Now()
	b, err := req.Read()
	if err != nil {
		return contract.Tokens{}, err
	}
	session, err := l.access.Redeem(ctx, b.Code, callerOf(ctx).subnet, callerOf(ctx).address, now)
	if err != nil {
		return contract.Tokens{}, err
	}
	return l.issue(session, now)
}

func (l *Link) createPairingCode(ctx context.Context, _ route.None) (contract.PairingCode, error) {
	p, err := l.access.Pair(ctx, callerOf(ctx).Caller, time.Now())
	return contract.PairingCode{Code: p.Code, DID: string(p.DID), ExpiresAt: p.ExpiresAt}, err
}

func (l *Link) listSessions(ctx context.Context, _ route.None) (contract.SessionList, error) {
	who := callerOf(ctx)
	found, err := l.access.Sessions(ctx, who.Caller, time.Now())
	list := contract.SessionList{Items: []contract.Session{}}
	for _, s := range found {
		list.Items = append(list.Items, contract.Session{
			ID: s.ID, Began: string(s.Began), Client: s.ClientName, Address: s.Address, Current: s.ID == who.Session.ID,
			CreatedAt: s.Created.UTC(), LastUsedAt: s.Used.UTC(), ExpiresAt: s.Expires.UTC(),
		})
	}
	return list, err
}

func (l *Link) deleteSession(ctx context.Context, req contract.SessionByID) (route.None, error) {
	return route.None{}, l.access.EndSession(ctx, callerOf(ctx).Caller, req.ID, time.Now())
}

func (l *Link) issue(s federation.Session, now time.Time) (contract.Tokens, error) {
	pair, err := l.access.Tokens().Pair(s, now)
	return contract.Tokens{AccessToken: pair.Access, RefreshToken: pair.Refresh, TokenType: "Bearer", ExpiresAt: pair.Ends.UTC()}, err
}

package participant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// Path is the path of REST. Participant tokens name it as their audience.
const Path = "/api/v1/"

func newTokens(key []byte, home federation.HomeID) *credential.Tokens {
	return credential.NewTokens(key, string(home), func(credential.Use) string { return string(home) + Path })
}

// Tokens writes and reads the tokens of participants.
func (a *Service) Tokens() *credential.Tokens { return a.tokens }

// Authenticate returns the caller of a request, unless the DID is blocked. It blocks on the record.
func (a *Service) Authenticate(r *http.Request, now time.Time) (Caller, error) {
	who, err := a.bearer(r, now)
	if err == nil && who.DID != "" {
		err = a.CheckBlocked(r.Context(), who.DID)
	}
	if err != nil {
		return Caller{}, err
	}
	return who, nil
}

// CheckBlocked refuses a DID blocked by an operator.
func (a *Service) CheckBlocked(ctx context.Context, did federation.DID) error {
	return a.deps.CheckBlocked(ctx, federation.Source{Network: a.network, DIDs: []federation.DID{did}})
}

// CheckAddress refuses a request from a blocked address.
func (a *Service) CheckAddress(r *http.Request) error {
	return a.deps.CheckBlocked(r.Context(), federation.Source{Network: a.network, Address: credential.AddressOf(r)})
}

// CheckOrigin refuses web pages whose origin is neither the gateway nor configured.
//
// spec: MCP 2025-06-18 "Security Warning"
func (a *Service) CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || origin == a.deps.PublicURL || slices.Contains(a.deps.HTTP.Origins, "*") || slices.Contains(a.deps.HTTP.Origins, origin) {
		return nil
	}
	return Forbidden("requests of web pages of " + origin + " are not allowed; see http.cors_origins")
}

// TakeLogin counts one login per address, and refuses it over the limit.
func (a *Service) TakeLogin(w http.ResponseWriter, r *http.Request, now time.Time) error {
	from := credential.AddressOf(r)
	taken, has := a.deps.Logins.Take(from, now), a.deps.Logins.Left(from, now)
	has.WriteHeader(w.Header())
	if !taken {
		return TooMany(has)
	}
	return nil
}

func (a *Service) bearer(r *http.Request, now time.Time) (Caller, error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return Caller{}, err
	}
	claims, err := a.tokens.Read(text, credential.Access, now)
	switch {
	case err == nil && claims.Session == "": // issued before tokens named a session
		return Caller{}, credential.ErrTokenExpired
	case err == nil:
		session, err := credential.SessionOf(r.Context(), a.deps.Record.Participants, claims, now)
		return Caller{DID: federation.DID(claims.Subject), Session: session}, err
	case errors.Is(err, credential.ErrTokenExpired):
		return Caller{}, err
	}
	who, ok, err := a.deps.Callers.Authenticate(r)
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("look up agent: %w", err)
	case ok:
		return Caller{DID: who.DID, Session: who.Session}, nil
	}
	operator, err := a.deps.Callers.Operator(r)
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("look up operator: %w", err)
	case !operator:
		return Caller{}, credential.ErrToken
	}
	return Caller{Operator: true}, nil
}

// Refresh consumes a refresh token and extends its session. The client is "" for REST. Reusing a token ends
// its session, with [credential.ErrSession].
func (a *Service) Refresh(ctx context.Context, text, client string, now time.Time) (federation.Session, error) {
	claims, err := a.tokens.Read(text, credential.Refresh, now)
	if err != nil {
		return federation.Session{}, err
	}
	if err := a.CheckBlocked(ctx, federation.DID(claims.Subject)); err != nil {
		return federation.Session{}, err
	}
	session, err := credential.SessionOf(ctx, a.deps.Record.Participants, claims, now)
	if err == nil && session.Client != client {
		err = credential.ErrToken
	}
	if err != nil {
		return federation.Session{}, err
	}
	session, err = a.deps.Record.AdvanceSession(ctx, claims.Session, claims.Generation, now, now.Add(credential.LifeOf(session)).Truncate(time.Second))
	if errors.Is(err, federation.ErrTokenUsed) || errors.Is(err, federation.ErrNotFound) {
		err = credential.ErrSession
	}
	if errors.Is(err, credential.ErrSession) {
		a.deps.PubSub.Wake(bridge.SessionsTopic(claims.Subject), bridge.InboxTopic(claims.Subject))
	}
	return session, err
}

// Pairing is a new pairing code.
type Pairing struct {
	Code      string         `json:"code"`
	DID       federation.DID `json:"did"` // to log in as
	ExpiresAt time.Time      `json:"expires_at"`
}

// Pair returns a pairing code that logs in an agent host as the caller.
func (a *Service) Pair(ctx context.Context, who Caller, now time.Time) (Pairing, error) {
	did, err := who.Person()
	if err == nil && who.Bound {
		err = a.Builder().CheckVouched(ctx, did)
	}
	if err != nil {
		return Pairing{}, err
	}
	code, ends, err := credential.NewPairing(ctx, a.deps.Record.Participants, did, who.Session.Key, who.Bound || who.Session.Bound, now)
	return Pairing{code, did, ends.UTC()}, err
}

// Redeem returns the new session of a pairing code.
func (a *Service) Redeem(ctx context.Context, code string, from netip.Prefix, address string, now time.Time) (federation.Session, error) {
	digest := federation.DigestLoginCode(federation.PairingCode, code)
	var paired federation.LoginCode
	err := a.deps.Guesses.Guess(from, now, func() (err error) {
		paired, err = a.deps.Record.Pairing(ctx, digest, now)
		return err
	})
	if err == nil {
		err = a.CheckBlocked(ctx, paired.DID)
	}
	if err != nil {
		return federation.Session{}, err
	}
	session := credential.NewSession(federation.Session{
		Participant: string(paired.DID), Began: federation.BeganPairing, Key: paired.Key, Bound: paired.Bound, Address: address,
	}, now)
	err = a.deps.Record.RedeemLogin(ctx, digest, session)
	if errors.Is(err, federation.ErrNotFound) {
		err = credential.ErrPairing
	}
	return session, err
}

// Sessions returns the live sessions of a caller under all its names, newest first.
func (a *Service) Sessions(ctx context.Context, who Caller, now time.Time) ([]federation.Session, error) {
	did, err := who.Person()
	if err != nil {
		return nil, err
	}
	names, err := a.deps.Record.SessionNames(ctx, did)
	if err != nil {
		return nil, err
	}
	return a.deps.Record.Sessions(ctx, names, now)
}

// EndSession ends a session with its tokens, streams and leases.
func (a *Service) EndSession(ctx context.Context, who Caller, id string, now time.Time) error {
	did, err := who.Person()
	if err != nil {
		return err
	}
	names, err := a.deps.Record.SessionNames(ctx, did)
	if err == nil {
		err = a.deps.Record.EndSession(ctx, names, id, now)
	}
	if errors.Is(err, federation.ErrNotFound) {
		return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "you have no such session"}
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		a.deps.PubSub.Wake(bridge.SessionsTopic(name), bridge.InboxTopic(name))
	}
	return nil
}

// HTTPLink is the common part of links whose participants call the gateway over HTTP. It carries no steps,
// because its participants read their inboxes.
type HTTPLink struct {
	bridge.Hearing

	network string
	once    sync.Once
	ended   chan struct{}
}

var (
	_ bridge.Hearer      = (*HTTPLink)(nil)
	_ bridge.InboxReader = (*HTTPLink)(nil)
)

// NewHTTPLink returns the link of a network, which is also its name.
func NewHTTPLink(network string) *HTTPLink {
	return &HTTPLink{network: network, ended: make(chan struct{})}
}

// Name implements [bridge.Link].
func (l *HTTPLink) Name() string { return l.network }

// Network implements [bridge.Link].
func (l *HTTPLink) Network() string { return l.network }

// ReadsInbox implements [bridge.InboxReader].
func (*HTTPLink) ReadsInbox() {}

// Carries implements [bridge.Link] and always returns false.
func (*HTTPLink) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Deliver implements [bridge.Link] and is never called.
func (*HTTPLink) Deliver(context.Context, federation.Delivery) error { return nil }

// Run implements [bridge.Link]. The link is up until ctx ends.
func (l *HTTPLink) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	l.once.Do(func() { close(l.ended) })
	return context.Cause(ctx)
}

// Ended is closed when Run ends. Waiting requests must end with it.
func (l *HTTPLink) Ended() <-chan struct{} { return l.ended }

package airc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
)

// begin adds the expiry of the agent's key.
func (l *Link) begin(ctx context.Context, s federation.Session) (federation.Session, error) {
	begun, err := l.deps.Record.StartAgentSession(ctx, s)
	if errors.Is(err, federation.ErrSessionEnded) {
		return begun, errKeyEnded()
	}
	if err != nil {
		return begun, fmt.Errorf("start session of %s: %w", s.Participant, err)
	}
	return begun, nil
}

func newSession(c *call, handle string, began federation.Began, key agents.Key, now time.Time) federation.Session {
	s := federation.Session{Participant: handle, Began: began, Bound: began == federation.BeganBound, Address: credential.HostOf(c.Request)}
	if key.ID != "" {
		s.Key = federation.KeyID(key.Public)
	}
	return credential.NewSession(s, now)
}

func (l *Link) sessionOf(ctx context.Context, c credential.Claims, now time.Time) (federation.Session, error) {
	switch {
	case c.Session != "":
	case c.Use == useAPI:
		c.Session = "api:" + c.Subject
	default: // issued before access tokens named a session: the client must refresh it
		return federation.Session{}, wire.Refuse(wire.CodeTokenExpired, "this token has expired")
	}
	s, err := credential.SessionOf(ctx, l.deps.Record.Participants, c, now)
	switch {
	case errors.Is(err, federation.ErrSessionEnded):
		return s, errKeyEnded()
	case errors.Is(err, credential.ErrSession):
		return s, errSessionEnded()
	case err != nil:
		return s, fmt.Errorf("read session of %s: %w", c.Subject, err)
	}
	return s, nil
}

func errKeyEnded() error {
	return wire.Refuse(wire.CodeKeyRevoked, "the key of this session was revoked or has expired")
}

func errSessionEnded() error {
	return wire.Refuse(wire.CodeUnauthorized, "the session of this token has ended")
}

// stillIn returns a refusal once the session of a call has ended.
func (l *Link) stillIn(c *call) error {
	_, err := l.deps.Record.Session(c.Context(), c.session.ID, time.Now())
	switch {
	case errors.Is(err, federation.ErrSessionEnded):
		return errKeyEnded()
	case errors.Is(err, federation.ErrNotFound):
		return errSessionEnded()
	}
	return err
}

func participantsOf(agent agents.Agent) []string {
	names := []string{agent.Handle}
	for _, did := range agent.DIDs() {
		names = append(names, string(did))
	}
	return names
}

// wakeEnded also wakes the worker that disables webhooks.
func (l *Link) wakeEnded(agent agents.Agent) {
	topics := []string{bridge.WebhooksTopic, bridge.InboxTopic(agent.Handle)}
	for _, name := range participantsOf(agent) {
		topics = append(topics, bridge.SessionsTopic(name))
	}
	l.deps.PubSub.Wake(topics...)
}

// spec: airc-shapes "Sessions and proofs"
func (l *Link) endUnbound(ctx context.Context, agent agents.Agent, except string, now time.Time) error {
	if _, err := l.deps.Record.EndSessions(ctx, participantsOf(agent), except, true, now); err != nil {
		return err
	}
	l.wakeEnded(agent)
	return nil
}

// requester accepts an access token, a token of /api, or the login token of a DID of the agent.
func (l *Link) requester(c *call) (agents.Agent, error) {
	if c.denied == nil {
		return c.agent, nil
	}
	now := time.Now()
	claims, err := l.token(c.Request, useAPI, now)
	if err == nil {
		c.agent, c.session, c.denied = l.holder(c.Request, claims, now)
		return c.agent, c.denied
	}
	who, ok, err := l.deps.Authenticate(c.Request)
	if err != nil || !ok || who.Session.Began != federation.BeganDID {
		return agents.Agent{}, errors.Join(err, c.denied)
	}
	agent, err := l.deps.Record.AgentOf(c.Context(), who.DID)
	switch {
	case errors.Is(err, federation.ErrNotFound) || err == nil && !agent.Is(who.DID):
		return agents.Agent{}, c.denied
	case err != nil:
		return agents.Agent{}, fmt.Errorf("look up agent: %w", err)
	}
	c.agent, c.session, c.denied = agent, who.Session, nil
	return agent, l.checkCaller(c.Context(), c)
}

// ownerOf proves an agent's active key for the handle at the first login with its did:key.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) ownerOf(c *call, handle string, now time.Time) (agents.Agent, error) {
	agent, denied := l.requester(c)
	if denied == nil || handle == "" {
		return agent, denied
	}
	who, ok, err := l.deps.Authenticate(c.Request)
	if err != nil || !ok || who.Session.Began != federation.BeganDID {
		return agent, errors.Join(err, denied)
	}
	agent, err = l.deps.Record.Agent(c.Context(), handle)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return agent, denied
	case err != nil:
		return agent, fmt.Errorf("look up agent: %w", err)
	}
	for _, key := range agent.Keys {
		if key.Status(now) != agents.KeyStatusActive || identity.KeyDID(key.Public) != who.DID {
			continue
		}
		if agent, err = l.prove(c.Context(), agent, key, now); err != nil {
			return agent, err
		}
		c.agent, c.session, c.denied = agent, who.Session, nil
		return agent, l.checkCaller(c.Context(), c)
	}
	return agents.Agent{}, denied
}

type shownSession struct {
	ID        string           `json:"id"`
	KeyID     string           `json:"kid"` // "" for none or an unknown key
	Began     federation.Began `json:"began"`
	CreatedAt *int64           `json:"createdAt"`
	UsedAt    *int64           `json:"usedAt"`
	Address   string           `json:"address"`
	Current   bool             `json:"current"`
}

// spec: airc-shapes "Sessions and proofs"
func (l *Link) getSessions(c *call) (answer, error) {
	agent, err := l.requester(c)
	if err != nil {
		return answer{}, err
	}
	found, err := l.deps.Record.Sessions(c.Context(), participantsOf(agent), time.Now())
	if err != nil {
		return answer{}, err
	}
	shown := make([]shownSession, len(found))
	for i, s := range found {
		shown[i] = shownSession{
			ID: s.ID, Began: s.Began, CreatedAt: wire.UnixTime(s.Created), UsedAt: wire.UnixTime(s.Used), Address: s.Address, Current: s.ID == c.session.ID,
		}
		for _, key := range agent.Keys {
			if s.Key == federation.KeyID(key.Public) {
				shown[i].KeyID = key.ID
			}
		}
	}
	return answer{status: http.StatusOK, body: map[string]any{"sessions": shown}}, nil
}

func (l *Link) postLogout(c *call) (answer, error) {
	agent, err := l.requester(c)
	if err != nil {
		return answer{}, err
	}
	return l.endSession(c, agent, c.session.ID)
}

func (l *Link) deleteSession(c *call) (answer, error) {
	agent, err := l.requester(c)
	if err != nil {
		return answer{}, err
	}
	return l.endSession(c, agent, c.PathValue("id"))
}

func (l *Link) endSession(c *call, agent agents.Agent, id string) (answer, error) {
	err := l.deps.Record.EndSession(c.Context(), participantsOf(agent), id, time.Now())
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, wire.Refuse(wire.CodeNotFound, "you have no session with this id")
	case err != nil:
		return answer{}, err
	}
	l.wakeEnded(agent)
	return ended(1), nil
}

// deleteSessions keeps the session of the token.
func (l *Link) deleteSessions(c *call) (answer, error) {
	agent, err := l.requester(c)
	if err != nil {
		return answer{}, err
	}
	n, err := l.deps.Record.EndSessions(c.Context(), participantsOf(agent), c.session.ID, false, time.Now())
	if err != nil {
		return answer{}, err
	}
	l.wakeEnded(agent)
	return ended(n), nil
}

func ended(n int) answer {
	return answer{status: http.StatusOK, body: map[string]int{"ended": n}}
}

// Long-lived tokens are valid only below /api.
const useAPI credential.Use = "api"

func newTokens(key []byte, domain string) *credential.Tokens {
	return credential.NewTokens(key, domain, func(use credential.Use) string {
		if use == useAPI {
			return domain + deployedRoot
		}
		return domain
	})
}

type tokenPair struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresAt    int64  `json:"expiresAt"` // of the access token
}

func (l *Link) tokensOf(s federation.Session, now time.Time) (tokenPair, error) {
	p, err := l.tokens.Pair(s, now)
	return tokenPair{AccessToken: p.Access, RefreshToken: p.Refresh, ExpiresAt: p.Ends.Unix()}, err
}

// spec: airc-v0.1.1 §11.2
func (l *Link) token(r *http.Request, use credential.Use, now time.Time) (credential.Claims, error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return credential.Claims{}, wire.Refuse(wire.CodeUnauthorized, "an "+string(use)+" token is needed: Authorization: Bearer …")
	}
	c, err := l.tokens.Read(text, use, now)
	switch {
	case errors.Is(err, credential.ErrTokenExpired):
		return c, wire.Refuse(wire.CodeTokenExpired, "this token has expired")
	case err != nil:
		return c, errNoGoodToken()
	}
	return c, nil
}

func errNoGoodToken() error {
	return wire.Refuse(wire.CodeUnauthorized, "this token is not valid here")
}

// authenticate also accepts long-lived tokens below /api, unless all keys of their agent have ended.
func (l *Link) authenticate(r *http.Request) (agents.Agent, federation.Session, error) {
	now := time.Now()
	if !deployed(r) {
		c, err := l.token(r, credential.Access, now)
		if err != nil {
			return agents.Agent{}, federation.Session{}, err
		}
		return l.holder(r, c, now)
	}
	c, err := l.token(r, useAPI, now)
	if err != nil {
		if access, accessErr := l.token(r, credential.Access, now); accessErr == nil {
			c, err = access, nil
		}
	}
	if err != nil {
		return agents.Agent{}, federation.Session{}, err
	}
	agent, session, err := l.holder(r, c, now)
	if err == nil && len(agent.Keys) > 0 && !agent.Primary(now).Signs(now) {
		return agents.Agent{}, federation.Session{}, errNoGoodToken()
	}
	return agent, session, err
}

// Authenticate implements [bridge.Authenticator].
func (l *Link) Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error) {
	now := time.Now()
	c, err := l.token(r, credential.Access, now)
	if err != nil {
		return who, false, nil //nolint:nilerr // possibly a token of another link
	}
	agent, session, err := l.holder(r, c, now)
	if _, isProblem := errors.AsType[*wire.ProblemError](err); isProblem {
		return who, false, nil
	}
	return bridge.Authenticated{DID: agent.DID, Session: session}, err == nil, err
}

func (l *Link) holder(r *http.Request, c credential.Claims, now time.Time) (agents.Agent, federation.Session, error) {
	session, err := l.sessionOf(r.Context(), c, now)
	if err != nil {
		return agents.Agent{}, session, err
	}
	agent, err := l.owner(r.Context(), c.Subject)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return agents.Agent{}, session, errNoGoodToken()
	case err != nil:
		return agents.Agent{}, session, fmt.Errorf("look up agent: %w", err)
	}
	return agent, session, nil
}

// postRefresh ends the session of a reused token: two parties have it, and one of them is a thief.
//
// spec: airc-v0.1.1 §11.3
func (l *Link) postRefresh(c *call) (answer, error) {
	now := time.Now()
	if err := l.login(c, now); err != nil {
		return answer{}, err
	}
	token, err := l.token(c.Request, credential.Refresh, now)
	if err != nil {
		return answer{}, err
	}
	agent, err := l.deps.Record.Agent(c.Context(), token.Subject)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, errNoGoodToken()
	case err != nil:
		return answer{}, fmt.Errorf("look up agent: %w", err)
	}
	if err := l.checkBlocked(c.Context(), agent.Handle, agent.DID); err != nil {
		return answer{}, err
	}
	session, err := l.deps.Record.AdvanceSession(c.Context(), token.Session, token.Generation, now, now.Add(credential.RefreshLife).Truncate(time.Second))
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, errSessionEnded()
	case err != nil:
		return answer{}, fmt.Errorf("refresh session of %s: %w", agent.Handle, err)
	}
	pair, err := l.tokensOf(session, now)
	if err != nil {
		return answer{}, err
	}
	c.agent, c.session, c.denied = agent, session, nil
	return answer{status: http.StatusOK, body: pair}, nil
}

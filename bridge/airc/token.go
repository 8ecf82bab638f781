package airc

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
)

// useAPI is the use of the tokens of clients that never ask for another one. They are
// good below /api, and for nothing else.
const useAPI credential.Use = "api"

// newTokens returns what writes and reads the tokens of a registry.
func newTokens(key []byte, domain string) *credential.Tokens {
	return credential.NewTokens(key, domain, func(use credential.Use) string {
		if use == useAPI {
			return domain + deployedRoot
		}
		return domain
	})
}

// tokenPair is what an agent is given at registration and with each refresh.
type tokenPair struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresAt    int64  `json:"expiresAt"` // of the access token
}

// tokensOf returns the tokens of a session as it stands.
func (l *Link) tokensOf(s federation.Session, now time.Time) (tokenPair, error) {
	p, err := l.tokens.Pair(s, now)
	return tokenPair{AccessToken: p.Access, RefreshToken: p.Refresh, ExpiresAt: p.Ends.Unix()}, err
}

// token returns what the bearer token of a request says, if it is good for a use.
//
// spec: airc-v0.1.1 §11.2
func (l *Link) token(r *http.Request, use credential.Use, now time.Time) (credential.Claims, error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return credential.Claims{}, refuse(codeUnauthorized, "an "+string(use)+" token is needed: Authorization: Bearer …")
	}
	c, err := l.tokens.Read(text, use, now)
	switch {
	case errors.Is(err, credential.ErrTokenExpired):
		return c, refuse(codeTokenExpired, "this token has expired")
	case err != nil:
		return c, errNoGoodToken()
	}
	return c, nil
}

func errNoGoodToken() error { return refuse(codeUnauthorized, "this token is not good here") }

// authenticate returns the agent whose access token a request carries. Below /api it also accepts
// long-lived tokens, unless all keys of their agent have ended.
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
	if _, isProblem := errors.AsType[*problem](err); isProblem {
		return who, false, nil
	}
	return bridge.Authenticated{DID: agent.DID, Session: session}, err == nil, err
}

// holder returns the agent of a token and its session.
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

// postRefresh answers POST /auth/refresh: the token is spent, and the next one of
// its session is good. One that was spent before ends the session: two have it, and
// one of them is a thief.
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

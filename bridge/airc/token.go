package airc

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"baton/federation"
)

// How long tokens are good.
//
// spec: airc-v0.1.1 §11.3
const (
	accessLife  = 900 * time.Second
	refreshLife = 86400 * time.Second
)

// sessionIDBytes is how much of a session's id is random: enough that two never
// meet.
const sessionIDBytes = 16

// tokenUse tells the two kinds of tokens apart, so that neither does the other's
// work.
type tokenUse string

const (
	useAccess  tokenUse = "access"
	useRefresh tokenUse = "refresh"
	useAPI     tokenUse = "api" // of clients that never ask for another one; good below /api
)

// audience returns what tokens of a use name as theirs: those below /api are for
// nothing else.
func (t tokens) audience(use tokenUse) string {
	if use == useAPI {
		return t.domain + deployedRoot
	}
	return t.domain
}

// claims is what a token says: whose it is, here, until when, for what. A refresh
// token names its place in a session besides.
type claims struct {
	jwt.RegisteredClaims

	Use        tokenUse `json:"use"`
	Session    string   `json:"sid,omitempty"`
	Generation uint64   `json:"gen,omitempty"`
}

// tokens writes and reads the tokens of one registry. As long as the key stays, a
// restart ends no session.
type tokens struct {
	key    []byte
	domain string
}

// tokenPair is what an agent is given at registration and with each refresh.
type tokenPair struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresAt    int64  `json:"expiresAt"` // of the access token
}

// pair returns the tokens of a session as it stands.
func (t tokens) pair(s federation.Session, now time.Time) (tokenPair, error) {
	ends := now.Add(accessLife).Truncate(time.Second)
	access, err := t.issue(s.Handle, claims{Use: useAccess}, now, ends)
	if err != nil {
		return tokenPair{}, err
	}
	refresh, err := t.issue(s.Handle, claims{Use: useRefresh, Session: s.ID, Generation: s.Generation}, now, s.Expires)
	if err != nil {
		return tokenPair{}, err
	}
	return tokenPair{AccessToken: access, RefreshToken: refresh, ExpiresAt: ends.Unix()}, nil
}

// issue returns a token.
func (t tokens) issue(handle string, c claims, now, ends time.Time) (string, error) {
	c.RegisteredClaims = jwt.RegisteredClaims{
		Issuer: t.domain, Audience: jwt.ClaimStrings{t.audience(c.Use)}, Subject: handle,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(ends),
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(t.key)
	if err != nil {
		return "", fmt.Errorf("issue %s token: %w", c.Use, err)
	}
	return text, nil
}

// read returns what the bearer token of a request says, if it is good for a use.
//
// spec: airc-v0.1.1 §11.2
func (t tokens) read(r *http.Request, use tokenUse, now time.Time) (claims, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || text == "" {
		return claims{}, refuse(codeUnauthorized, "an "+string(use)+" token is needed: Authorization: Bearer …")
	}
	var c claims
	_, err := jwt.ParseWithClaims(strings.TrimSpace(text), &c, func(*jwt.Token) (any, error) { return t.key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(t.domain), jwt.WithAudience(t.audience(use)), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return claims{}, refuse(codeTokenExpired, "this token has expired")
	case err != nil || c.Use != use:
		return claims{}, errNoGoodToken()
	}
	return c, nil
}

func errNoGoodToken() error { return refuse(codeUnauthorized, "this token is not good here") }

// authenticate returns the agent whose access token a request carries. Below /api the
// long-lived ones are good too, as long as their agent has a key or never had one:
// nothing else can end them.
func (l *Link) authenticate(r *http.Request) (federation.Agent, error) {
	now := time.Now()
	if !deployed(r) {
		c, err := l.tokens.read(r, useAccess, now)
		if err != nil {
			return federation.Agent{}, err
		}
		return l.holder(r, c)
	}
	c, err := l.tokens.read(r, useAPI, now)
	if err != nil {
		if access, accessErr := l.tokens.read(r, useAccess, now); accessErr == nil {
			c, err = access, nil
		}
	}
	if err != nil {
		return federation.Agent{}, err
	}
	agent, err := l.holder(r, c)
	if err == nil && len(agent.Keys) > 0 && !agent.Primary(now).Signs(now) {
		return federation.Agent{}, errNoGoodToken()
	}
	return agent, err
}

// holder returns the agent that a token was issued to.
func (l *Link) holder(r *http.Request, c claims) (federation.Agent, error) {
	agent, err := l.deps.Registry.Agent(r.Context(), c.Subject)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.Agent{}, errNoGoodToken()
	case err != nil:
		return federation.Agent{}, fmt.Errorf("look up agent: %w", err)
	}
	return agent, nil
}

// newSession returns a session whose first refresh token is good.
func newSession(handle string, now time.Time) federation.Session {
	id := make([]byte, sessionIDBytes)
	_, _ = rand.Read(id) // never fails
	return federation.Session{
		ID: base64.RawURLEncoding.EncodeToString(id), Handle: handle, Generation: 1, Expires: now.Add(refreshLife).Truncate(time.Second),
	}
}

// postRefresh answers POST /auth/refresh: the token is spent, and the next one of
// its session is good. One that was spent before ends the session: two have it, and
// one of them is a thief.
//
// spec: airc-v0.1.1 §11.3
func (l *Link) postRefresh(c *call) (answer, error) {
	now := time.Now()
	token, err := l.tokens.read(c.Request, useRefresh, now)
	if err != nil {
		return answer{}, err
	}
	agent, err := l.holder(c.Request, token)
	if err != nil {
		return answer{}, err
	}
	session, err := l.deps.Registry.AdvanceSession(c.Context(), token.Session, token.Generation, now, now.Add(refreshLife).Truncate(time.Second))
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, refuse(codeUnauthorized, "the session of this token has ended")
	case err != nil:
		return answer{}, fmt.Errorf("refresh session of %s: %w", agent.Handle, err)
	}
	pair, err := l.tokens.pair(session, now)
	if err != nil {
		return answer{}, err
	}
	c.agent, c.denied = agent, nil
	return answer{status: http.StatusOK, body: pair}, nil
}

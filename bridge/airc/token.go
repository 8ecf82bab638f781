package airc

import (
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

// tokenUse tells the two kinds of tokens apart, so that neither does the other's
// work.
type tokenUse string

const (
	useAccess  tokenUse = "access"
	useRefresh tokenUse = "refresh"
)

// claims is what a token says: whose it is, here, until when, for what.
type claims struct {
	jwt.RegisteredClaims

	Use tokenUse `json:"use"`
}

// tokens writes and reads the tokens of one registry. Nothing is kept for them:
// as long as the key stays, a restart ends no session.
type tokens struct {
	key    []byte
	domain string
}

// issue returns a token and when it ends.
func (t tokens) issue(handle string, use tokenUse, life time.Duration, now time.Time) (string, time.Time, error) {
	ends := now.Add(life).Truncate(time.Second)
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Use: use, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: t.domain, Audience: jwt.ClaimStrings{t.domain}, Subject: handle,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(ends),
	}})
	text, err := token.SignedString(t.key)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue %s token: %w", use, err)
	}
	return text, ends, nil
}

// subject returns the handle that an access token was issued to.
func (t tokens) subject(text string, now time.Time) (string, error) {
	var c claims
	_, err := jwt.ParseWithClaims(text, &c, func(*jwt.Token) (any, error) { return t.key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(t.domain), jwt.WithAudience(t.domain), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", refuse(codeTokenExpired, "this token has expired")
	case err != nil || c.Use != useAccess:
		return "", refuse(codeUnauthorized, "this token is not good here")
	}
	return c.Subject, nil
}

// authenticate returns the agent whose access token a request carries.
//
// spec: airc-v0.1.1 §11.2
func (l *Link) authenticate(r *http.Request) (federation.Agent, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return federation.Agent{}, refuse(codeUnauthorized, "an access token is needed: Authorization: Bearer …")
	}
	handle, err := l.tokens.subject(strings.TrimSpace(token), time.Now())
	if err != nil {
		return federation.Agent{}, err
	}
	agent, err := l.deps.Registry.Agent(r.Context(), handle)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.Agent{}, refuse(codeUnauthorized, "this token is not good here")
	case err != nil:
		return federation.Agent{}, fmt.Errorf("look up agent: %w", err)
	}
	return agent, nil
}

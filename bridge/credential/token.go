package credential

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/participants"
)

// The lifetimes of tokens.
//
// spec: airc-v0.1.1 §11.3
const (
	AccessLife  = 900 * time.Second
	RefreshLife = 86400 * time.Second
)

// The lifetimes of a session without a new token, begun by an agent host or by a browser.
const (
	HostLife = 30 * 24 * time.Hour
	PageLife = 12 * time.Hour
)

// LifeOf returns the lifetime of a session without a new token.
func LifeOf(s federation.Session) time.Duration {
	switch s.Began { //nolint:exhaustive // the others have one life
	case federation.BeganCode, federation.BeganDevice, federation.BeganPairing:
		return HostLife
	case federation.BeganPage:
		return PageLife
	}
	return RefreshLife
}

// Leeway is the allowed clock skew for time claims of other issuers. The gateway's own tokens have
// none, because their expiry is exact.
//
// spec: RFC 7519 §4.1.4
const Leeway = time.Minute

// sessionIDBytes makes collisions of random session IDs impossible in practice.
const sessionIDBytes = 16

// Use separates kinds of tokens. A token of one kind is invalid as any other.
type Use string

// The uses of the tokens of every session.
const (
	Access  Use = "access"
	Refresh Use = "refresh"
)

// Claims are the contents of a token. Only refresh tokens have a generation.
type Claims struct {
	jwt.RegisteredClaims

	Use        Use    `json:"use"`
	Session    string `json:"sid,omitempty"`
	Generation uint64 `json:"gen,omitempty"`
}

// maxKnown bounds the cached access tokens, about 700 bytes each.
const maxKnown = 4096

// Tokens issues and reads the tokens of one issuer. While the key is unchanged, a restart ends no
// session. It is safe for concurrent use.
type Tokens struct {
	key      []byte
	issuer   string
	audience func(use Use) string
	known    *otter.Cache[string, Claims] // a polling caller sends the same token many times
}

// NewTokens returns the tokens of an issuer; audience returns the audience for a use.
func NewTokens(key []byte, issuer string, audience func(use Use) string) *Tokens {
	return &Tokens{key: key, issuer: issuer, audience: audience, known: otter.Must(&otter.Options[string, Claims]{
		MaximumSize: maxKnown,
		Executor:    func(tidy func()) { tidy() }, // runs in the caller's goroutine, so that no goroutine outlives the cache
	})}
}

// Pair is the tokens issued at the start of a session and with each refresh.
type Pair struct {
	Access, Refresh string
	Ends            time.Time // of the access token
}

// Pair returns the current tokens of a session.
func (t *Tokens) Pair(s federation.Session, now time.Time) (Pair, error) {
	p := Pair{Ends: now.Add(AccessLife).Truncate(time.Second)}
	var err error
	if p.Access, err = t.Issue(s.Participant, Claims{Use: Access, Session: s.ID}, now, p.Ends); err != nil {
		return Pair{}, err
	}
	p.Refresh, err = t.Issue(s.Participant, Claims{Use: Refresh, Session: s.ID, Generation: s.Generation}, now, s.Expires)
	return p, err
}

// Issue returns a token for a subject.
func (t *Tokens) Issue(subject string, c Claims, now, ends time.Time) (string, error) {
	c.RegisteredClaims = jwt.RegisteredClaims{
		Issuer: t.issuer, Audience: jwt.ClaimStrings{t.audience(c.Use)}, Subject: subject,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(ends),
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(t.key)
	if err != nil {
		return "", fmt.Errorf("issue %s token: %w", c.Use, err)
	}
	return text, nil
}

// Bearer returns the bearer token of a request, or [ErrNoToken].
func Bearer(r *http.Request) (string, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if text = strings.TrimSpace(text); !strings.EqualFold(scheme, "Bearer") || text == "" {
		return "", ErrNoToken
	}
	return text, nil
}

// Read returns the claims of a token valid for a use. The caller must check that the session is live.
// The error is [ErrToken] or [ErrTokenExpired].
func (t *Tokens) Read(text string, use Use, now time.Time) (Claims, error) {
	if c, ok := t.known.GetIfPresent(text); ok && c.Use == use && now.Before(c.ExpiresAt.Time) {
		return c, nil
	}
	c, err := t.read(text, use, now)
	if err == nil && use != Refresh { // refresh tokens are used once
		t.known.Set(strings.Clone(text), c) // the clone does not retain the header
	}
	return c, err
}

func (t *Tokens) read(text string, use Use, now time.Time) (Claims, error) {
	var c Claims
	_, err := jwt.ParseWithClaims(text, &c, func(*jwt.Token) (any, error) { return t.key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(t.issuer), jwt.WithAudience(t.audience(use)), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, ErrTokenExpired
	case err != nil || c.Use != use:
		return Claims{}, ErrToken
	}
	return c, nil
}

// SessionOf returns the session of a token, or [ErrSession] if it has ended. Sessions are not cached,
// so that an end takes effect at once at every replica.
func SessionOf(ctx context.Context, record *participants.Participants, c Claims, now time.Time) (federation.Session, error) {
	s, err := record.Session(ctx, c.Session, now)
	if errors.Is(err, federation.ErrNotFound) || err == nil && s.Participant != c.Subject {
		return federation.Session{}, ErrSession
	}
	return s, err
}

// NewSession completes begins with an ID, its times and its first generation.
func NewSession(begins federation.Session, now time.Time) federation.Session {
	id := make([]byte, sessionIDBytes)
	_, _ = rand.Read(id)                                     // never fails
	begins.ID, begins.Generation = hex.EncodeToString(id), 1 // hex: an ID is an argument of commands, and a leading "-" would start a flag
	begins.Created, begins.Used, begins.Expires = now, now, now.Add(LifeOf(begins)).Truncate(time.Second)
	return begins
}

// HostOf returns the client address of a request, without a port.
func HostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

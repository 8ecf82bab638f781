package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/operators"
)

// Admission decides which callers to serve. It returns a name for the audit log, a [*ProblemError]
// for a refused caller, or an error wrapping [*federation.UnavailableError] if it cannot decide
// now. It may be called concurrently, and repeatedly for a long request.
type Admission func(r *http.Request, needs federation.Scope) (actor string, err error)

// Everybody admits each caller, under the listener's name for it. The permissions of the socket
// decide which processes can open it.
func Everybody(r *http.Request, _ federation.Scope) (string, error) { return r.RemoteAddr, nil }

func errUnauthorized(detail string) error {
	return &ProblemError{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Detail: detail}
}

type callerKey struct{}

type caller struct {
	actor string
	still func() error // nil while the caller is still admitted
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// Admitted serves admitted requests, and refuses all others.
func (o *Operator) Admitted(admit Admission, needs federation.Scope, serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, err := admit(r, needs)
		if err != nil {
			if _, turnedAway := errors.AsType[*ProblemError](err); turnedAway {
				o.deps.Log.LogAttrs(r.Context(), slog.LevelInfo, "operator request refused", slog.String("network", network),
					slog.String("path", r.URL.Path), slog.String("actor", r.RemoteAddr), slog.Any("err", err))
			}
			o.writeProblem(w, r, err)
			return
		}
		still := func() error { _, err := admit(r, needs); return err }
		serve.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{actor, still})))
	})
}

// CodeRateLimited is the code for a caller with too many wrong tokens.
const CodeRateLimited = "rate-limited"

// An address may send wrongTokens wrong tokens per wrongPeriod.
const (
	wrongTokens = 10
	wrongPeriod = time.Minute
)

// maxGood bounds the cached valid tokens. Operators have only a few.
const maxGood = 1 << 10

// Bearers admits a caller with a token of the needed scope. An address with too many wrong tokens
// is refused until its rate recovers, except for a token already accepted here. A stranger behind
// the same address therefore cannot lock out operators.
//
// spec: RFC 6750 §2.1, §3.1
func Bearers(tokens *operators.Operators) Admission { return NewTokenCheck(tokens).Admit }

// TokenCheck checks the tokens of operators. It may be used concurrently.
type TokenCheck struct {
	tokens *operators.Operators
	wrong  credential.Addresses

	mu   sync.Mutex
	good map[[32]byte]bool // digests of the tokens accepted since the start
}

// NewTokenCheck returns a check without recorded failures.
func NewTokenCheck(tokens *operators.Operators) *TokenCheck {
	return &TokenCheck{
		tokens: tokens,
		wrong:  credential.NewAddresses(func() int { return wrongTokens }, wrongPeriod),
		good:   map[[32]byte]bool{},
	}
}

// Admit implements [Admission] with the Authorization header.
func (b *TokenCheck) Admit(r *http.Request, needs federation.Scope) (string, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if text = strings.TrimSpace(text); !strings.EqualFold(scheme, "Bearer") || text == "" {
		return "", errUnauthorized("an operator token is needed: Authorization: Bearer …")
	}
	token, err := b.Check(r, text)
	if err != nil {
		return "", err
	}
	return AdmitToken(token, needs)
}

// Check returns the token of a request. It blocks on the record. The error is a [*ProblemError] for
// a wrong token, or if the address sent too many of them.
func (b *TokenCheck) Check(r *http.Request, text string) (federation.OperatorToken, error) {
	now, from, digest := time.Now(), credential.AddressOf(r), federation.DigestToken(text)
	if !b.wasGood(digest) && b.wrong.Left(from, now).Left == 0 {
		return federation.OperatorToken{}, errThrottled()
	}
	token, err := b.tokens.Token(r.Context(), digest, now)
	switch {
	case isNotFound(err):
		_ = b.wrong.Take(from, now) // the next request is refused once none is left
		return token, errUnauthorized("this operator token is invalid: it is unknown, revoked or expired")
	case err != nil:
		return token, err
	}
	b.remember(digest)
	return token, nil
}

// AdmitToken is [Admission] for an already checked token.
func AdmitToken(token federation.OperatorToken, needs federation.Scope) (actor string, err error) {
	if !token.Scope.Covers(needs) {
		return "", &ProblemError{
			Status: http.StatusForbidden, Code: CodeForbidden,
			Detail: "token " + token.Name + " has scope " + string(token.Scope) + ", and this needs " + string(needs),
		}
	}
	return "token:" + token.Name, nil
}

// The token may have been revoked since.
func (b *TokenCheck) wasGood(digest [32]byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.good[digest]
}

func (b *TokenCheck) remember(digest [32]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.good) >= maxGood {
		clear(b.good)
	}
	b.good[digest] = true
}

func errThrottled() error {
	return &ProblemError{
		Status: http.StatusTooManyRequests, Code: CodeRateLimited, RetryAfter: int((wrongPeriod / wrongTokens).Seconds()),
		Detail: "too many wrong operator tokens came from this address",
	}
}

// Lifetimes of tokens. They are never unlimited.
const (
	defaultTokenLife = 720 * time.Hour
	maxTokenLife     = 8760 * time.Hour
)

func (o *Operator) tokens(context.Context, Paging) (listing[Token], error) {
	page := func(ctx context.Context, cursor string, limit int) (Page[Token], error) {
		found, err := o.deps.Record.Tokens(ctx, cursor, limit)
		p := Page[Token]{Items: []Token{}}
		for _, t := range found {
			p.Items = append(p.Items, shapeToken(t))
		}
		if len(found) == limit {
			p.NextCursor = found[limit-1].Name
		}
		return p, err
	}
	return listing[Token]{page: page}, nil
}

func shapeToken(t federation.OperatorToken) Token {
	return Token{Name: t.Name, Scope: t.Scope, Created: Moment(t.Created), Expires: Moment(t.Expires)}
}

func (o *Operator) createToken(ctx context.Context, body route.Body[TokenAsk]) (NewToken, error) {
	ask, err := body.Read()
	if err != nil {
		return NewToken{}, err
	}
	text, token, err := tokenOf(ask, time.Now())
	if err != nil {
		return NewToken{}, err
	}
	err = o.deps.Record.AddToken(ctx, token)
	if errors.Is(err, federation.ErrTaken) {
		return NewToken{}, conflict("there is a token " + token.Name + ": revoke it first, or choose another name")
	}
	if err != nil {
		return NewToken{}, err
	}
	o.act(ctx, "token create", token.Name+" "+string(token.Scope), ask.Reason)
	return NewToken{Token: shapeToken(token), Text: text}, nil
}

func tokenOf(ask TokenAsk, now time.Time) (text string, t federation.OperatorToken, err error) {
	scope, err := federation.ParseScope(string(ask.Scope))
	if err != nil {
		return "", t, usage("scope: want one of read, operate, admin")
	}
	life := defaultTokenLife
	if ask.TTL != "" {
		if life, err = time.ParseDuration(ask.TTL); err != nil || life <= 0 || life > maxTokenLife {
			return "", t, usage(fmt.Sprintf("ttl: want a duration, at most %dh", int(maxTokenLife.Hours())))
		}
	}
	if text, t, err = federation.NewOperatorToken(rand.Reader); err != nil {
		return "", t, err
	}
	t.Name = cmp.Or(ask.Name, string(scope)+"-"+hex.EncodeToString(t.Digest[:4]))
	if !federation.ValidTokenName(t.Name) {
		return "", t, usage(`name: want up to 64 letters, digits and "._-@", the first a letter or a digit`)
	}
	t.Scope, t.Created, t.Expires = scope, now, now.Add(life)
	return text, t, nil
}

func (o *Operator) revokeToken(ctx context.Context, in ActOnName) (Acted, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	name := in.Name
	revoke := o.deps.Record.RevokeToken
	if ask.DryRun {
		revoke = o.hasToken
	}
	err = revoke(ctx, name)
	if isNotFound(err) {
		return Acted{}, errNone("token " + name)
	}
	if err != nil {
		return Acted{}, err
	}
	return o.acted(ctx, "token revoke", name, ask, 1), nil
}

func (o *Operator) hasToken(ctx context.Context, name string) error {
	for after := ""; ; {
		page, err := o.deps.Record.Tokens(ctx, after, MaxLimit)
		switch {
		case err != nil:
			return err
		case slices.ContainsFunc(page, func(t federation.OperatorToken) bool { return t.Name == name }):
			return nil
		case len(page) < MaxLimit:
			return federation.ErrNotFound
		}
		after = page[len(page)-1].Name
	}
}

func (o *Operator) sessions(_ context.Context, query SessionQuery) (listing[Session], error) {
	did, err := optionalDID(query.DID)
	if err != nil {
		return listing[Session]{}, err
	}
	page := func(ctx context.Context, cursor string, limit int) (p Page[Session], err error) {
		var found []federation.Session
		if did == "" {
			found, err = o.deps.Record.AllSessions(ctx, cursor, limit, time.Now())
		} else {
			var names []string
			if names, err = o.deps.Record.SessionNames(ctx, did); err == nil {
				found, err = o.deps.Record.Sessions(ctx, names, time.Now())
			}
		}
		p.Items = make([]Session, len(found))
		for i, s := range found {
			p.Items[i] = Session{
				ID: s.ID, Participant: s.Participant, Began: s.Began, Client: s.ClientName, Address: s.Address,
				Created: Moment(s.Created), Used: Moment(s.Used), Expires: Moment(s.Expires),
			}
		}
		if did == "" && len(found) == limit {
			p.NextCursor = found[limit-1].ID
		}
		return p, err
	}
	return listing[Session]{page: page}, nil
}

func (o *Operator) endSession(ctx context.Context, id string, ask Act) (Acted, error) {
	now := time.Now()
	session, err := o.deps.Record.Session(ctx, id, now)
	if err == nil && !ask.DryRun {
		err = o.deps.Record.EndSession(ctx, []string{session.Participant}, id, now)
	}
	if isNotFound(err) || errors.Is(err, federation.ErrSessionEnded) {
		return Acted{}, errNone("session " + id)
	}
	if err != nil {
		return Acted{}, err
	}
	if !ask.DryRun {
		o.deps.PubSub.Wake(bridge.SessionsTopic(session.Participant), bridge.InboxTopic(session.Participant))
	}
	return o.acted(ctx, "session end", id+" of "+session.Participant, ask, 1), nil
}

// endSessions ends one session, or deletes the password of a DID. It invalidates the tokens of the
// sessions and ends their streams at once.
func (o *Operator) endSessions(ctx context.Context, in SessionsEnd) (Acted, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	if !strings.HasPrefix(in.DID, "did:") {
		return o.endSession(ctx, in.DID, ask)
	}
	did, err := parseDID("did", in.DID)
	if err != nil {
		return Acted{}, err
	}
	names, err := o.deps.Record.SessionNames(ctx, did)
	if err != nil {
		return Acted{}, err
	}
	now := time.Now()
	if ask.DryRun {
		found, err := o.deps.Record.Sessions(ctx, names, now)
		if err != nil {
			return Acted{}, err
		}
		return o.acted(ctx, "token revoke", string(did), ask, len(found)), nil
	}
	if err := o.deps.Record.DropPassword(ctx, did); err != nil {
		return Acted{}, err
	}
	ended, err := o.deps.Record.EndSessions(ctx, names, "", false, now)
	if err != nil {
		return Acted{}, err
	}
	for _, name := range names {
		o.deps.PubSub.Wake(bridge.SessionsTopic(name), bridge.InboxTopic(name))
	}
	return o.acted(ctx, "token revoke", string(did), ask, ended), nil
}

func (o *Operator) createPairingCode(ctx context.Context, body route.Body[PairAsk]) (PairingCode, error) {
	ask, err := body.Read()
	if err != nil {
		return PairingCode{}, err
	}
	did, err := parseDID("did", ask.DID)
	if err != nil {
		return PairingCode{}, err
	}
	if err := o.deps.CheckDID(did); err != nil {
		return PairingCode{}, usage("did: " + err.Error())
	}
	code, ends, err := credential.NewPairing(ctx, o.deps.Record.Participants, did, "", true, time.Now())
	if err != nil {
		return PairingCode{}, err
	}
	o.act(ctx, "token pair", string(did), ask.Reason)
	return PairingCode{Code: code, DID: did, ExpiresAt: Moment(ends)}, nil
}

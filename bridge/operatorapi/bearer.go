package operatorapi

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/store/operators"
)

// CodeRateLimited is the code of a caller that showed too many wrong tokens.
const CodeRateLimited = "rate-limited"

// An address may show wrongTokens wrong tokens in each wrongPeriod.
const (
	wrongTokens = 10
	wrongPeriod = time.Minute
)

// maxGood bounds the good tokens that an admission remembers; operators have a few.
const maxGood = 1 << 10

// Bearers admits a caller that shows a token with the scope that is needed. An address that
// showed too many wrong tokens is refused until its rate recovers, but for a token that
// was good here before: a stranger behind the same address does not lock out operators.
//
// spec: RFC 6750 §2.1, §3.1
func Bearers(tokens *operators.Operators) Admission { return NewTokenCheck(tokens).Admit }

// TokenCheck checks the tokens of operators. Make one with [NewTokenCheck]; it may be used
// concurrently.
type TokenCheck struct {
	tokens *operators.Operators
	wrong  credential.Addresses // counts wrong tokens

	mu   sync.Mutex
	good map[[32]byte]bool // digests of tokens that were good since the start
}

// NewTokenCheck returns a check that has counted no wrong token.
func NewTokenCheck(tokens *operators.Operators) *TokenCheck {
	return &TokenCheck{
		tokens: tokens,
		wrong:  credential.NewAddresses(func() int { return wrongTokens }, wrongPeriod),
		good:   map[[32]byte]bool{},
	}
}

// Admit implements [Admission] for requests with the header Authorization.
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

// Check returns the token that a request shows. It blocks on the record. The error is a
// [*ProblemError] for a wrong token and for an address that showed too many of them.
func (b *TokenCheck) Check(r *http.Request, text string) (federation.OperatorToken, error) {
	now, from, digest := time.Now(), credential.AddressOf(r), federation.DigestToken(text)
	if !b.wasGood(digest) && b.wrong.Left(from, now).Left == 0 {
		return federation.OperatorToken{}, errThrottled()
	}
	token, err := b.tokens.Token(r.Context(), digest, now)
	switch {
	case isNotFound(err):
		_ = b.wrong.Take(from, now) // the next request is refused once none is left
		return token, errUnauthorized("this operator token is not good: it is unknown, revoked or over")
	case err != nil:
		return token, err
	}
	b.remember(digest)
	return token, nil
}

// AdmitToken is [Admission] for a token that was checked.
func AdmitToken(token federation.OperatorToken, needs federation.Scope) (actor string, err error) {
	if !token.Scope.Covers(needs) {
		return "", &ProblemError{
			Status: http.StatusForbidden, Code: CodeForbidden,
			Detail: "token " + token.Name + " has scope " + string(token.Scope) + ", and this needs " + string(needs),
		}
	}
	return "token:" + token.Name, nil
}

// wasGood reports whether a token was good since the start. It may be revoked by now.
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

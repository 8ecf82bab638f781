package federation

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// ErrInvalidScope is returned by [ParseScope].
var ErrInvalidScope = errors.New("federation: want one of the scopes read, operate, admin")

// Scope is what an operator may do. Each one includes those before it.
type Scope string

// The scopes, the smallest first.
const (
	ReadScope    Scope = "read"    // sees
	OperateScope Scope = "operate" // also moves deliveries and links, and takes steps that the gateway vouches for
	AdminScope   Scope = "admin"   // also keys, tokens, peers, bindings
)

// scopes returns all of them in order.
func scopes() []Scope { return []Scope{ReadScope, OperateScope, AdminScope} }

// ParseScope reads a scope. It returns [ErrInvalidScope] for any other word.
func ParseScope(text string) (Scope, error) {
	if s := Scope(text); slices.Contains(scopes(), s) {
		return s, nil
	}
	return "", ErrInvalidScope
}

// Covers reports whether an operator with scope s may do what needs another scope. The zero
// Scope covers nothing.
func (s Scope) Covers(needed Scope) bool {
	has := slices.Index(scopes(), s)
	return has >= 0 && has >= slices.Index(scopes(), needed) && slices.Contains(scopes(), needed)
}

// OperatorToken describes a token that lets its bearer act as an operator. The token itself
// is returned once, when it is made, and stored nowhere.
type OperatorToken struct {
	Name    string // name of the bearer in the audit log; see [ValidTokenName]
	Scope   Scope
	Digest  [32]byte // see [DigestToken]
	Created time.Time
	Expires time.Time // good before then
}

// Good reports whether the token is good at a time.
func (t OperatorToken) Good(now time.Time) bool { return now.Before(t.Expires) }

// The form of a token: a prefix that people and secret scanners recognise, and 256 random
// bits, so that a plain digest hides it.
const (
	tokenPrefix = "baton_op_"
	tokenBytes  = 32
)

// maxTokenNameBytes bounds the name of a token.
const maxTokenNameBytes = 64

// ValidTokenName reports whether a text can name a token: up to 64 letters, digits and
// ".", "_", "-", "@", the first a letter or a digit.
func ValidTokenName(text string) bool {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	odd := func(r rune) bool { return !plain(r) && !strings.ContainsRune("._-@", r) }
	return text != "" && len(text) <= maxTokenNameBytes && plain(rune(text[0])) && !strings.ContainsFunc(text, odd)
}

// NewOperatorToken returns a token as its bearer has it, and what is kept of it, without
// name, scope and times.
func NewOperatorToken(random io.Reader) (text string, kept OperatorToken, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", OperatorToken{}, fmt.Errorf("make token: %w", err)
	}
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	return text, OperatorToken{Digest: DigestToken(text)}, nil
}

// DigestToken returns what the record knows a token by: the SHA-256 of its text.
func DigestToken(text string) [32]byte { return sha256.Sum256([]byte(text)) }

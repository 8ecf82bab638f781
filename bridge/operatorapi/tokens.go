package operatorapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/federation"
)

// How long tokens are good: as long as is asked for, and never for ever.
const (
	defaultTokenLife = 720 * time.Hour
	maxTokenLife     = 8760 * time.Hour
)

// Token is an operator token, without the token itself.
type Token struct {
	Name    string           `json:"name"`
	Scope   federation.Scope `json:"scope"`
	Created Moment           `json:"created"`
	Expires Moment           `json:"expires"`
}

// TokenAsk asks for a token.
type TokenAsk struct {
	Name   string           `json:"name,omitempty"` // "": the scope and some digits
	Scope  federation.Scope `json:"scope"`
	TTL    string           `json:"ttl,omitempty"` // a duration, at most a year; 720h
	Reason string           `json:"reason,omitempty"`
}

// NewToken is a token that was made just now.
type NewToken struct {
	Token

	Text string `json:"token"` // told this once
}

// tokens is GET tokens, by name.
func (o *Operator) tokens(r *http.Request) (listing, error) {
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		found, err := o.deps.Tokens.Tokens(ctx, cursor, limit)
		p := Page[Token]{Items: []Token{}}
		for _, t := range found {
			p.Items = append(p.Items, shapeToken(t))
		}
		if len(found) == limit {
			p.NextCursor = found[limit-1].Name
		}
		return p, err
	}
	return listing{page: page}, known(r.URL.Query())
}

func shapeToken(t federation.OperatorToken) Token {
	return Token{Name: t.Name, Scope: t.Scope, Created: Moment(t.Created), Expires: Moment(t.Expires)}
}

// postToken answers POST tokens with a token, which nobody can read again.
func (o *Operator) postToken(r *http.Request) (answer, error) {
	var ask TokenAsk
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	text, token, err := ask.token(time.Now())
	if err != nil {
		return answer{}, err
	}
	err = o.deps.Tokens.AddToken(r.Context(), token)
	if errors.Is(err, federation.ErrTaken) {
		return answer{}, conflict("there is a token " + token.Name + ": revoke it first, or choose another name")
	}
	if err != nil {
		return answer{}, err
	}
	o.act(r, "token create", token.Name+" "+string(token.Scope), ask.Reason)
	return answer{status: http.StatusCreated, body: NewToken{Token: shapeToken(token), Text: text}}, nil
}

// token makes what is asked for.
func (ask TokenAsk) token(now time.Time) (text string, t federation.OperatorToken, err error) {
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

// postRevocation answers POST tokens/{name}/revoke. It holds from the next request on.
func (o *Operator) postRevocation(r *http.Request) (answer, error) {
	var ask Act
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	name := r.PathValue("name")
	revoke := o.deps.Tokens.RevokeToken
	if ask.DryRun {
		revoke = o.hasToken
	}
	err := revoke(r.Context(), name)
	if isNotFound(err) {
		return answer{}, errNone("token " + name)
	}
	if err != nil {
		return answer{}, err
	}
	return o.acted(r, "token revoke", name, ask, 1), nil
}

// hasToken returns [federation.ErrNotFound] for a name that no token has.
func (o *Operator) hasToken(ctx context.Context, name string) error {
	for after := ""; ; {
		page, err := o.deps.Tokens.Tokens(ctx, after, MaxLimit)
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

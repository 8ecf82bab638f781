package operatorapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/route"
	"baton/federation"
)

// How long tokens are good: as long as is asked for, and never for ever.
const (
	defaultTokenLife = 720 * time.Hour
	maxTokenLife     = 8760 * time.Hour
)

// tokens returns the list of tokens, by name.
func (o *Operator) tokens(context.Context, contract.Paging) (listing[Token], error) {
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

// createToken makes a token. Only its answer has the token itself.
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

// tokenOf makes the token that a request asks for.
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

// revokeToken revokes a token: later requests with it are refused.
func (o *Operator) revokeToken(ctx context.Context, in contract.ActOnName) (Acted, error) {
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

// hasToken returns [federation.ErrNotFound] for a name that no token has.
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

package airc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// OIDCConfig is the table [airc.oidc].
type OIDCConfig struct {
	Issuer   string `toml:"issuer"`   // issuer of OpenID Connect; "" for none
	Audience string `toml:"audience"` // required audience of its tokens
}

func (c OIDCConfig) check(mistake func(key, why string)) {
	if c.Issuer != "" && federation.CheckBaseURL(c.Issuer) != nil {
		mistake("oidc.issuer", "want https:// and a host")
	}
	if (c.Issuer == "") != (c.Audience == "") {
		mistake("oidc.audience", "required with oidc.issuer, and not allowed without it")
	}
}

const issuerLife = time.Hour

type issuer struct {
	keys    oidc.KeySet // nil if not yet known
	algs    []string
	fetched time.Time
}

type accounts struct {
	cfg   OIDCConfig
	fetch *identity.Client
	known chan issuer // owned by the goroutine that receives it, until it sends it back
}

func newAccounts(cfg OIDCConfig, fetch *identity.Client) accounts {
	a := accounts{cfg: cfg, fetch: fetch, known: make(chan issuer, 1)}
	a.known <- issuer{}
	return a
}

// spec: airc-v0.1.1 §11.4
type account struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	IDToken string `json:"idToken,omitempty"`
}

// bind may block on the issuer. If the issuer is unreachable, it returns a
// [*federation.UnavailableError] and restores the challenge.
func (l *Link) bind(ctx context.Context, reg *registration, now time.Time) error {
	if reg.oidc == nil || l.cfg.OIDC.Issuer == "" {
		return nil
	}
	var err error
	reg.account, err = l.accounts.verify(ctx, reg.oidc, reg.challenge, now)
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		l.challenges.Restore(reg.challenge)
	}
	return err
}

// verify requires a nonce in the token to be the challenge of the registration. A token without a nonce
// registers one agent. The error is a refusal, or a [*federation.UnavailableError] if the issuer's keys
// cannot be fetched.
func (a accounts) verify(ctx context.Context, text json.RawMessage, challenge string, now time.Time) (agents.Account, error) {
	var said account
	if err := federation.DecodeJSON(text, &said); err != nil || said.IDToken == "" {
		return agents.Account{}, wire.Refuse(wire.CodeBadRequest, "oidc has no idToken")
	}
	if said.Issuer != a.cfg.Issuer {
		return agents.Account{}, wire.Refuse(wire.CodeUnauthorized, "this registry accepts accounts of "+a.cfg.Issuer)
	}
	if err := errors.Join(checkClaimNames(said.IDToken), checkTimes(said.IDToken)); err != nil {
		return agents.Account{}, wire.Refuse(wire.CodeUnauthorized, "idToken is invalid: "+err.Error())
	}
	from, err := a.issuer(ctx, now)
	if err != nil {
		return agents.Account{}, err
	}
	keys := &fetchedKeys{KeySet: from.keys}
	token, err := oidc.NewVerifier(a.cfg.Issuer, keys, &oidc.Config{
		ClientID: a.cfg.Audience, SupportedSigningAlgs: from.algs,
		Now: func() time.Time { return now.Add(-credential.Leeway) }, // the library allows five minutes of leeway for nbf, and none for exp
	}).Verify(ctx, said.IDToken)
	if away, ok := errors.AsType[*federation.UnavailableError](keys.err); ok {
		return agents.Account{}, away
	}
	switch {
	case err != nil:
		return agents.Account{}, wire.Refuse(wire.CodeUnauthorized, "idToken is invalid: "+err.Error())
	case token.Subject == "" || said.Subject != "" && said.Subject != token.Subject:
		return agents.Account{}, wire.Refuse(wire.CodeUnauthorized, "idToken has another subject")
	case token.Nonce != "" && token.Nonce != challenge:
		return agents.Account{}, wire.Refuse(wire.CodeUnauthorized, "the nonce in idToken is not the challenge")
	}
	account := agents.Account{Issuer: token.Issuer, Subject: token.Subject}
	if token.Nonce == "" { // nothing binds the token to this registration
		account.Since = token.IssuedAt.Add(-wire.ClockSkew)
		if epoch := time.Unix(1, 0); account.Since.Before(epoch) { // no issue time
			account.Since = epoch
		}
	}
	return account, nil
}

// checkClaimNames is needed because the library decodes with encoding/json. It leaves malformed tokens
// to the library.
func checkClaimNames(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	claims, err := signing.DecodeBase64URL(parts[1])
	if err != nil {
		return err
	}
	return federation.ExactNames(claims, "iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "at_hash", "_claim_names", "_claim_sources")
}

func checkTimes(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("want a JWT")
	}
	payload, err := signing.DecodeBase64URL(parts[1])
	var claims map[string]json.RawMessage
	if err != nil || federation.DecodeJSON(payload, &claims) != nil {
		return errors.New("want a JWT")
	}
	for _, name := range []string{"exp", "nbf", "iat"} {
		if _, err := credential.NumericDate(claims[name]); err != nil {
			return fmt.Errorf("%s is invalid: %w", name, err)
		}
	}
	return nil
}

// issuer caches the metadata. The keys are refetched for each token with an unknown key.
func (a accounts) issuer(ctx context.Context, now time.Time) (issuer, error) {
	known := <-a.known
	a.known <- known
	if known.keys != nil && now.Before(known.fetched.Add(issuerLife)) {
		return known, nil
	}
	ctx = oidc.ClientContext(ctx, &http.Client{Transport: reading{a.fetch}})
	provider, err := oidc.NewProvider(ctx, a.cfg.Issuer)
	var says struct {
		Keys string   `json:"jwks_uri"`
		Algs []string `json:"id_token_signing_alg_values_supported"`
	}
	if err == nil {
		err = provider.Claims(&says)
	}
	if err != nil {
		return issuer{}, &federation.UnavailableError{What: "issuer of accounts", Err: err}
	}
	known = issuer{oidc.NewRemoteKeySet(ctx, says.Keys), signatures(says.Algs), now}
	<-a.known
	a.known <- known
	return known, nil
}

// signatures keeps only public-key algorithms, whatever the issuer claims.
func signatures(says []string) []string {
	algs := []string{}
	for _, alg := range says {
		switch alg {
		case oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA:
			algs = append(algs, alg)
		}
	}
	return algs
}

// fetchedKeys keeps the error of a failed key fetch, because the verifier returns only its text.
type fetchedKeys struct {
	oidc.KeySet

	err error
}

// VerifySignature implements [oidc.KeySet].
func (k *fetchedKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, token)
	k.err = err
	return payload, err
}

// reading is an [http.RoundTripper] over a client, for a library that makes its own requests.
type reading struct{ from *identity.Client }

// RoundTrip rejects every request except the fetch of a document.
func (f reading) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: issuers are only read", r.Method, r.URL.Redacted())
	}
	text, err := f.from.Get(r.Context(), r.URL.String())
	if err == nil { // the library decodes both issuer documents with encoding/json
		err = federation.ExactNames(text, "issuer", "jwks_uri", "id_token_signing_alg_values_supported", "keys")
	}
	if err != nil {
		return nil, &federation.UnavailableError{What: "issuer of accounts", Err: err}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

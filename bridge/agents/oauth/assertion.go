package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// spec: RFC 7523 §2.2
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

const assertionLife = 10 * time.Minute

func assertionAlgorithms() []string { return []string{"EdDSA", "ES256"} }

// spec: RFC 9864 §2.2
const fullySpecified = "Ed25519"

// assert consumes the assertion, unless the DID's keys cannot be fetched now. The request may then be
// retried with it.
func (s *Server) assert(r *http.Request, form url.Values, now time.Time) (federation.Session, error) {
	var none federation.Session
	switch {
	case form.Get("client_assertion_type") != assertionType:
		return none, badClient("client_assertion_type: want " + assertionType)
	case form.Get("client_assertion") == "":
		return none, badClient("client_assertion is missing")
	}
	claims, err := parseAssertion(form.Get("client_assertion"))
	if err != nil {
		return none, badClient("client_assertion: " + err.Error())
	}
	did, err := s.checkClaims(claims, now)
	if err != nil {
		return none, err
	}
	if id := form.Get("client_id"); id != "" && id != string(did) {
		return none, badClient("client_id: want the DID of the assertion, or none")
	}
	if err := s.access.CheckBlocked(r.Context(), did); err != nil { // before the key is looked up
		return none, err
	}
	key, verdict, err := s.deps.Keys.Proved(r.Context(), did, []byte(claims.signed), claims.signature)
	switch {
	case verdict == federation.Unverifiable:
		return none, &federation.UnavailableError{What: "the document of " + did.Short(), Err: err}
	case verdict != federation.Valid:
		return none, badClient(participant.NotProved(did, err))
	case (claims.alg == "ES256") != (key.Kind == federation.P256), (claims.alg != "ES256") != (key.Kind == federation.Ed25519):
		return none, badClient("client_assertion: alg " + claims.alg + " does not fit the key that signed it")
	}
	return participant.Login(did, key, credential.HostOf(r), now), s.spend(r.Context(), did, claims.id, now)
}

// assertion is not verified.
//
// spec: RFC 7515 §3.1, RFC 7523 §3
type assertion struct {
	alg                 string
	issuer, subject, id string
	audience            []string
	expires, notBefore  time.Time
	signed              string
	signature           []byte
}

// parseAssertion requires exact member names.
func parseAssertion(text string) (assertion, error) {
	var a assertion
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return a, errors.New("want a JWT")
	}
	a.signed = parts[0] + "." + parts[1]
	var members [2]map[string]json.RawMessage
	for i, names := range [][]string{{"alg", "kid", "typ", "crit"}, {"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}} {
		part, err := signing.DecodeBase64URL(parts[i])
		if err == nil {
			err = federation.ExactJSON(part)
		}
		if err != nil || federation.DecodeJSON(part, &members[i]) != nil {
			return a, errors.New("want a JWT")
		}
		if err := federation.ExactNames(part, names...); err != nil {
			return a, err
		}
	}
	header, claims := members[0], members[1]
	if header["crit"] != nil {
		return a, errors.New("crit names an unknown extension")
	}
	var err error
	if a.signature, err = signing.DecodeBase64URL(parts[2]); err != nil {
		return a, errors.New("its signature is not base64url")
	}
	for _, member := range []struct {
		name string
		raw  json.RawMessage
		into *string
	}{
		{"alg", header["alg"], &a.alg},
		{"iss", claims["iss"], &a.issuer},
		{"sub", claims["sub"], &a.subject},
		{"jti", claims["jti"], &a.id},
	} {
		if member.raw != nil && federation.DecodeJSON(member.raw, member.into) != nil {
			return a, errors.New(member.name + " is not a string")
		}
	}
	var one string
	switch {
	case claims["aud"] == nil:
	case federation.DecodeJSON(claims["aud"], &one) == nil:
		a.audience = []string{one}
	case federation.DecodeJSON(claims["aud"], &a.audience) != nil:
		return a, errors.New("aud is neither a string nor a list of strings")
	}
	var issued time.Time
	for name, into := range map[string]*time.Time{"exp": &a.expires, "nbf": &a.notBefore, "iat": &issued} {
		if *into, err = credential.NumericDate(claims[name]); err != nil {
			return a, fmt.Errorf("%s is invalid: %w", name, err)
		}
	}
	return a, nil
}

// spec: RFC 7523 §3
func (s *Server) checkClaims(claims assertion, now time.Time) (federation.DID, error) {
	did, err := federation.ParseDID(claims.subject)
	ours := func(audience string) bool {
		audience = strings.TrimSuffix(audience, "/") // some clients append one to an address without a path
		return audience == s.deps.PublicURL || audience == s.deps.PublicURL+tokenPath
	}
	switch {
	case !slices.Contains(append(assertionAlgorithms(), fullySpecified), claims.alg):
		return "", badClient("client_assertion: alg is not EdDSA, Ed25519 or ES256")
	case err != nil:
		return "", badClient("client_assertion: sub is not a DID")
	case claims.issuer != claims.subject:
		return "", badClient("client_assertion: iss is not sub")
	case !slices.ContainsFunc(claims.audience, ours):
		return "", badClient("client_assertion: aud is not " + s.deps.PublicURL)
	case claims.expires.IsZero() || claims.expires.After(now.Add(assertionLife)):
		return "", badClient("client_assertion: exp is not within " + assertionLife.String())
	case !claims.expires.After(now.Add(-credential.Leeway)):
		return "", badClient("client_assertion: it has expired")
	case claims.notBefore.After(now.Add(credential.Leeway)):
		return "", badClient("client_assertion: nbf is in the future")
	case claims.id == "":
		return "", badClient("client_assertion: jti is missing")
	}
	return did, nil
}

// spend consumes a jti. All replicas share the record, which keeps it longer than any assertion lives.
func (s *Server) spend(ctx context.Context, did federation.DID, jti string, now time.Time) error {
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(jti))
	kept, err := s.deps.Record.Reserve(ctx, federation.Answer{
		DID: did, Key: "oauth jti " + hex.EncodeToString(digest[:]), Digest: digest, Event: id, At: now,
	})
	if err == nil && kept.Event != id {
		err = badClient("client_assertion: its jti was used before")
	}
	return err
}

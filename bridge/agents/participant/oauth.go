package participant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/signing"
)

// The paths of the authorization server.
const (
	tokenPath     = "/oauth/token" //nolint:gosec // G101: a path, and no credential
	authorizePath = "/oauth/authorize"
	metadataPath  = "/.well-known/oauth-authorization-server"
)

// assertionType is the type of a client assertion that is a JWT.
//
// spec: RFC 7523 §2.2
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// assertionLife is how far from now an assertion may end.
const assertionLife = 10 * time.Minute

// maxFormBytes bounds a request for a token: an assertion, and a few names.
const maxFormBytes = 16 << 10

// oauthError is a refused request for a token.
//
// spec: RFC 6749 §5.2
type oauthError struct {
	Status      int    `json:"-"`
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	RetryAfter  int    `json:"-"` // seconds; 0 where it is unknown
}

// Error implements error.
func (e *oauthError) Error() string { return e.Code + ": " + e.Description }

func badRequest(description string) error {
	return &oauthError{Status: http.StatusBadRequest, Code: "invalid_request", Description: description}
}

func badClient(description string) error {
	return &oauthError{Status: http.StatusUnauthorized, Code: "invalid_client", Description: description}
}

// MountOAuth registers the routes of the authorization server: a client proves a DID with one of
// its keys, and gets an access token as REST issues it.
//
// spec: RFC 6749 §4.4, RFC 7523 §3, RFC 8414 §3
func (a *Access) MountOAuth(mux *http.ServeMux) {
	mux.HandleFunc("GET "+metadataPath, a.getMetadata)
	mux.HandleFunc("POST "+tokenPath, a.postToken)
	mux.HandleFunc(authorizePath, func(w http.ResponseWriter, _ *http.Request) {
		writeOAuth(w, &oauthError{Status: http.StatusBadRequest, Code: "unsupported_response_type", Description: "only client_credentials at " + tokenPath})
	})
}

// getMetadata answers with what a client needs to know of the authorization server.
//
// spec: RFC 8414 §2
func (a *Access) getMetadata(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, map[string]any{
		"issuer":                                a.deps.PublicURL,
		"token_endpoint":                        a.deps.PublicURL + tokenPath,
		"authorization_endpoint":                a.deps.PublicURL + authorizePath, // clients refuse metadata without one
		"grant_types_supported":                 []string{"client_credentials"},
		"token_endpoint_auth_methods_supported": []string{"private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported": assertionAlgorithms(),
		"response_types_supported":                         []string{},
	})
}

// assertionAlgorithms returns the algorithms of assertions.
func assertionAlgorithms() []string { return []string{"EdDSA", "ES256"} }

// fullySpecified is another name for EdDSA with an Ed25519 key.
//
// spec: RFC 9864 §2.2
const fullySpecified = "Ed25519"

// postToken answers a request for a token.
func (a *Access) postToken(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	w.Header().Set("Cache-Control", "no-store")
	err := a.CheckAddress(r)
	if err == nil {
		err = a.TakeLogin(w, r, now)
	}
	var session federation.Session
	if err == nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		session, err = a.assert(r, now)
	}
	var token string
	ends := now.Add(credential.AccessLife).Truncate(time.Second)
	if err == nil {
		session.Generation, session.Expires = 0, ends // no refresh token
		err = a.deps.Record.StartSession(r.Context(), session)
	}
	if err == nil {
		token, err = a.tokens.Issue(session.Participant, credential.Claims{Use: credential.Access, Session: session.ID}, now, ends)
	}
	if err != nil {
		writeOAuth(w, a.oauthErrorOf(r.Context(), err))
		return
	}
	WriteJSON(w, http.StatusOK, map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(ends.Sub(now) / time.Second),
	})
}

// oauthErrorOf returns how an error is told.
func (a *Access) oauthErrorOf(ctx context.Context, err error) *oauthError {
	if told, ok := errors.AsType[*oauthError](err); ok {
		return told
	}
	p := ProblemOf(err)
	told := &oauthError{Status: p.Status, Description: p.Detail, RetryAfter: p.RetryAfter}
	switch {
	case p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable:
		told.Code = "temporarily_unavailable"
	case p.Status >= http.StatusInternalServerError:
		told.Code = "server_error"
		a.deps.Log.LogAttrs(ctx, slog.LevelError, "request not answered", slog.String("network", a.network),
			slog.String("link", a.network), slog.String("path", tokenPath), slog.Any("err", err))
	default:
		told.Status, told.Code = http.StatusBadRequest, "unauthorized_client"
	}
	return told
}

// assert returns a new session for the DID proved by the assertion in a request. It consumes the
// assertion, unless the DID's keys cannot be fetched now: the request may then be repeated with the
// same assertion.
func (a *Access) assert(r *http.Request, now time.Time) (federation.Session, error) {
	var none federation.Session
	form, err := readForm(r)
	if err != nil {
		return none, err
	}
	if err := a.checkForm(form); err != nil {
		return none, err
	}
	claims, err := parseAssertion(form.Get("client_assertion"))
	if err != nil {
		return none, badClient("client_assertion: " + err.Error())
	}
	did, err := a.checkClaims(claims, now)
	if err != nil {
		return none, err
	}
	if id := form.Get("client_id"); id != "" && id != string(did) {
		return none, badClient("client_id: want the DID of the assertion, or none")
	}
	if err := a.CheckBlocked(r.Context(), did); err != nil { // before its key is looked for
		return none, err
	}
	key, verdict, err := a.deps.Keys.Proved(r.Context(), did, []byte(claims.signed), claims.signature)
	switch {
	case verdict == federation.Unverifiable:
		return none, &federation.UnavailableError{What: "the document of " + did.Short(), Err: err}
	case verdict != federation.Valid:
		return none, badClient(NotProved(did, err))
	case (claims.alg == "ES256") != (key.Kind == federation.P256), (claims.alg != "ES256") != (key.Kind == federation.Ed25519):
		return none, badClient("client_assertion: alg " + claims.alg + " does not fit the key that signed it")
	}
	return Login(did, key, credential.HostOf(r), now), a.spend(r.Context(), did, claims.id, now)
}

// Login returns the session that begins when a DID proved itself with a key. What the key signed names this gateway.
func Login(did federation.DID, key federation.PublicKey, address string, now time.Time) federation.Session {
	return credential.NewSession(federation.Session{
		Participant: string(did), Began: federation.BeganDID, Bound: true, Key: federation.KeyID(key.Bytes), Address: address,
	}, now)
}

// assertion is a client assertion with an unverified signature.
//
// spec: RFC 7515 §3.1, RFC 7523 §3
type assertion struct {
	alg                 string
	issuer, subject, id string
	audience            []string
	expires, notBefore  time.Time
	signed              string // signed text
	signature           []byte
}

// NotProved explains why a signature does not prove a DID, including any problem with the DID's
// document.
func NotProved(did federation.DID, err error) string {
	said := "the signature is not that of a key of " + string(did)
	if err != nil {
		said += ": " + err.Error()
	}
	return said
}

// parseAssertion parses an assertion with exact member names.
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
			return a, errors.New(member.name + " is no string")
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

// readForm reads the form of a request, which has each parameter at most once.
//
// spec: RFC 6749 §3.2
func readForm(r *http.Request) (url.Values, error) {
	if err := r.ParseForm(); err != nil {
		return nil, badRequest("want a form of at most " + strconv.Itoa(maxFormBytes) + " bytes")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, badRequest(name + " is there more than once")
		}
	}
	return r.PostForm, nil
}

// checkForm checks a request but for its assertion.
func (a *Access) checkForm(form url.Values) error {
	switch {
	case form.Get("grant_type") == "":
		return badRequest("grant_type is missing")
	case form.Get("grant_type") != "client_credentials":
		return &oauthError{Status: http.StatusBadRequest, Code: "unsupported_grant_type", Description: "want client_credentials"}
	case form.Get("client_assertion_type") != assertionType:
		return badClient("client_assertion_type: want " + assertionType)
	case form.Get("client_assertion") == "":
		return badClient("client_assertion is missing")
	}
	resource := strings.TrimSuffix(form.Get("resource"), "/")
	if resource != "" && resource != a.deps.PublicURL+"/mcp" && resource != a.deps.PublicURL+"/a2a" {
		return &oauthError{Status: http.StatusBadRequest, Code: "invalid_target", Description: "resource: there is no such resource here"}
	}
	return nil
}

// checkClaims returns the DID in whose name an assertion is.
//
// spec: RFC 7523 §3
func (a *Access) checkClaims(claims assertion, now time.Time) (federation.DID, error) {
	did, err := federation.ParseDID(claims.subject)
	ours := func(audience string) bool {
		audience = strings.TrimSuffix(audience, "/") // some clients add one to an address without a path
		return audience == a.deps.PublicURL || audience == a.deps.PublicURL+tokenPath
	}
	switch {
	case !slices.Contains(append(assertionAlgorithms(), fullySpecified), claims.alg):
		return "", badClient("client_assertion: alg is not EdDSA, Ed25519 or ES256")
	case err != nil:
		return "", badClient("client_assertion: sub is no DID")
	case claims.issuer != claims.subject:
		return "", badClient("client_assertion: iss is not sub")
	case !slices.ContainsFunc(claims.audience, ours):
		return "", badClient("client_assertion: aud is not " + a.deps.PublicURL)
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

// spend uses up the jti of an assertion. The record keeps it for a day, which is longer than an
// assertion lasts, and all replicas share it.
func (a *Access) spend(ctx context.Context, did federation.DID, jti string, now time.Time) error {
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(jti))
	kept, err := a.deps.Record.Reserve(ctx, federation.Answer{
		DID: did, Key: "oauth jti " + hex.EncodeToString(digest[:]), Digest: digest, Event: id, At: now,
	})
	if err == nil && kept.Event != id {
		err = badClient("client_assertion: its jti was used before")
	}
	return err
}

func writeOAuth(w http.ResponseWriter, e *oauthError) {
	bridge.RetryHeader(w.Header(), e.Status, e.RetryAfter)
	WriteJSON(w, e.Status, e)
}

// WriteJSON answers a request with a document.
func WriteJSON(w http.ResponseWriter, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// Denied answers a request without a valid token: 401 with the challenge of its resource, or why
// the token cannot be checked now. Metadata is the address of the document about the resource, ""
// for none.
//
// spec: RFC 9728 §5.1
func Denied(w http.ResponseWriter, err error, metadata string) bridge.ProblemError {
	p := ProblemOf(err)
	if p.Status == http.StatusUnauthorized {
		challenge := "Bearer"
		if metadata != "" {
			challenge += ` resource_metadata="` + metadata + `"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	bridge.RetryHeader(w.Header(), p.Status, p.RetryAfter)
	w.Header().Set("Cache-Control", "no-store")
	WriteJSON(w, p.Status, p)
	return p
}

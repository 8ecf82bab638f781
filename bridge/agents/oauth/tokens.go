package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// spec: RFC 6749 §5.1
type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int    `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
}

func (s *Server) token(w http.ResponseWriter, r *http.Request, now time.Time) (any, error) {
	form, err := readForm(r)
	if err != nil {
		return nil, err
	}
	grantType := form.Get("grant_type")
	if grantType != grantDevice { // polls of devices have their own limit
		if err := s.access.TakeLogin(w, r, now); err != nil {
			return nil, err
		}
	}
	if r.Header.Get("Authorization") != "" {
		return nil, badClient("clients are public: send client_id in the form, and no Authorization")
	}
	if err := s.checkResource(form.Get("resource")); err != nil {
		return nil, err
	}
	switch grantType {
	case grantCredentials:
		return s.tokenForAssertion(r, form, now)
	case grantCode:
		return s.tokensForCode(r, form, now)
	case grantRefresh:
		return s.tokensForRefresh(r, form, now)
	case grantDevice:
		return s.tokensForDevice(w, r, form, now)
	case "":
		return nil, badRequest("grant_type is missing")
	}
	return nil, refuse("unsupported_grant_type", "want "+strings.Join([]string{grantCode, grantRefresh, grantDevice, grantCredentials}, ", "))
}

// tokenForAssertion returns no refresh token, because the client can prove the key again.
//
// spec: RFC 6749 §4.4, RFC 7523 §3
func (s *Server) tokenForAssertion(r *http.Request, form url.Values, now time.Time) (any, error) {
	session, err := s.assert(r, form, now)
	if err != nil {
		return nil, err
	}
	ends := now.Add(credential.AccessLife).Truncate(time.Second)
	session.Generation, session.Expires = 0, ends
	if err := s.deps.Record.StartSession(r.Context(), session); err != nil {
		return nil, err
	}
	token, err := s.access.Tokens().Issue(session.Participant, credential.Claims{Use: credential.Access, Session: session.ID}, now, ends)
	return tokenAnswer{AccessToken: token, TokenType: "Bearer", ExpiresIn: int(ends.Sub(now) / time.Second)}, err
}

func (s *Server) issue(session federation.Session, now time.Time) (any, error) {
	pair, err := s.access.Tokens().Pair(session, now)
	return tokenAnswer{
		AccessToken: pair.Access, TokenType: "Bearer", ExpiresIn: int(pair.Ends.Sub(now) / time.Second), RefreshToken: pair.Refresh, Scope: scope,
	}, err
}

const codeLife = time.Minute

type grant struct {
	Session    string         `json:"s"` // of the session to start
	DID        federation.DID `json:"d"`
	Key        string         `json:"k,omitempty"`
	Bound      bool           `json:"b,omitempty"`
	Client     string         `json:"c"` // as [client.key]
	ClientName string         `json:"n,omitempty"`
	Redirect   string         `json:"r"`
	Challenge  string         `json:"p"`
	Resource   string         `json:"t,omitempty"`
}

// tokensForCode ends the session if the code is reused.
//
// spec: RFC 6749 §4.1.3, RFC 7636 §4.6, RFC 9700 §4.5
func (s *Server) tokensForCode(r *http.Request, form url.Values, now time.Time) (any, error) {
	var g grant
	code := form.Get("code")
	err := s.codes.Open(code, now, &g)
	switch {
	case errors.Is(err, credential.ErrSealExpired): // a legitimate client does not resend a used code
		err := s.deps.Record.EndSession(r.Context(), []string{string(g.DID)}, g.Session, now)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			return nil, err
		}
		s.deps.PubSub.Wake(bridge.SessionsTopic(string(g.DID)), bridge.InboxTopic(string(g.DID)))
		return nil, badGrant("code: it has expired")
	case err != nil:
		return nil, badGrant("code: it was not issued here")
	case form.Get("client_id") == "":
		return nil, badClient("client_id is missing")
	case clientKey(form.Get("client_id")) != g.Client:
		return nil, badGrant("code: it was issued to another client")
	case form.Get("redirect_uri") != g.Redirect:
		return nil, badGrant("redirect_uri: it differs from the authorization request")
	case form.Get("resource") != "" && g.Resource != "" && form.Get("resource") != g.Resource:
		return nil, refuse("invalid_target", "resource: it differs from the authorization request")
	case !verifies(form.Get("code_verifier"), g.Challenge):
		return nil, badGrant("code_verifier: it does not match the code_challenge")
	}
	if err := s.access.CheckBlocked(r.Context(), g.DID); err != nil {
		return nil, err
	}
	session := credential.NewSession(federation.Session{
		Participant: string(g.DID), Began: federation.BeganCode, Key: g.Key, Bound: g.Bound, Address: credential.HostOf(r),
		Client: g.Client, ClientName: g.ClientName,
	}, now)
	session.ID = g.Session
	event, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return nil, err
	}
	err = s.deps.Record.RedeemCode(r.Context(), session, federation.Answer{
		DID: g.DID, Key: "oauth code " + g.Session, Digest: sha256.Sum256([]byte(code)), Event: event, At: now,
	})
	if errors.Is(err, federation.ErrTokenUsed) {
		s.deps.PubSub.Wake(bridge.SessionsTopic(session.Participant), bridge.InboxTopic(session.Participant))
		return nil, badGrant("code: it was used before; the tokens issued for it are revoked")
	}
	if err != nil {
		return nil, err
	}
	return s.issue(session, now)
}

// verifies supports only the method S256.
//
// spec: RFC 7636 §4.1, §4.6
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// tokensForRefresh ends the session if a token is reused.
//
// spec: RFC 6749 §6, RFC 9700 §4.14
func (s *Server) tokensForRefresh(r *http.Request, form url.Values, now time.Time) (any, error) {
	id := form.Get("client_id")
	if id == "" {
		return nil, badClient("client_id is missing")
	}
	session, err := s.access.Refresh(r.Context(), form.Get("refresh_token"), clientKey(id), now)
	switch {
	case errors.Is(err, credential.ErrToken):
		return nil, badGrant("refresh_token: it is not valid for this client")
	case errors.Is(err, credential.ErrTokenExpired), errors.Is(err, credential.ErrSession), errors.Is(err, federation.ErrSessionEnded):
		return nil, badGrant("refresh_token: its session has ended; log in again")
	case err != nil:
		return nil, err
	}
	return s.issue(session, now)
}

// revoke accepts an invalid token.
//
// spec: RFC 7009 §2
func (s *Server) revoke(w http.ResponseWriter, r *http.Request, now time.Time) (any, error) {
	if err := s.access.TakeLogin(w, r, now); err != nil {
		return nil, err
	}
	form, err := readForm(r)
	if err != nil {
		return nil, err
	}
	token := form.Get("token")
	if token == "" {
		return nil, badRequest("token is missing")
	}
	claims, err := s.access.Tokens().Read(token, credential.Refresh, now)
	if err != nil {
		claims, err = s.access.Tokens().Read(token, credential.Access, now)
	}
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // spec: RFC 7009 §2.2
	}
	session, err := credential.SessionOf(r.Context(), s.deps.Record.Participants, claims, now)
	switch {
	case errors.Is(err, credential.ErrSession), errors.Is(err, federation.ErrSessionEnded):
		return nil, nil //nolint:nilnil // the answer is empty
	case err != nil:
		return nil, err
	case session.Client != "" && session.Client != clientKey(form.Get("client_id")):
		return nil, badClient("client_id: the token was issued to another client")
	}
	who := participant.Caller{DID: federation.DID(session.Participant), Session: session}
	if err := s.access.EndSession(r.Context(), who, session.ID, now); err != nil {
		if p := participant.ProblemOf(err); p.Status != http.StatusNotFound {
			return nil, err
		}
	}
	return nil, nil //nolint:nilnil // the answer is empty
}

package oauth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

const pollInterval = 5 * time.Second

type device struct {
	Digest string `json:"d"` // of the user code, in hexadecimal
	Client string `json:"c"` // as [client.key]
}

// spec: RFC 8628 §3.1
func (s *Server) authorizeDevice(w http.ResponseWriter, r *http.Request, now time.Time) (any, error) {
	if err := s.access.TakeLogin(w, r, now); err != nil {
		return nil, err
	}
	form, err := readForm(r)
	if err != nil {
		return nil, err
	}
	if err := s.checkResource(form.Get("resource")); err != nil {
		return nil, err
	}
	c, err := s.client(r.Context(), form.Get("client_id"), now)
	if err == nil && c.Unread {
		err = &federation.UnavailableError{What: "the document of the client"}
	}
	if err != nil {
		return nil, err
	}
	user, err := federation.NewLoginCode(rand.Reader)
	if err != nil {
		return nil, err
	}
	waits := federation.LoginCode{
		Digest: federation.DigestLoginCode(federation.DeviceCode, user), Kind: federation.DeviceCode, Address: credential.AddressOf(r).String(),
		Client: clientKey(c.ID), ClientName: c.Name, Expires: now.Add(federation.LoginCodeLife).Truncate(time.Second),
	}
	err = s.deps.Record.AddLoginCode(r.Context(), waits, now)
	if errors.Is(err, federation.ErrTooManyCodes) {
		return nil, &oauthError{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "too many devices wait for a login", RetryAfter: 60}
	}
	if err != nil {
		return nil, err
	}
	code, err := s.devices.Seal(device{hex.EncodeToString(waits.Digest[:]), waits.Client}, waits.Expires)
	return map[string]any{
		"device_code": code, "user_code": user, "verification_uri": s.deps.PublicURL + devicePath,
		"verification_uri_complete": s.deps.PublicURL + devicePath + "?" + url.Values{"user_code": {user}}.Encode(),
		"expires_in":                int(waits.Expires.Sub(now) / time.Second), "interval": int(pollInterval / time.Second),
	}, err
}

// tokensForDevice returns tokens once a party has approved.
//
// spec: RFC 8628 §3.4, §3.5
func (s *Server) tokensForDevice(w http.ResponseWriter, r *http.Request, form url.Values, now time.Time) (any, error) {
	var d device
	err := s.devices.Open(form.Get("device_code"), now, &d)
	if err != nil {
		if err := s.access.TakeLogin(w, r, now); err != nil {
			return nil, err
		}
	}
	switch {
	case errors.Is(err, credential.ErrSealExpired):
		return nil, refuse("expired_token", "device_code: it has expired; start again")
	case err != nil:
		return nil, badGrant("device_code: it was not issued here")
	case form.Get("client_id") == "":
		return nil, badClient("client_id is missing")
	case clientKey(form.Get("client_id")) != d.Client:
		return nil, badGrant("device_code: it was issued to another client")
	}
	digest, err := hex.DecodeString(d.Digest)
	if err != nil {
		return nil, err
	}
	waits, early, err := s.deps.Record.PollDevice(r.Context(), [32]byte(digest), now, pollInterval)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil, badGrant("device_code: it was used before, or has expired")
	case err != nil:
		return nil, err
	case waits.Denied:
		return nil, refuse("access_denied", "the login was denied")
	case early:
		return nil, refuse("slow_down", "poll every five seconds")
	case waits.DID == "":
		return nil, refuse("authorization_pending", "the login is not approved yet")
	}
	if err := s.access.CheckBlocked(r.Context(), waits.DID); err != nil {
		return nil, err
	}
	session := credential.NewSession(federation.Session{
		Participant: string(waits.DID), Began: federation.BeganDevice, Key: waits.Key, Bound: waits.Bound, Address: credential.HostOf(r),
		Client: waits.Client, ClientName: waits.ClientName,
	}, now)
	err = s.deps.Record.RedeemLogin(r.Context(), waits.Digest, session)
	if errors.Is(err, federation.ErrNotFound) {
		return nil, badGrant("device_code: it was used before, or has expired")
	}
	if err != nil {
		return nil, err
	}
	return s.issue(session, now)
}

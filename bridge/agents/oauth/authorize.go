package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

const formLife = 10 * time.Minute

type request struct {
	Client     string `json:"c"` // as [client.key]
	ClientName string `json:"n,omitempty"`
	Redirect   string `json:"r,omitempty"`
	State      string `json:"s,omitempty"`
	Challenge  string `json:"p,omitempty"`
	Resource   string `json:"t,omitempty"`
	Unread     bool   `json:"u,omitempty"` // as in [client]
	Device     string `json:"d,omitempty"` // of the user code; "" without a device
}

// sealedForm is bound to one browser.
type sealedForm struct {
	Request request `json:"r"`
	Browser string  `json:"b"` // digest of the cookie
}

type view struct {
	Title, Alert string
	Back         template.URL // checked address of the client; "" for none
	Ask          *askView
	Device       bool
	Path         string
}

type askView struct {
	Client  string // self-chosen; "" for none
	Address string // address of the client's document; "" for a registered client
	Unread  bool   // the document could not be fetched
	// Target receives the tokens: the host or the scheme of the redirect; "" for a device.
	Target    string
	Here      bool // the target is a program on the browser's machine
	Form      string
	Name, DID string // of the party logged in with this browser; "" for none
	Enrol     bool   // strangers may register
	Operators string // as in [Deps]
	Code      string
}

//go:embed page.html
var pageText string

func parsePages() *template.Template { return template.Must(template.New("page").Parse(pageText)) }

// page shows errors of the handler as pages too.
//
// spec: RFC 9700 §4.16
func (s *Server) page(serve func(w http.ResponseWriter, r *http.Request, now time.Time) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		secure(w.Header(), "")
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		err := s.access.CheckAddress(r)
		if err == nil {
			err = s.access.TakeLogin(w, r, now)
		}
		if err == nil {
			err = serve(w, r.WithContext(bridge.WithSubnet(r.Context(), credential.AddressOf(r))), now)
		}
		if err != nil {
			e := s.errorOf(r.Context(), r.URL.Path, err)
			bridge.RetryHeader(w.Header(), e.Status, e.RetryAfter)
			s.render(w, e.Status, view{Title: "Log in", Alert: e.Description})
		}
	}
}

// secure lets the form redirect to the target; "" allows none.
func secure(h http.Header, target string) {
	h.Set("Content-Security-Policy", strings.TrimSuffix("default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+target, " "))
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func (s *Server) render(w http.ResponseWriter, status int, v view) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = s.pages.Execute(w, v) // the browser may be gone
}

// spec: RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 9700 §2.1
func (s *Server) showAuthorize(w http.ResponseWriter, r *http.Request, now time.Time) error {
	q := r.URL.Query()
	if err := checkOnce(q); err != nil {
		return err
	}
	if q.Get("client_id") == "" {
		return badRequest("client_id is missing")
	}
	c, err := s.client(r.Context(), q.Get("client_id"), now)
	if err != nil {
		return err
	}
	if !c.admits(q.Get("redirect_uri")) { // never redirect to an unregistered address
		return badRequest("redirect_uri: the client has not registered this address")
	}
	asked := request{
		Client: clientKey(c.ID), ClientName: c.Name, Unread: c.Unread, Redirect: q.Get("redirect_uri"), State: q.Get("state"),
		Challenge: q.Get("code_challenge"), Resource: q.Get("resource"),
	}
	if err := s.checkRequest(asked, q); err != nil {
		return s.sendError(w, r, asked, err)
	}
	return s.ask(w, r, asked, http.StatusOK, "", now)
}

const maxStateBytes = 1024

func (s *Server) checkRequest(asked request, q url.Values) error {
	challenge, err := signing.DecodeBase64URL(asked.Challenge)
	switch {
	case q.Get("request") != "":
		return refuse("request_not_supported", "request objects are not supported")
	case q.Get("request_uri") != "":
		return refuse("request_uri_not_supported", "request objects are not supported")
	case q.Get("response_type") != "code":
		return refuse("unsupported_response_type", "response_type: want code")
	case q.Get("response_mode") != "" && q.Get("response_mode") != "query":
		return badRequest("response_mode: want query")
	case asked.Challenge == "":
		return badRequest("code_challenge is missing: PKCE is required")
	case q.Get("code_challenge_method") != "S256":
		return badRequest("code_challenge_method: want S256")
	case err != nil || len(challenge) != sha256.Size:
		return badRequest("code_challenge: want the SHA-256 of the verifier, in base64url")
	case len(asked.State) > maxStateBytes:
		return badRequest("state: it is too long")
	}
	return s.checkResource(asked.Resource)
}

// sendError redirects without a click only to programs on the browser's machine, because anyone may
// register a client.
//
// spec: RFC 9700 §4.11.2
func (s *Server) sendError(w http.ResponseWriter, r *http.Request, asked request, err error) error {
	e := s.errorOf(r.Context(), authorizePath, err)
	back := s.redirect(asked, url.Values{"error": {e.Code}, "error_description": {e.Description}})
	if u, err := url.Parse(asked.Redirect); err == nil && isLoopback(u) {
		http.Redirect(w, r, back, http.StatusSeeOther)
		return nil
	}
	s.render(w, e.Status, view{Title: "Log in", Alert: e.Description, Back: template.URL(back)}) //nolint:gosec // G203: checkRedirect admitted its scheme
	return nil
}

// spec: RFC 9207 §2
func (s *Server) redirect(asked request, answer url.Values) string {
	if asked.State != "" {
		answer.Set("state", asked.State)
	}
	answer.Set("iss", s.deps.PublicURL)
	separator := "?"
	if strings.Contains(asked.Redirect, "?") {
		separator = "&"
	}
	return asked.Redirect + separator + answer.Encode()
}

// targetOf returns the target for display and as a source in a Content Security Policy.
func targetOf(redirect string) (shown, source string, here bool) {
	u, err := url.Parse(redirect)
	switch {
	case err != nil || redirect == "":
		return "", "", false
	case u.Scheme != "https" && u.Scheme != "http":
		return u.Scheme + ":", u.Scheme + ":", true
	case strings.Contains(u.Host, "["): // a CSP cannot name an IPv6 address
		return u.Host, u.Scheme + ":", isLoopback(u)
	}
	return u.Host, u.Scheme + "://" + u.Host, isLoopback(u)
}

func (s *Server) ask(w http.ResponseWriter, r *http.Request, asked request, status int, alert string, now time.Time) error {
	form, err := s.forms.Seal(sealedForm{asked, s.browser(w, r)}, now.Add(formLife))
	if err != nil {
		return err
	}
	v := &askView{Client: asked.ClientName, Form: form, Enrol: s.deps.Enrol != nil, Code: r.PostFormValue("code")}
	if isAddress(asked.Client) {
		v.Address, v.Unread = asked.Client, asked.Unread
	}
	var source string
	v.Target, source, v.Here = targetOf(asked.Redirect)
	if credential.AddressOf(r).Addr().IsLoopback() {
		v.Operators = s.deps.OperatorPage
	}
	party, err := s.loggedIn(r, now)
	if err != nil {
		return err
	}
	if party.DID != "" {
		v.DID, v.Name = string(party.DID), s.access.Name(r.Context(), party.DID)
	}
	secure(w.Header(), source)
	s.render(w, status, view{Title: "Log in", Alert: alert, Ask: v, Path: authorizePath})
	return nil
}

const (
	browserCookie = "baton_browser" // binds forms to the browser
	loginCookie   = "baton_login"   // identifies a person logged in on this page
)

func (s *Server) cookie(name, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(life / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if strings.HasPrefix(s.deps.PublicURL, "https://") {
		c.Name, c.Secure = "__Host-"+name, true
	}
	return c
}

func (s *Server) cookieOf(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookie(name, "", 0).Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// browser sets the cookie that binds forms to a browser if there is none.
func (s *Server) browser(w http.ResponseWriter, r *http.Request) string {
	text := s.cookieOf(r, browserCookie)
	if len(text) < 26 {
		text = rand.Text()
		http.SetCookie(w, s.cookie(browserCookie, text, credential.PageLife))
	}
	return digestOf(text)
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

type party struct {
	DID   federation.DID
	Key   string // as in [federation.Session]
	Bound bool
}

type login struct {
	Session string         `json:"s"`
	DID     federation.DID `json:"d"`
}

func (s *Server) loggedIn(r *http.Request, now time.Time) (party, error) {
	var in login
	if s.logins.Open(s.cookieOf(r, loginCookie), now, &in) != nil {
		return party{}, nil //nolint:nilerr // the browser has no login of this gateway
	}
	session, err := s.deps.Record.Session(r.Context(), in.Session, now)
	switch {
	case errors.Is(err, federation.ErrNotFound), errors.Is(err, federation.ErrSessionEnded):
		return party{}, nil
	case err != nil:
		return party{}, err
	case s.access.CheckBlocked(r.Context(), in.DID) != nil:
		return party{}, nil //nolint:nilerr // a blocked party is not logged in
	}
	return party{in.DID, session.Key, session.Bound}, nil
}

func (s *Server) logIn(w http.ResponseWriter, r *http.Request, p party, now time.Time) error {
	session := credential.NewSession(federation.Session{
		Participant: string(p.DID), Began: federation.BeganPage, Key: p.Key, Bound: p.Bound, Address: credential.HostOf(r), ClientName: "authorize page",
	}, now)
	session.Generation = 0 // no refresh token
	if err := s.deps.Record.StartSession(r.Context(), session); err != nil {
		return err
	}
	text, err := s.logins.Seal(login{session.ID, p.DID}, session.Expires)
	if err == nil {
		http.SetCookie(w, s.cookie(loginCookie, text, credential.PageLife))
	}
	return err
}

func (s *Server) decide(w http.ResponseWriter, r *http.Request, now time.Time) error {
	asked, err := s.decided(r, now)
	if err != nil {
		return err
	}
	if r.PostForm.Get("as") == "nobody" {
		return s.denied(w, r, asked, now)
	}
	p, err := s.identify(w, r, now)
	if problem := participant.ProblemOf(err); err != nil && problem.Status < http.StatusInternalServerError {
		bridge.RetryHeader(w.Header(), problem.Status, problem.RetryAfter)
		return s.ask(w, r, asked, problem.Status, problem.Detail, now)
	}
	if err != nil {
		return err
	}
	return s.approved(w, r, asked, p, now)
}

// spec: RFC 9700 §4.7
func (s *Server) posted(r *http.Request) (url.Values, error) {
	if err := s.foreign.Check(r); err != nil {
		return nil, &oauthError{Status: http.StatusForbidden, Code: "access_denied", Description: "This form was sent from another site."}
	}
	return readForm(r)
}

// decided rejects forms of other sites and browsers.
//
// spec: RFC 9700 §4.7
func (s *Server) decided(r *http.Request, now time.Time) (request, error) {
	posted, err := s.posted(r)
	if err != nil {
		return request{}, err
	}
	var form sealedForm
	err = s.forms.Open(posted.Get("form"), now, &form)
	cookie := s.cookieOf(r, browserCookie)
	switch {
	case errors.Is(err, credential.ErrSealExpired):
		return request{}, badRequest("This form has expired. Start the login in your program again.")
	case err != nil, cookie == "", form.Browser != digestOf(cookie):
		return request{}, &oauthError{Status: http.StatusForbidden, Code: "access_denied", Description: "This form was opened in another browser. Start the login in your program again."}
	}
	return form.Request, nil
}

func (s *Server) identify(w http.ResponseWriter, r *http.Request, now time.Time) (p party, err error) {
	from := credential.AddressOf(r)
	switch r.PostForm.Get("as") {
	case "session":
		p, err = s.loggedIn(r, now)
		if err == nil && p.DID == "" {
			err = participant.Unauthorized("this browser is no longer logged in")
		}
		return p, err
	case "new":
		if s.deps.Enrol == nil {
			return p, participant.Forbidden("this gateway does not allow open registration")
		}
		p.DID, err = s.deps.Enrol(r.Context(), r.PostForm.Get("name"), from)
	default:
		var paired federation.LoginCode
		paired, err = s.deps.Guesses.Redeem(r.Context(), s.deps.Record.Participants, r.PostForm.Get("code"), from, now)
		p = party{paired.DID, paired.Key, paired.Bound}
	}
	if err == nil {
		err = s.access.CheckBlocked(r.Context(), p.DID)
	}
	if err == nil {
		err = s.logIn(w, r, p, now)
	}
	return p, err
}

func (s *Server) approved(w http.ResponseWriter, r *http.Request, asked request, p party, now time.Time) error {
	if asked.Device != "" {
		err := s.decideDevice(r.Context(), asked, federation.LoginCode{DID: p.DID, Key: p.Key, Bound: p.Bound}, now)
		if err == nil {
			s.render(w, http.StatusOK, view{Title: "Logged in", Alert: "The login is approved. Go back to your program; this page can be closed."})
		}
		return err
	}
	code, err := s.codes.Seal(grant{
		Session: rand.Text(), DID: p.DID, Key: p.Key, Bound: p.Bound, Client: asked.Client, ClientName: asked.ClientName,
		Redirect: asked.Redirect, Challenge: asked.Challenge, Resource: asked.Resource,
	}, now.Add(codeLife))
	if err == nil {
		http.Redirect(w, r, s.redirect(asked, url.Values{"code": {code}}), http.StatusSeeOther) //nolint:gosec // G710: the client registered the address
	}
	return err
}

func (s *Server) denied(w http.ResponseWriter, r *http.Request, asked request, now time.Time) error {
	if asked.Device != "" {
		err := s.decideDevice(r.Context(), asked, federation.LoginCode{Denied: true}, now)
		if err == nil {
			s.render(w, http.StatusOK, view{Title: "Denied", Alert: "The login is denied. This page can be closed."})
		}
		return err
	}
	http.Redirect(w, r, s.redirect(asked, url.Values{"error": {"access_denied"}, "error_description": {"the login was denied"}}), http.StatusSeeOther) //nolint:gosec // G710: the client registered the address
	return nil
}

func (s *Server) decideDevice(ctx context.Context, asked request, decision federation.LoginCode, now time.Time) error {
	digest, err := hex.DecodeString(asked.Device)
	if err != nil {
		return err
	}
	decision.Digest = [32]byte(digest)
	err = s.deps.Record.DecideDevice(ctx, decision, now)
	if errors.Is(err, federation.ErrNotFound) {
		err = badRequest("The code of the device has expired, or was decided before. Start the login on the device again.")
	}
	return err
}

// showDevice shows the decision form if the URL contains the user code.
//
// spec: RFC 8628 §3.3
func (s *Server) showDevice(w http.ResponseWriter, r *http.Request, now time.Time) error {
	if user := r.URL.Query().Get("user_code"); user != "" {
		return s.askForDevice(w, r, user, now)
	}
	s.render(w, http.StatusOK, view{Title: "Log in a device", Device: true, Path: devicePath})
	return nil
}

func (s *Server) findDevice(w http.ResponseWriter, r *http.Request, now time.Time) error {
	posted, err := s.posted(r)
	if err != nil {
		return err
	}
	return s.askForDevice(w, r, posted.Get("user_code"), now)
}

func (s *Server) askForDevice(w http.ResponseWriter, r *http.Request, user string, now time.Time) error {
	digest := federation.DigestLoginCode(federation.DeviceCode, user)
	var waits federation.LoginCode
	err := s.deps.Guesses.Guess(credential.AddressOf(r), now, func() (err error) {
		waits, err = s.deps.Record.Device(r.Context(), digest, now)
		return err
	})
	if errors.Is(err, credential.ErrPairing) {
		s.render(w, http.StatusBadRequest, view{Title: "Log in a device", Alert: "No device waits with this code.", Device: true, Path: devicePath})
		return nil
	}
	if err != nil {
		return err
	}
	return s.ask(w, r, request{Client: waits.Client, ClientName: waits.ClientName, Device: hex.EncodeToString(digest[:])}, http.StatusOK, "", now)
}

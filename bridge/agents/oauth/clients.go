package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

const (
	registrationLife = 90 * 24 * time.Hour
	maxRedirects     = 10
	maxRedirectBytes = 512
	maxClientBytes   = 2048 // a client_id is sent in URLs
	maxNameChars     = 64
)

// client has short member names, because its client_id contains them, sealed.
type client struct {
	ID        string   `json:"-"`
	Name      string   `json:"n,omitempty"` // self-chosen
	Redirects []string `json:"r"`
	// Unread is true if the document could not be fetched now. The client then has no name, may
	// redirect only to a loopback address, and cannot log in with a device code.
	Unread bool `json:"-"`
}

// isAddress reports whether a host vouches for the name and the redirects of a client.
func isAddress(id string) bool { return strings.HasPrefix(id, "https://") }

// clientKey returns the address of a client, or a digest of its registration.
func clientKey(id string) string {
	if isAddress(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "registration:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// spec: RFC 7591 §2
type metadata struct {
	ClientID     string   `json:"client_id"`
	ClientName   string   `json:"client_name"`
	RedirectURIs []string `json:"redirect_uris"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
}

// readMetadata requires exact member names.
func readMetadata(text []byte) (metadata, error) {
	var m metadata
	if err := federation.ExactJSON(text); err != nil {
		return m, errors.New("it is not acceptable JSON")
	}
	var members map[string]json.RawMessage
	if federation.DecodeJSON(text, &members) != nil {
		return m, errors.New("want a JSON object")
	}
	for name, into := range map[string]any{
		"client_id": &m.ClientID, "client_name": &m.ClientName, "redirect_uris": &m.RedirectURIs, "token_endpoint_auth_method": &m.AuthMethod,
	} {
		if raw, ok := members[name]; ok && federation.DecodeJSON(raw, into) != nil {
			return m, errors.New(name + " has the wrong type")
		}
	}
	return m, nil
}

// client returns an error if a redirect is invalid.
func (m metadata) client() (client, error) {
	if len(m.RedirectURIs) == 0 || len(m.RedirectURIs) > maxRedirects {
		return client{}, fmt.Errorf("redirect_uris: want one to %d", maxRedirects)
	}
	for _, redirect := range m.RedirectURIs {
		if err := checkRedirect(redirect); err != nil {
			return client{}, fmt.Errorf("redirect_uris: %w", err)
		}
	}
	return client{Name: plainName(m.ClientName), Redirects: m.RedirectURIs}, nil
}

// plainName returns one short line without invisible characters.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	runes := []rune(strings.TrimSpace(name))
	return string(runes[:min(len(runes), maxNameChars)])
}

var privateScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]{1,63}$`)

// publicSchemes are handled by browsers or systems themselves.
func publicSchemes() []string {
	return []string{
		"about", "blob", "chrome", "content", "data", "dav", "facetime", "file", "filesystem", "ftp", "ftps", "geo", "intent", "javascript", "jar", "ldap", "mailto",
		"magnet", "nfs", "resource", "sftp", "sip", "sips", "sms", "smb", "ssh", "tel", "telnet", "vbscript", "view-source", "ws", "wss", "xmpp",
	}
}

// checkRedirect returns why a redirect URI is refused, or nil.
//
// spec: RFC 6749 §3.1.2, RFC 8252 §7, RFC 9700 §4.1
func checkRedirect(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxRedirectBytes || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }):
		return fmt.Errorf("want addresses of at most %d bytes, without spaces", maxRedirectBytes)
	case strings.Contains(text, "#"), u.User != nil, u.Opaque != "":
		return errors.New("want no fragment, no user and a path")
	case u.Scheme == "https" && u.Hostname() != "":
		return nil
	case u.Scheme == "http" && isLoopback(u):
		return nil
	case u.Scheme == "http" || u.Scheme == "https":
		return errors.New("want https, or http on this machine")
	case slices.Contains(publicSchemes(), u.Scheme) || !privateScheme.MatchString(u.Scheme):
		return fmt.Errorf("the scheme %.32q is not allowed", u.Scheme)
	}
	return nil
}

func isLoopback(u *url.URL) bool {
	return u.Scheme == "http" && slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname())
}

// admits allows any port on the loopback.
//
// spec: RFC 8252 §7.3, RFC 9700 §2.1
func (c client) admits(redirect string) bool {
	if checkRedirect(redirect) != nil {
		return false
	}
	if slices.Contains(c.Redirects, redirect) {
		return true
	}
	asked, err := url.Parse(redirect)
	if err != nil || !isLoopback(asked) {
		return false
	}
	return c.Unread || slices.ContainsFunc(c.Redirects, func(registered string) bool {
		u, err := url.Parse(registered)
		return err == nil && isLoopback(u) && u.Hostname() == asked.Hostname() && u.EscapedPath() == asked.EscapedPath() && u.RawQuery == asked.RawQuery &&
			u.ForceQuery == asked.ForceQuery
	})
}

// spec: RFC 7591 §3.2.1
type registration struct {
	ClientID      string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	ClientName    string   `json:"client_name,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	Scope         string   `json:"scope"`
}

// register seals the metadata in the client's ID. Nothing is stored.
//
// spec: RFC 7591 §3
func (s *Server) register(w http.ResponseWriter, r *http.Request, now time.Time) (any, error) {
	if err := s.access.TakeLogin(w, r, now); err != nil {
		return nil, err
	}
	refused := func(err error) error {
		code := "invalid_client_metadata"
		if strings.HasPrefix(err.Error(), "redirect_uris") {
			code = "invalid_redirect_uri"
		}
		return refuse(code, err.Error())
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, refused(fmt.Errorf("want at most %d bytes", maxFormBytes))
	}
	m, err := readMetadata(text)
	if err != nil {
		return nil, refused(err)
	}
	c, err := m.client()
	if err != nil {
		return nil, refused(err)
	}
	id, err := s.registrations.Seal(c, now.Add(registrationLife))
	if err != nil {
		return nil, err
	}
	if len(id) > maxClientBytes {
		return nil, refused(errors.New("redirect_uris: their total length is too large"))
	}
	return registration{
		ClientID: id, IssuedAt: now.Unix(), ClientName: c.Name, RedirectURIs: c.Redirects, GrantTypes: []string{grantCode, grantRefresh, grantDevice},
		ResponseTypes: []string{"code"}, AuthMethod: "none", Scope: scope,
	}, nil
}

const (
	maxDocuments  = 1024
	documentLife  = 24 * time.Hour
	defaultLife   = 5 * time.Minute // if the response has none
	refusalLife   = time.Minute
	documentBytes = 16 << 10
)

type document struct {
	client client
	err    error
	ends   time.Time
}

// client returns an [*oauthError] or the error of the fetch.
func (s *Server) client(ctx context.Context, id string, now time.Time) (client, error) {
	if isAddress(id) {
		return s.clientAt(ctx, id, now)
	}
	var c client
	err := s.registrations.Open(id, now, &c)
	switch {
	case errors.Is(err, credential.ErrSealExpired):
		return c, badClient("client_id: the registration has expired; register again")
	case err != nil:
		return c, badClient("client_id: want one of " + registerPath + ", or the https address of a client's document")
	}
	c.ID = id
	return c, nil
}

// spec: draft-ietf-oauth-client-id-metadata-document §3, §4
func (s *Server) clientAt(ctx context.Context, id string, now time.Time) (client, error) {
	u, err := url.Parse(id)
	if err != nil || len(id) > maxClientBytes || u.Host == "" || u.User != nil || strings.Contains(id, "#") || len(u.Path) < 2 ||
		slices.ContainsFunc(strings.Split(u.Path, "/"), func(segment string) bool { return segment == "." || segment == ".." }) {
		return client{}, badClient("client_id: want an address with a host and a path, and no user, fragment or dot segment")
	}
	if d, ok := s.documents.GetIfPresent(id); ok && now.Before(d.ends) {
		return d.client, d.err
	}
	text, life, err := s.deps.Fetch(ctx, id)
	if _, away := errors.AsType[*federation.UnavailableError](err); away && !errors.Is(err, identity.ErrNotAllowed) {
		return client{ID: id, Unread: true}, nil
	}
	if life < 0 {
		life = defaultLife
	}
	d := document{ends: now.Add(min(life, documentLife))}
	if err == nil {
		d.client, err = clientOf(id, text)
	}
	if err != nil {
		d.err, d.ends = badClient("client_id: "+err.Error()), now.Add(refusalLife)
	}
	s.documents.Set(id, d)
	return d.client, d.err
}

func clientOf(id string, text []byte) (client, error) {
	if len(text) > documentBytes {
		return client{}, fmt.Errorf("its document has more than %d bytes", documentBytes)
	}
	m, err := readMetadata(text)
	if err != nil {
		return client{}, fmt.Errorf("its document: %w", err)
	}
	switch {
	case m.ClientID != id:
		return client{}, errors.New("its document has another client_id")
	case m.AuthMethod != "" && m.AuthMethod != "none":
		return client{}, errors.New("its document: token_endpoint_auth_method: want none")
	}
	c, err := m.client()
	if err != nil {
		return client{}, fmt.Errorf("its document: %w", err)
	}
	c.ID = id
	return c, nil
}

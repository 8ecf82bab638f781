// Package oauth is the authorization server of agent hosts. A host logs in with a browser
// (authorization code with PKCE), without one (device flow), or with a key of a DID
// (client_credentials). It then acts for a party over REST, MCP and A2A.
//
// The server stores no clients. A client is a document at its own address, or its registration is
// sealed in its client_id. Authorization codes and forms are sealed too. The record stores only
// sessions, used codes and, within limits, waiting devices. See ADR 18.
//
// spec: OAuth 2.1, RFC 9700
package oauth

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

const (
	metadataPath   = "/.well-known/oauth-authorization-server"
	authorizePath  = "/oauth/authorize"
	tokenPath      = "/oauth/token" //nolint:gosec // G101: a path, and no credential
	registerPath   = "/oauth/register"
	revokePath     = "/oauth/revoke"
	deviceAuthPath = "/oauth/device_authorization"
	devicePath     = "/oauth/device" // opened by a person
)

// The holder of this only scope acts for a party.
const scope = "handoffs"

const maxFormBytes = 16 << 10

// Deps has the dependencies of the server.
type Deps struct {
	participant.Deps

	// Fetch returns a document and its cache lifetime, which is negative if the response has none. It
	// blocks on the network.
	Fetch func(ctx context.Context, address string) ([]byte, time.Duration, error)
	// Enrol registers a new agent, signed for by the gateway, and returns its DID. It is nil unless
	// strangers may register.
	Enrol func(ctx context.Context, name string, from netip.Prefix) (federation.DID, error)
	// OperatorPage is the address of the page for pairing codes; "" unless it listens on loopback.
	OperatorPage string
}

// Server is the authorization server of one gateway. It is safe for concurrent use.
type Server struct {
	access  *participant.Service
	deps    Deps
	foreign *http.CrossOriginProtection
	pages   *template.Template
	// These seal state kept by clients and browsers.
	registrations, codes, devices, forms, logins credential.Sealer
	documents                                    *otter.Cache[string, document]
}

// New returns the server. It does no I/O.
func New(d Deps) *Server {
	sealer := func(purpose string) credential.Sealer {
		return credential.NewSealer(d.TokenKey, string(d.Home)+" oauth "+purpose)
	}
	s := &Server{
		access: participant.Open("rest", d.Deps), deps: d, foreign: http.NewCrossOriginProtection(), pages: parsePages(),
		registrations: sealer("registration"), codes: sealer("code"), devices: sealer("device"), forms: sealer("form"), logins: sealer("login"),
		documents: otter.Must(&otter.Options[string, document]{MaximumSize: maxDocuments, Executor: func(tidy func()) { tidy() }}),
	}
	_ = s.foreign.AddTrustedOrigin(d.PublicURL) // cannot fail: a valid configuration has an address without a path
	return s
}

// Mount registers the routes of the server.
func (s *Server) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+metadataPath, s.getMetadata)
	mux.HandleFunc("POST "+tokenPath, s.endpoint(s.token))
	mux.HandleFunc("POST "+registerPath, s.endpoint(s.register))
	mux.HandleFunc("POST "+revokePath, s.endpoint(s.revoke))
	mux.HandleFunc("POST "+deviceAuthPath, s.endpoint(s.authorizeDevice))
	mux.HandleFunc("GET "+authorizePath, s.page(s.showAuthorize))
	mux.HandleFunc("POST "+authorizePath, s.page(s.decide))
	mux.HandleFunc("GET "+devicePath, s.page(s.showDevice))
	mux.HandleFunc("POST "+devicePath, s.page(s.findDevice))
}

const (
	grantCredentials = "client_credentials"
	grantCode        = "authorization_code"
	grantRefresh     = "refresh_token"
	grantDevice      = "urn:ietf:params:oauth:grant-type:device_code"
)

// spec: RFC 8414 §2, RFC 9207 §3, RFC 8628 §4
func (s *Server) getMetadata(w http.ResponseWriter, _ *http.Request) {
	at := func(path string) string { return s.deps.PublicURL + path }
	participant.WriteJSON(w, http.StatusOK, map[string]any{
		"issuer":                                           s.deps.PublicURL,
		"authorization_endpoint":                           at(authorizePath),
		"token_endpoint":                                   at(tokenPath),
		"registration_endpoint":                            at(registerPath),
		"revocation_endpoint":                              at(revokePath),
		"device_authorization_endpoint":                    at(deviceAuthPath),
		"client_id_metadata_document_supported":            true,
		"code_challenge_methods_supported":                 []string{"S256"},
		"response_types_supported":                         []string{"code"},
		"grant_types_supported":                            []string{grantCode, grantRefresh, grantCredentials, grantDevice},
		"token_endpoint_auth_methods_supported":            []string{"none", "private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported": assertionAlgorithms(),
		"scopes_supported":                                 []string{scope},
		"authorization_response_iss_parameter_supported":   true,
	})
}

// spec: RFC 6749 §5.2
type oauthError struct {
	Status      int    `json:"-"`
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	RetryAfter  int    `json:"-"` // seconds; 0 if unknown
}

func (e *oauthError) Error() string { return e.Code + ": " + e.Description }

func refuse(code, description string) error {
	return &oauthError{Status: http.StatusBadRequest, Code: code, Description: description}
}

func badRequest(description string) error { return refuse("invalid_request", description) }

func badGrant(description string) error { return refuse("invalid_grant", description) }

func badClient(description string) error {
	return &oauthError{Status: http.StatusUnauthorized, Code: "invalid_client", Description: description}
}

// endpoint writes JSON. The response may be nil.
func (s *Server) endpoint(answer func(w http.ResponseWriter, r *http.Request, now time.Time) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		var body any
		err := s.access.CheckAddress(r)
		if err == nil {
			body, err = answer(w, r, time.Now())
		}
		switch {
		case err != nil:
			e := s.errorOf(r.Context(), r.URL.Path, err)
			bridge.RetryHeader(w.Header(), e.Status, e.RetryAfter)
			participant.WriteJSON(w, e.Status, e)
		case body == nil:
			w.WriteHeader(http.StatusOK)
		case r.URL.Path == registerPath:
			participant.WriteJSON(w, http.StatusCreated, body)
		default:
			participant.WriteJSON(w, http.StatusOK, body)
		}
	}
}

func (s *Server) errorOf(ctx context.Context, path string, err error) *oauthError {
	if e, ok := errors.AsType[*oauthError](err); ok {
		return e
	}
	p := participant.ProblemOf(err)
	e := &oauthError{Status: p.Status, Description: p.Detail, RetryAfter: p.RetryAfter}
	switch {
	case p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable:
		e.Code = "temporarily_unavailable"
	case p.Status >= http.StatusInternalServerError:
		e.Code = "server_error"
		s.deps.Log.LogAttrs(ctx, slog.LevelError, "request not answered", slog.String("network", "rest"), slog.String("link", "rest"),
			slog.String("path", path), slog.Any("err", err))
	default:
		e.Status, e.Code = http.StatusBadRequest, "unauthorized_client"
	}
	return e
}

// readForm rejects repeated parameters.
//
// spec: RFC 6749 §3.2
func readForm(r *http.Request) (url.Values, error) {
	if err := r.ParseForm(); err != nil {
		return nil, badRequest("want a form of at most " + strconv.Itoa(maxFormBytes) + " bytes")
	}
	return r.PostForm, checkOnce(r.PostForm)
}

func checkOnce(form url.Values) error {
	for name, values := range form {
		if len(values) > 1 {
			return badRequest(name + " is given more than once")
		}
	}
	return nil
}

// checkResource rejects a resource outside this gateway.
//
// spec: RFC 8707 §2
func (s *Server) checkResource(resource string) error {
	path, ours := strings.CutPrefix(strings.TrimSuffix(resource, "/"), s.deps.PublicURL)
	if resource == "" || ours && (path == "" || path == "/mcp" || path == "/a2a" || strings.HasPrefix(path, "/a2a/did:") || path == "/api/v1") {
		return nil
	}
	return refuse("invalid_target", "resource: there is no such resource here")
}

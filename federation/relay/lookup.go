package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/baton-gateway/baton/federation"
)

const (
	maxDocumentBytes = 64 << 10 // usual documents have about 6 KiB
	hubLookups       = 4        // concurrent, of one home
)

// DIDDocumentPath is the path of the DID document of a home.
const DIDDocumentPath federation.URLPath = "/.well-known/did.json"

var (
	errNoWay    = errors.New("it has no url, and no hub is configured")
	errTooLarge = fmt.Errorf("the document has more than %d bytes", maxDocumentBytes)
)

// A lookup serves homes without an address. It is unsigned, because documents are public, and the other
// home may not know this home's key.
type lookup struct {
	heading

	Path string `json:"path"` // as in a URL
}

type found struct {
	answerHeading

	Status    int    `json:"status"`
	Body      string `json:"body"`                // only with status 200
	Signature string `json:"signature,omitempty"` // as over HTTPS
}

// Document is a public document received through a hub.
type Document struct {
	Body []byte
	// Signature is the signature header of the document, or "".
	Signature string
	// Answer contains the document, signed by the other home for this lookup. The caller must verify
	// the signature.
	Answer Envelope
}

func public(path string) bool {
	return path == string(federation.ProfilePath) || strings.HasSuffix(path, "/did.json") ||
		strings.HasPrefix(path, string(ResidentPath)+"/")
}

func parseLookup(text []byte, to federation.HomeID) (lookup, *url.URL, error) {
	var asked lookup
	if err := parse(text, &asked); err != nil {
		return asked, nil, err
	}
	at, err := url.ParseRequestURI(asked.Path)
	switch {
	case err != nil:
		return asked, nil, fmt.Errorf("read path: %w", err)
	case at.Host != "" || at.RawQuery != "" || !public(asked.Path):
		return asked, nil, fmt.Errorf("%q is no path of a public document", asked.Path)
	}
	return asked, at, asked.check(typeLookup, to)
}

// Lookup reads a public document of the other home through the hub. It blocks for at most ten seconds.
// The error wraps [federation.ErrNotFound] if the document does not exist, and
// [*federation.UnavailableError] without an answer.
func (p *Peer) Lookup(ctx context.Context, path federation.URLPath) (Document, error) {
	if !p.ByHub() {
		return Document{}, p.unavailable(errNoWay)
	}
	asked := lookup{heading: p.deps.ask(typeLookup, p.cfg.Home), Path: string(path)}
	body, err := json.Marshal(asked)
	if err != nil {
		return Document{}, fmt.Errorf("write lookup for %s: %w", p.cfg.Home, err)
	}
	answer, err := p.deps.Hub.ask(ctx, p.cfg.Home, Envelope{Body: body})
	if err != nil {
		return Document{}, p.unavailable(err)
	}
	var document found
	if err := parse(answer.Body, &document); err != nil {
		return Document{}, p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	switch {
	case !document.is(asked.answers(typeFound, body)):
		return Document{}, p.unavailable(errOtherAnswer)
	case document.Status == http.StatusNotFound || document.Status == http.StatusGone:
		return Document{}, fmt.Errorf("look up %s at %s: %w", path, p.cfg.Home, federation.ErrNotFound)
	case document.Status != http.StatusOK:
		return Document{}, p.unavailable(fmt.Errorf("status %d", document.Status))
	case len(document.Body) > maxDocumentBytes:
		return Document{}, p.unavailable(errTooLarge)
	}
	return Document{Body: []byte(document.Body), Signature: document.Signature, Answer: answer}, nil
}

// ByHub reports whether the hub is the path to the other home.
func (p *Peer) ByHub() bool { return p.cfg.Path == ByRelay && p.deps.Hub != nil }

// HTTPS is used if the hub returns no answer. The caller must verify the signature.
func (p *Peer) read(ctx context.Context, path federation.URLPath) (Envelope, error) {
	if p.ByHub() {
		document, err := p.Lookup(ctx, path)
		if err == nil || ctx.Err() != nil || p.cfg.URL == "" {
			return Envelope{Body: document.Body, Signature: document.Signature}, err
		}
	}
	if p.cfg.URL == "" {
		return Envelope{}, p.unavailable(errNoWay)
	}
	address, err := federation.JoinURL(p.cfg.URL, path, nil)
	if err != nil {
		return Envelope{}, p.unavailable(err)
	}
	return p.deps.Poster.Get(ctx, address)
}

func (h *PeerHandler) find(ctx context.Context, from federation.HomeID, e Envelope) (Envelope, *problem) {
	asked, at, err := parseLookup(e.Body, h.Deps.Home)
	if err == nil && asked.From != from {
		err = fmt.Errorf("it is from %q", asked.From)
	}
	if err != nil {
		return Envelope{}, &problem{status: http.StatusBadRequest, code: "malformed", err: err}
	}
	if peer := h.Peer(from); peer == nil || peer.Mode() == Block {
		return Envelope{}, &problem{status: http.StatusForbidden, code: "unknown-home", err: fmt.Errorf("%q is no peer", from)}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return Envelope{}, &problem{status: http.StatusBadRequest, code: "malformed", err: err}
	}
	page := &page{header: http.Header{}}
	h.Documents.ServeHTTP(page, request)
	document := found{answerHeading: asked.answers(typeFound, e.Body), Status: page.answered()}
	if document.Status == http.StatusOK {
		document.Body, document.Signature = page.body.String(), page.header.Get(federation.SignatureHeader)
	}
	return h.sign(ctx, document)
}

type page struct {
	header http.Header
	status int
	body   bytes.Buffer
	over   bool // limit exceeded
}

// Header implements [http.ResponseWriter].
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *page) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

func (p *page) Write(text []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.over = p.over || p.body.Len()+len(text) > maxDocumentBytes; p.over {
		return 0, errTooLarge
	}
	return p.body.Write(text)
}

func (p *page) answered() int {
	switch {
	case p.over:
		return http.StatusInsufficientStorage
	case p.status == 0:
		return http.StatusOK
	}
	return p.status
}

var errOtherAnswer = errors.New("it answers something else")

// ResidentPath is the path of the mailbox query, followed by a DID.
const ResidentPath federation.URLPath = "/fed/v1/homes"

type resident struct {
	Type string            `json:"type"`
	V    int               `json:"v"`
	Home federation.HomeID `json:"home"`
	DID  federation.DID    `json:"did"`
	Here bool              `json:"here"`
}

func (h *PeerHandler) serveResident(w http.ResponseWriter, r *http.Request) {
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		h.refuse(w, r, problem{status: http.StatusBadRequest, code: "malformed", err: err})
		return
	}
	here, err := h.Deps.Mailboxes.Here(r.Context(), did)
	if err != nil {
		h.refuse(w, r, problem{status: http.StatusServiceUnavailable, code: codeLater, err: err})
		return
	}
	h.serveSigned(w, r, resident{Type: typeResident, V: Version, Home: h.Deps.Home, DID: did, Here: here})
}

func (h *PeerHandler) serveSigned(w http.ResponseWriter, r *http.Request, document any) {
	answer, p := h.sign(r.Context(), document)
	if p != nil {
		h.refuse(w, r, *p)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(federation.SignatureHeader, answer.Signature)
	_, _ = w.Write(answer.Body) // the other home is gone
}

// Houses asks the other home whether it has a DID's mailbox. It blocks on the network.
func (p *Peer) Houses(ctx context.Context, did federation.DID) (bool, error) {
	if p.Mode() == Block {
		return false, nil
	}
	answer, err := p.read(ctx, ResidentPath.Join(string(did)))
	if err != nil {
		return false, p.unavailable(err)
	}
	if _, err := p.deps.Signer.Verify(ctx, p.cfg.Home, p.deps.Now(), answer.Body, answer.Signature); err != nil {
		return false, p.unavailable(fmt.Errorf("its answer is not signed by it: %w", err))
	}
	var found resident
	if err := parse(answer.Body, &found); err != nil {
		return false, p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	if found.Type != typeResident || found.V != Version || found.Home != p.cfg.Home || found.DID != did {
		return false, p.unavailable(errOtherAnswer)
	}
	return found.Here, nil
}

// BatchLimits returns the limits that other homes must accept.
func BatchLimits() federation.HomeLimits {
	return federation.HomeLimits{Steps: maxItems, Bytes: maxBatchBytes}
}

func (h *PeerHandler) serveProfile(w http.ResponseWriter, r *http.Request) {
	limits := BatchLimits()
	limits.Hops, limits.ClockSkew = h.Deps.MaxHops(), int64(h.ClockSkew().Seconds())
	h.serveSigned(w, r, federation.HomeProfile{
		Type: federation.HomeProfileType, V: Version, Home: h.Deps.Home, DID: h.Deps.Home.DID(), URL: h.PublicURL,
		Versions: []int{Version}, Limits: limits, Sent: h.Deps.Now().UTC(),
	})
}

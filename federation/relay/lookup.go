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

	"baton/federation"
)

// Bounds of lookups through a hub.
const (
	maxDocumentBytes = 64 << 10 // of one document: the documents of homes and agents have some 6 KiB
	hubLookups       = 4        // of one home that are answered at a time
)

// DIDDocumentPath is the path of the DID document of a home.
const DIDDocumentPath federation.URLPath = "/.well-known/did.json"

var (
	errNoWay    = errors.New("it has no url, and no hub is configured")
	errTooLarge = fmt.Errorf("the document has more than %d bytes", maxDocumentBytes)
)

// lookup asks another home for one of its public documents. Lookups travel through a hub, for homes
// without an address. They are not signed: the documents are public, and the other home may not know
// the key of this home yet.
type lookup struct {
	heading

	Path string `json:"path"` // as in a URL
}

// found is the answer to a lookup.
type found struct {
	answerHeading

	Status    int    `json:"status"`              // of HTTP
	Body      string `json:"body"`                // empty unless the status is 200
	Signature string `json:"signature,omitempty"` // the header of that name over HTTPS
}

// Document is a public document of another home that came through a hub.
type Document struct {
	Body []byte
	// Signature is the signature header of the document; empty for none.
	Signature string
	// Answer is the answer with the document. The other home signed it for this lookup. The
	// caller of [Peer.Lookup] verifies the signature.
	Answer Envelope
}

// public reports whether a home answers lookups of a path: the path of a DID document, of the
// profile, or of the question about a mailbox.
func public(path string) bool {
	return path == string(federation.ProfilePath) || strings.HasSuffix(path, "/did.json") ||
		strings.HasPrefix(path, string(ResidentPath)+"/")
}

// parseLookup reads a lookup that is for a home.
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

// Lookup reads a public document of the other home through the hub. It blocks for ten seconds
// at most. The error wraps [federation.ErrNotFound] where the other home says that there is
// none, and [*federation.UnavailableError] where it did not answer.
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

// ByHub reports whether the other home is reached through a hub.
func (p *Peer) ByHub() bool { return p.cfg.Path == ByRelay && p.deps.Hub != nil }

// read reads a signed document of the other home: through the hub, and by HTTPS where the hub
// brings no answer. The caller verifies the signature.
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

// find answers a lookup that came through the stream of a home.
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

// page is the answer of a handler in memory, up to a bound. It implements
// [http.ResponseWriter].
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
	over   bool // the answer has more bytes than the bound
}

// Header implements [http.ResponseWriter].
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *page) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

// Write implements [http.ResponseWriter].
func (p *page) Write(text []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.over = p.over || p.body.Len()+len(text) > maxDocumentBytes; p.over {
		return 0, errTooLarge
	}
	return p.body.Write(text)
}

// answered returns the status of the answer.
func (p *page) answered() int {
	switch {
	case p.over:
		return http.StatusInsufficientStorage
	case p.status == 0:
		return http.StatusOK
	}
	return p.status
}

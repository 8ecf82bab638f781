package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
)

// DirectoryConfig configures a [Directory].
type DirectoryConfig struct {
	PLC      string        // address of the did:plc directory without a path, or ""
	Fresh    time.Duration // lifetime of a document; a removed key may still count for this time
	Negative time.Duration // lifetime of negative results
	Stale    time.Duration // lifetime of a document without an answer of its host
	// Web returns the configured address of a did:web host, without a path. It may be nil.
	Web func(host string) (address string, ok bool)
	// Fetched is called with each document, or the reason for a missing one, before the callers
	// continue. It may be nil, and may block on the record. After an error, the earlier document stays
	// in use, and the host is queried again soon.
	Fetched func(ctx context.Context, did federation.DID, document federation.Document, err error) error
	// Home reads a document at a path of another home, and reports whether that home is known. It has
	// the errors of a [Fetcher]. It may be nil.
	Home func(ctx context.Context, name string, path federation.URLPath) (body []byte, known bool, err error)
	// Caught receives a panic in a lookup, which then fails. It may be nil.
	Caught func(ctx context.Context, err error)
}

// Fetcher reads documents, as a [*Client] does.
type Fetcher interface {
	// Get has the errors of [Client.Get].
	Get(ctx context.Context, address string) ([]byte, error)
}

// Directory implements [federation.Directory] for did:key, did:web and did:plc. For any other method,
// the error is a [*federation.UnavailableError], because an unknown method proves nothing.
type Directory struct {
	plc     string
	web     func(host string) (address string, ok bool)
	home    func(ctx context.Context, name string, path federation.URLPath) (body []byte, known bool, err error)
	fetcher Fetcher
	own     map[federation.DID][]ed25519.PublicKey
	parsed  *otter.Cache[federation.DID, federation.Document] // did:keys
	answers *answers
}

// NewDirectory returns a directory with an empty cache. It resolves the DIDs of the given keys without
// a request, because the gateway may not reach its own public address.
func NewDirectory(cfg DirectoryConfig, fetcher Fetcher, own ...federation.SigningKey) *Directory {
	d := &Directory{plc: cfg.PLC, web: cfg.Web, home: cfg.Home, fetcher: fetcher, own: map[federation.DID][]ed25519.PublicKey{}, parsed: newCache[federation.DID, federation.Document]()}
	d.answers = newAnswers(cfg, d.lookUp)
	for _, key := range own {
		d.own[key.DID] = append(d.own[key.DID], key.Public)
	}
	return d
}

// Resolve implements [federation.Directory]. While a host does not answer, it returns the last document
// for the configured time.
func (d *Directory) Resolve(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	if document, err := d.resolveHere(did, now); !errors.Is(err, errElsewhere) {
		return document, err
	}
	if known, ok := d.answers.fresh(did, now); ok {
		return known.document, known.err
	}
	return d.answers.ask(ctx, did, now, false)
}

// Refresh is a [Directory.Resolve] for a key missing in the cached document. It fetches the document
// again, at most every 30 seconds.
func (d *Directory) Refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	if document, err := d.resolveHere(did, now); !errors.Is(err, errElsewhere) {
		return document, err
	}
	if known, ok := d.answers.recent(did, now); ok {
		return known.document, known.err
	}
	return d.answers.ask(ctx, did, now, true)
}

// Offline returns the cached part of the directory. Its methods return an error wrapping [ErrNotCached]
// instead of sending a request.
func (d *Directory) Offline() Refresher { return offlineDirectory{d} } //nolint:ireturn // a wrapper of it is one too

type offlineDirectory struct{ *Directory }

// Resolve implements [federation.Directory].
func (d offlineDirectory) Resolve(_ context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	return d.remembered(did, now, d.answers.fresh)
}

// Refresh implements [Refresher].
func (d offlineDirectory) Refresh(_ context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	return d.remembered(did, now, d.answers.recent)
}

func (d offlineDirectory) remembered(
	did federation.DID, now time.Time, from func(federation.DID, time.Time) (answer, bool),
) (federation.Document, error) {
	if document, err := d.resolveHere(did, now); !errors.Is(err, errElsewhere) {
		return document, err
	}
	known, ok := from(did, now)
	if !ok {
		return federation.Document{}, notAtHand(did)
	}
	return known.document, known.err
}

var errElsewhere = errors.New("the document is elsewhere")

// The error is [errElsewhere] if a request is necessary.
func (d *Directory) resolveHere(did federation.DID, now time.Time) (federation.Document, error) {
	if keys, ok := d.own[did]; ok {
		return federation.Document{DID: did, Keys: keys, Fetched: now}, nil
	}
	switch method := did.Method(); method {
	case "key":
		document, err := d.resolveKey(did)
		if err != nil {
			return federation.Document{}, fmt.Errorf("resolve: %w", err)
		}
		document.Fetched = now
		return document, nil
	case "web", "plc":
		return federation.Document{}, errElsewhere
	default:
		return federation.Document{}, unavailable("did:"+method, 0, errors.New("this method is not resolved here"))
	}
}

// The cache saves several microseconds per look-up, because each step needs its signer's key more than
// once.
func (d *Directory) resolveKey(did federation.DID) (federation.Document, error) {
	if document, ok := d.parsed.GetIfPresent(did); ok {
		return document, nil
	}
	document := federation.Document{DID: did}
	key, err := ParsePublicKeyDID(did)
	if err != nil {
		return federation.Document{}, err
	}
	addKey(&document, method{key: key})
	d.parsed.Set(did, document)
	return document, nil
}

// CheckDID is [CheckDID] with the directory's cache.
func (d *Directory) CheckDID(did federation.DID) error {
	if did.Method() == "key" {
		_, err := d.resolveKey(did)
		return err
	}
	return CheckDID(did)
}

// DIDKey is [ParseKeyDID] with the directory's cache.
func (d *Directory) DIDKey(did federation.DID) (ed25519.PublicKey, error) {
	if did.Method() != "key" {
		return nil, fmt.Errorf("parse %s: not a did:key", did.Short())
	}
	document, err := d.resolveKey(did)
	if err != nil {
		return nil, err
	}
	if len(document.Keys) == 0 {
		return nil, fmt.Errorf("parse %s: %w", did.Short(), errNotEd25519)
	}
	return document.Keys[0], nil
}

func (d *Directory) lookUp(ctx context.Context, did federation.DID) (document federation.Document, err error) {
	if did.Method() == "plc" {
		document, err = d.fetchPLC(ctx, did)
	} else {
		document, err = d.fetchWeb(ctx, did)
	}
	if err != nil {
		return federation.Document{}, fmt.Errorf("resolve %s: %w", did, err)
	}
	return document, nil
}

func (d *Directory) fetchWeb(ctx context.Context, did federation.DID) (federation.Document, error) {
	host, path, err := webAddress(did)
	if err != nil {
		return federation.Document{}, err
	}
	base := federation.BaseURL(host)
	if d.web != nil {
		if at, ok := d.web(host); ok {
			base = at
		}
	}
	address, err := federation.JoinURL(base, path, nil)
	if err != nil {
		return federation.Document{}, err
	}
	body, err := d.readWeb(ctx, host, path, address)
	if err != nil {
		return federation.Document{}, err
	}
	document, err := parseDocument(did, body)
	document.Source = address
	return document, err
}

func (d *Directory) readWeb(ctx context.Context, host string, path federation.URLPath, address string) ([]byte, error) {
	if d.home != nil {
		if body, known, err := d.home(ctx, host, path); known {
			return body, err
		}
	}
	return d.fetcher.Get(ctx, address)
}

// spec: did-method-web §2.5.2
func webAddress(did federation.DID) (host string, path federation.URLPath, err error) {
	escaped, rest, _ := strings.Cut(strings.TrimPrefix(string(did), "did:web:"), ":")
	if host, err = url.PathUnescape(escaped); err != nil { // a port follows %3A
		return "", "", fmt.Errorf("read its host: %w", err)
	}
	segments := []string{".well-known"}
	if rest != "" {
		segments = strings.Split(rest, ":")
	}
	for _, segment := range segments {
		name, err := url.PathUnescape(segment)
		if err != nil || strings.Trim(name, ".") == "" || strings.Contains(name, "/") {
			return "", "", fmt.Errorf("%q is not a part of an address", segment)
		}
		path = path.Join(name)
	}
	again, err := url.Parse(federation.BaseURL(host))
	if err != nil || again.Host != host || again.User != nil || !oneSpelling(again.Hostname(), again.Port(), host) {
		return "", "", fmt.Errorf("%q is not a host", host)
	}
	return host, path.Join("did.json"), nil
}

// oneSpelling requires lower case, without a dot at the end or a default port.
func oneSpelling(name, port, host string) bool {
	switch {
	case name == "", name != strings.ToLower(name), strings.HasSuffix(name, "."):
		return false
	case port == "443", strings.HasPrefix(port, "0"), strings.HasSuffix(host, ":"):
		return false
	}
	return true
}

// Instrumented measures the latency of a [Refresher].
type Instrumented struct {
	Refresher

	seconds *prometheus.HistogramVec // labels: method, outcome
}

// NewResolveSeconds registers and returns the metric of [Instrumented].
func NewResolveSeconds(reg prometheus.Registerer) *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "baton", Name: "did_resolve_seconds", Help: "Time to resolve a DID, from the cache or the network.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 8, 8), // from 10 µs for a did:key to 21 s, beyond every timeout
	}, []string{"method", "outcome"})
	reg.MustRegister(seconds)
	return seconds
}

// NewSkippedKeys registers and returns the metric of unusable keys in DID documents, by DID method.
func NewSkippedKeys(reg prometheus.Registerer) *prometheus.CounterVec {
	skipped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "baton", Name: "did_keys_skipped_total", Help: "Unusable keys in fetched DID documents.",
	}, []string{"method"})
	reg.MustRegister(skipped)
	return skipped
}

// NewInstrumented measures a directory in the metric of [NewResolveSeconds].
func NewInstrumented(directory Refresher, seconds *prometheus.HistogramVec) Instrumented {
	return Instrumented{Refresher: directory, seconds: seconds}
}

// Resolve implements [federation.Directory].
func (t Instrumented) Resolve(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := t.Refresher.Resolve(ctx, did, now)
	t.count(did, begun, err)
	return document, err
}

// Refresh implements [Refresher].
func (t Instrumented) Refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := t.Refresher.Refresh(ctx, did, now)
	t.count(did, begun, err)
	return document, err
}

func (t Instrumented) count(did federation.DID, begun time.Time, err error) {
	if errors.Is(err, ErrNotCached) {
		return // the following lookup counts
	}
	method := did.Method()
	if !slices.Contains([]string{"key", "web", "plc"}, method) {
		method = "other" // remote parties can invent methods
	}
	t.seconds.WithLabelValues(method, outcome(err).String()).Observe(time.Since(begun).Seconds())
}

func outcome(err error) federation.Verdict {
	if err == nil {
		return federation.Valid
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return federation.Unverifiable
	}
	return federation.Invalid
}

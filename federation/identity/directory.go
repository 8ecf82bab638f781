package identity

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"baton/federation"
)

// goodFor is how long a document serves before it is fetched again: so long at most
// does a key still count that its owner took back.
const goodFor = time.Hour

// missingFor is how long a host's word counts that there is no document, so that a
// made-up DID costs its host one request a minute.
const missingFor = time.Minute

// maxDocuments bounds the cache. A document, reduced to its keys, is some 200 bytes.
const maxDocuments = 4096

// Fetcher is what a [Directory] reads documents with. [*Client] is one.
type Fetcher interface {
	// Get returns the body at an address. Its errors are those of [Client.Get].
	Get(ctx context.Context, address string) ([]byte, error)
}

// Directory implements [federation.Directory] for did:key and did:web. Any other
// method is answered with an [*federation.UnavailableError]: what this program
// cannot look up is not thereby false.
type Directory struct {
	fetcher Fetcher
	own     map[federation.DID][]ed25519.PublicKey

	mu    sync.Mutex
	cache map[federation.DID]cached
}

// cached is what the host of a DID answered: a document, or that there is none.
type cached struct {
	document federation.Document
	err      error
	until    time.Time
}

// NewDirectory returns a directory with nothing in its cache. The DIDs of its own
// keys it resolves by itself: what a gateway serves about itself it need not ask
// for, least of all at an address that it may not reach from where it is.
func NewDirectory(fetcher Fetcher, own ...federation.SigningKey) *Directory {
	d := &Directory{fetcher: fetcher, own: map[federation.DID][]ed25519.PublicKey{}, cache: map[federation.DID]cached{}}
	for _, key := range own {
		d.own[key.DID] = append(d.own[key.DID], key.Public)
	}
	return d
}

// Resolve implements [federation.Directory].
func (d *Directory) Resolve(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	if keys, ok := d.own[did]; ok {
		return federation.Document{DID: did, Keys: keys, Fetched: now}, nil
	}
	switch method := did.Method(); method {
	case "key":
		key, err := ParseKeyDID(did)
		if err != nil {
			return federation.Document{}, fmt.Errorf("resolve: %w", err)
		}
		return federation.Document{DID: did, Keys: []ed25519.PublicKey{key}, Fetched: now}, nil
	case "web":
		return d.resolveWeb(ctx, did, now)
	default:
		return federation.Document{}, unavailable("did:"+method, 0, errors.New("this method is not resolved here"))
	}
}

// resolveWeb answers from the cache while it may. A host that could not be asked is
// not remembered: the next step asks again.
func (d *Directory) resolveWeb(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	d.mu.Lock()
	known, ok := d.cache[did]
	d.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.document, known.err
	}
	document, err := d.fetchWeb(ctx, did, now)
	entry := cached{document: document, until: now.Add(goodFor)}
	if err != nil {
		err = fmt.Errorf("resolve %s: %w", did, err)
		if _, later := errors.AsType[*federation.UnavailableError](err); later {
			return federation.Document{}, err
		}
		entry = cached{err: err, until: now.Add(missingFor)}
	}
	d.remember(did, entry, now)
	return document, err
}

func (d *Directory) fetchWeb(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	address, err := webAddress(did)
	if err != nil {
		return federation.Document{}, err
	}
	body, err := d.fetcher.Get(ctx, address)
	if err != nil {
		return federation.Document{}, err
	}
	keys, err := ParseDocument(did, body)
	if err != nil {
		return federation.Document{}, err
	}
	return federation.Document{DID: did, Keys: keys, Fetched: now}, nil
}

// remember makes room by dropping what is over, else what is over first.
func (d *Directory) remember(did federation.DID, entry cached, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.cache) >= maxDocuments {
		maps.DeleteFunc(d.cache, func(_ federation.DID, c cached) bool { return !now.Before(c.until) })
	}
	if len(d.cache) >= maxDocuments {
		first := slices.MinFunc(slices.Collect(maps.Keys(d.cache)), func(a, b federation.DID) int {
			return cmp.Or(d.cache[a].until.Compare(d.cache[b].until), strings.Compare(string(a), string(b)))
		})
		delete(d.cache, first)
	}
	d.cache[did] = entry
}

// webAddress returns where the document of a did:web is.
//
// spec: did-method-web §2.5.2
func webAddress(did federation.DID) (string, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(string(did), "did:web:"), ":")
	host, err := url.PathUnescape(host) // a port stands behind %3A
	if err != nil {
		return "", fmt.Errorf("read its host: %w", err)
	}
	segments := []string{".well-known"}
	if path != "" {
		segments = strings.Split(path, ":")
	}
	u := &url.URL{Scheme: "https", Host: host, Path: "/"}
	for _, segment := range segments {
		if name, err := url.PathUnescape(segment); err != nil || strings.Trim(name, ".") == "" || strings.Contains(name, "/") {
			return "", fmt.Errorf("%q is no part of an address", segment)
		}
		u = u.JoinPath(segment)
	}
	u = u.JoinPath("did.json")
	if again, err := url.Parse(u.String()); err != nil || again.Host != host || again.Hostname() == "" || again.User != nil {
		return "", fmt.Errorf("%q is no host", host)
	}
	return u.String(), nil
}

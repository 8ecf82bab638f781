package identity

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"baton/federation"
)

// fetchWeb reads the document of a did:web at its host.
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

// readWeb reads a document at the other home of that name, where there is one, or else at its
// address.
func (d *Directory) readWeb(ctx context.Context, host string, path federation.URLPath, address string) ([]byte, error) {
	if d.home != nil {
		if body, known, err := d.home(ctx, host, path); known {
			return body, err
		}
	}
	return d.fetcher.Get(ctx, address)
}

// webAddress returns at which host the document of a did:web is, and its path there.
//
// spec: did-method-web §2.5.2
func webAddress(did federation.DID) (host string, path federation.URLPath, err error) {
	escaped, rest, _ := strings.Cut(strings.TrimPrefix(string(did), "did:web:"), ":")
	if host, err = url.PathUnescape(escaped); err != nil { // a port stands behind %3A
		return "", "", fmt.Errorf("read its host: %w", err)
	}
	segments := []string{".well-known"}
	if rest != "" {
		segments = strings.Split(rest, ":")
	}
	for _, segment := range segments {
		name, err := url.PathUnescape(segment)
		if err != nil || strings.Trim(name, ".") == "" || strings.Contains(name, "/") {
			return "", "", fmt.Errorf("%q is no part of an address", segment)
		}
		path = path.Join(name)
	}
	again, err := url.Parse(federation.BaseURL(host))
	if err != nil || again.Host != host || again.User != nil || !oneSpelling(again.Hostname(), again.Port(), host) {
		return "", "", fmt.Errorf("%q is no host", host)
	}
	return host, path.Join("did.json"), nil
}

// oneSpelling reports whether a host and a port are written as they are written
// everywhere: in lower case, without a dot at the end, and with no port that says
// nothing.
func oneSpelling(name, port, host string) bool {
	switch {
	case name == "", name != strings.ToLower(name), strings.HasSuffix(name, "."):
		return false
	case port == "443", strings.HasPrefix(port, "0"), strings.HasSuffix(host, ":"):
		return false
	}
	return true
}

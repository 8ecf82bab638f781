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

// readWeb reads a document at the home of that name, if there is one, else at its address.
func (d *Directory) readWeb(ctx context.Context, host string, path federation.URLPath, address string) ([]byte, error) {
	if d.home != nil {
		if body, known, err := d.home(ctx, host, path); known {
			return body, err
		}
	}
	return d.fetcher.Get(ctx, address)
}

// webAddress returns the host and the path of the document of a did:web.
//
// spec: did-method-web §2.5.2
func webAddress(did federation.DID) (host string, path federation.URLPath, err error) {
	escaped, rest, _ := strings.Cut(strings.TrimPrefix(string(did), "did:web:"), ":")
	if host, err = url.PathUnescape(escaped); err != nil { // the colon before a port is written as %3A
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

// oneSpelling reports whether a host and a port are in the one allowed spelling: lower case, no dot at
// the end, and no default port.
func oneSpelling(name, port, host string) bool {
	switch {
	case name == "", name != strings.ToLower(name), strings.HasSuffix(name, "."):
		return false
	case port == "443", strings.HasPrefix(port, "0"), strings.HasSuffix(host, ":"):
		return false
	}
	return true
}

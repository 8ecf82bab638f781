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
	address, err := webAddress(did)
	if err != nil {
		return federation.Document{}, err
	}
	if d.web != nil {
		u, err := url.Parse(address)
		if err != nil {
			return federation.Document{}, err
		}
		if at, ok := d.web(u.Host); ok {
			address = at + u.EscapedPath()
		}
	}
	body, err := d.fetcher.Get(ctx, address)
	if err != nil {
		return federation.Document{}, err
	}
	document, err := parseDocument(did, body)
	document.Source = address
	return document, err
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
	again, err := url.Parse(u.String())
	if err != nil || again.Host != host || again.User != nil || !oneSpelling(again.Hostname(), again.Port(), host) {
		return "", fmt.Errorf("%q is no host", host)
	}
	return u.String(), nil
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

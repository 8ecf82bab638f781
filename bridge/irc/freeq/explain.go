package freeq

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"baton/bridge"
)

var _ bridge.Explainer = (*Link)(nil)

// Explain implements [bridge.Explainer]. It returns the command that starts the server.
//
// spec: freeq-s2s "What a freeq operator sets"
func (l *Link) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s, a freeq-server, must be started with these flags besides its own:

freeq-server \
  --iroh --iroh-port %s \
  --db-path freeq.db \
  --web-addr %s \
  --server-name %s \
  --s2s-allowed-peers %s \
`, l.cfg.ServerName, l.irohPort(), l.webAddress(), l.cfg.ServerName, l.id)
	if l.cfg.Listen != "" {
		fmt.Fprintf(&b, "  --s2s-peers %s@%s \\\n", l.id, l.cfg.Listen)
	}
	fmt.Fprintf(&b, `  --s2s-peer-api %s=%s

The database may have any path. What listens at --web-addr is reached as %s; a proxy in front speaks TLS.
Its endpoint id must be %s: the public half of iroh-key.secret in its data
directory, which it logs at the start. It fetches keys from %s/api/v1/signing-keys/.
`, l.id, l.deps.PublicURL, l.cfg.PeerAPI, l.cfg.EndpointID, l.deps.PublicURL)
	if l.local() {
		fmt.Fprintf(&b, `
warning: http.public_url is %s, which is an address of this machine: the server reaches it only if it
runs here. Set it to the address under which other machines reach this gateway.
`, l.deps.PublicURL)
	}
	if l.id > l.cfg.EndpointID {
		fmt.Fprintf(&b, `
warning: the endpoint id of this gateway is larger than that of the server, which then refuses new
connections for half a minute after a crash. Run "baton keys create endpoint --smallest --force" and
tell the server's operator the new id.
`)
	}
	return b.String()
}

// irohPort returns the port dialled by the link.
func (l *Link) irohPort() string {
	for _, at := range l.cfg.ticket().direct {
		return fmt.Sprint(at.Port())
	}
	return "4433"
}

// webAddress returns the listen address of the web API.
func (l *Link) webAddress() string {
	u, err := url.Parse(l.cfg.PeerAPI)
	switch {
	case err != nil || u.Scheme == "https": // plain HTTP behind a proxy
		return "127.0.0.1:8080"
	case u.Port() == "":
		return "0.0.0.0:80"
	}
	return "0.0.0.0:" + u.Port()
}

// local reports whether the public URL of this gateway is an address of this machine.
func (l *Link) local() bool {
	u, err := url.Parse(l.deps.PublicURL)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

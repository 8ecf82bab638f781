package freeq

import (
	"fmt"
	"strings"

	"baton/bridge"
)

var _ bridge.Explainer = (*Link)(nil)

// Explain implements [bridge.Explainer]: the flags of the server.
//
// spec: freeq-s2s "What a freeq operator sets"
func (l *Link) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s, a freeq-server, must be started with these besides its own:

  --iroh
  --db-path <file>
  --web-addr <address>        # what is reached as %s
  --server-name %s
  --s2s-allowed-peers %s
  --s2s-peer-api %s=%s
`, l.cfg.ServerName, l.cfg.PeerAPI, l.cfg.ServerName, l.id, l.id, l.deps.PublicURL)
	if l.cfg.Listen != "" {
		fmt.Fprintf(&b, "  --s2s-peers %s@%s\n", l.id, l.cfg.Listen)
	}
	fmt.Fprintf(&b, `
Its endpoint id must be %s: the public half of iroh-key.secret in its data
directory. It fetches keys from %s/api/v1/signing-keys/.
`, l.cfg.EndpointID, l.deps.PublicURL)
	return b.String()
}

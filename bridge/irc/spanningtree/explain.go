package spanningtree

import (
	"fmt"
	"net"

	"baton/bridge"
)

var _ bridge.Explainer = (*Link)(nil)

// Explain implements [bridge.Explainer]: the link block of the other server. The
// passwords are not in it, only the names of the files that have them.
func (l *Link) Explain() string {
	host, port := "<address of this gateway>", "7001" // the port of one that dials is never used
	if !l.dials() {
		if h, p, err := net.SplitHostPort(l.cfg.Listen); err == nil && h != "" {
			host, port = h, p
		} else if err == nil {
			port = p
		}
	}
	secure := ""
	if l.cfg.TLS {
		secure = "\n      sslprofile=\"<one with your certificate>\"\n      fingerprint=\"<SHA-256 of this gateway's certificate>\""
	}
	text := fmt.Sprintf(`%s, an InspIRCd, must have these modules and this block:

<module name="spanningtree">
<module name="sha256">
<module name="cap">
<module name="ircv3_ctctags">
<module name="ircv3_msgid">
<link name="%s"
      ipaddr="%s"
      port="%s"
      allowmask="<addresses of this gateway>"%s
      recvpass="<what %s holds>"
      sendpass="<what %s holds>">
`, l.cfg.ServerName, l.ports.Home, host, port, secure, l.cfg.SendPasswordFile, l.cfg.RecvPasswordFile)
	if l.dials() {
		text += fmt.Sprintf("\nand a port for servers at %s. No server there may have the id %s.\n", l.cfg.Address, l.cfg.SID)
	} else {
		text += fmt.Sprintf("<autoconnect server=\"%s\" period=\"10\">\n\nNo server there may have the id %s.\n", l.ports.Home, l.cfg.SID)
	}
	return text
}

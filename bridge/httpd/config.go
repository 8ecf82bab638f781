package httpd

import (
	"crypto/tls"
	"net/netip"
)

// Config is what the owner of a listener decides about it.
type Config struct {
	Listen         string         // "host:port"; or
	Socket         string         // the path of a unix socket, which is its owner's alone
	CORSOrigins    []string       // "*", or origins such as "https://app.example"; never with credentials
	TrustedProxies []netip.Prefix // proxies whose ForwardedHeader is believed; none by default

	ForwardedHeader string      // [XForwardedFor], which "" stands for, or [Forwarded]
	Hosts           []string    // names that a Host header may have beside IP addresses and "localhost"; none: any name
	TLS             *tls.Config // of a listener that speaks TLS; nil for one that does not
	Limits          *Limits     // of what clients hold at a time; nil for none
	Panicked        func()      // counts each handler that panicked; nil for no call
}

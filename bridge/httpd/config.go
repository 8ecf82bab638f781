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
	TrustedProxies []netip.Prefix // proxies trusted to set ForwardedHeader; none by default

	ForwardedHeader string      // [XForwardedFor], the default for "", or [Forwarded]
	Hosts           []string    // allowed names in the Host header, beside IP addresses and "localhost"; empty allows all
	TLS             *tls.Config // nil for a listener without TLS
	Limits          *Limits     // limits per client; nil for none
	Panicked        func()      // called for each panic in a handler; may be nil
}

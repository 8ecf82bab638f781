package httpd

import (
	"crypto/tls"
	"net"
	"net/netip"
)

// Config is what the owner of a listener decides about it.
type Config struct {
	Listen         string         // "host:port"; or
	Socket         string         // the path of a unix socket, which is its owner's alone
	CORSOrigins    []string       // "*", or origins such as "https://app.example"; never with credentials
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For is believed; none by default
	Hosts          []string       // names that a Host header may have beside IP addresses and "localhost"; none: any name
	TLS            *tls.Config    // of a listener that speaks TLS; nil for one that does not
	Limits         *Limits        // of what clients hold at a time; nil for none
	Panicked       func()         // counts each handler that panicked; nil for no call
}

// trusted returns the ranges of trusted proxies as echo takes them.
func (c Config) trusted() []*net.IPNet {
	ranges := make([]*net.IPNet, 0, len(c.TrustedProxies))
	for _, prefix := range c.TrustedProxies {
		prefix = prefix.Masked()
		ranges = append(ranges, &net.IPNet{
			IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
		})
	}
	return ranges
}

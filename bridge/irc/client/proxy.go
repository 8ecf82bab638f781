package client

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"

	"baton/bridge"
)

// proxyHeaderTimeout is how long the header of a trusted proxy is waited for. A proxy
// sends it first of all; without one, the first bytes of the client end the wait.
const proxyHeaderTimeout = 3 * time.Second

// origin returns a connection after its PROXY header, with the address of its client as
// text, and as limits count it. The header is read only from trusted proxies. Where a
// trusted proxy sends none, the address for limits is the zero Prefix.
//
// spec: HAProxy PROXY protocol, versions 1 and 2
func (l *Link) origin(ctx context.Context, conn net.Conn) (net.Conn, string, netip.Prefix) {
	remote := conn.RemoteAddr().String()
	if !l.trusts(remote) {
		return conn, hostPart(remote), bridge.SubnetOf(remote)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the wait
	proxied := proxyproto.NewConn(conn, proxyproto.WithPolicy(proxyproto.USE), proxyproto.SetReadHeaderTimeout(proxyHeaderTimeout))
	client := proxied.RemoteAddr().String() // reads the header; a wrong one is the error of the next read
	if l.trusts(client) {
		return proxied, hostPart(client), netip.Prefix{}
	}
	return proxied, hostPart(client), bridge.SubnetOf(client)
}

// trusts reports whether an address is that of a trusted proxy.
func (l *Link) trusts(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(l.deps.HTTP.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

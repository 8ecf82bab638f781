package bridge

import (
	"context"
	"net/netip"

	"baton/federation"
)

// Network returns what limits count as one client: one IPv4 address, or one /64 of IPv6.
// It returns the zero Prefix for the zero Addr.
func Network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := federation.SubnetBits
	if addr.Is4() {
		bits = addr.BitLen()
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// NetworkOf is [Network] of an address as net/http and net.Conn write it, "host:port" or
// a host alone. Text that holds no IP address is the zero Prefix. Limits by address do not
// apply to it: it stands for all clients of a trusted proxy that names no addresses.
func NetworkOf(remote string) netip.Prefix {
	if from, err := netip.ParseAddrPort(remote); err == nil {
		return Network(from.Addr())
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return netip.Prefix{}
	}
	return Network(addr)
}

type networkKey struct{}

// WithNetwork returns a context for what the client at an address asks. Steps submitted
// with it carry the address in their Arrival.
func WithNetwork(ctx context.Context, from netip.Prefix) context.Context {
	return context.WithValue(ctx, networkKey{}, from)
}

// NetworkFrom returns the address given to [WithNetwork], or the zero Prefix. Server
// links and other homes give none: their people's addresses are unknown here.
func NetworkFrom(ctx context.Context) netip.Prefix {
	from, _ := ctx.Value(networkKey{}).(netip.Prefix)
	return from
}

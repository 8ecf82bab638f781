package bridge

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Subnet returns the network that limits count as one client: an IPv4 address or an IPv6 /64. It
// returns the zero Prefix for the zero Addr.
func Subnet(addr netip.Addr) netip.Prefix {
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

// SubnetOf is [Subnet] for the text form of net/http and net.Conn: "host:port" or only a host. It
// returns the zero Prefix for text without an IP address. Limits by address do not apply to it,
// because it represents all clients of a trusted proxy that forwards no client addresses.
func SubnetOf(remote string) netip.Prefix {
	if from, err := netip.ParseAddrPort(remote); err == nil {
		return Subnet(from.Addr())
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return netip.Prefix{}
	}
	return Subnet(addr)
}

type subnetKey struct{}

// WithSubnet returns a context for requests of the client at an address. The Arrival of steps
// submitted with it contains the address.
func WithSubnet(ctx context.Context, from netip.Prefix) context.Context {
	return context.WithValue(ctx, subnetKey{}, from)
}

// SubnetFrom returns the address given to [WithSubnet], or the zero Prefix. Server links and other
// homes set none, because the addresses of their users are unknown here.
func SubnetFrom(ctx context.Context) netip.Prefix {
	from, _ := ctx.Value(subnetKey{}).(netip.Prefix)
	return from
}

// Allowance is the remaining allowance of a participant or an address under a rate limit.
type Allowance struct {
	Limit int // size of the bucket; 0 if there is no limit
	Left  int
	Full  time.Time // time at which the bucket is full again
}

// WriteHeader writes the allowance to the headers of an HTTP response.
func (a Allowance) WriteHeader(h http.Header) {
	if a.Limit == 0 {
		return
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(a.Left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(a.Full.Add(time.Second-1).Unix(), 10))
}

package identity

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard decides which addresses are dialled. It checks each connection after the name was resolved, so
// that no name and no redirect bypasses it.
type guard struct {
	public *ssrf.Guardian // nil where private addresses are allowed
	denied []netip.Prefix // never dialled
}

func newGuard(cfg FetchConfig) guard {
	g := guard{denied: cfg.Denied}
	if !cfg.AllowPrivate {
		g.public = ssrf.New(ssrf.WithAnyPort())
	}
	return g
}

// control has the form of [net.Dialer.Control].
func (g guard) control(network, address string, conn syscall.RawConn) error {
	if g.public != nil {
		if err := g.public.Safe(network, address, conn); err != nil {
			return fmt.Errorf("%w: %w", ErrPrivate, err)
		}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNotAllowed, address)
	}
	return g.checkDenied(to.Addr())
}

// check returns an error wrapping [ErrNotAllowed] for an address that is not dialled.
func (g guard) check(addr netip.Addr) error {
	if g.public != nil && g.public.SafeAddr(addr.Unmap()) != nil {
		return fmt.Errorf("%w: %s is not public", ErrNotAllowed, addr.Unmap())
	}
	return g.checkDenied(addr)
}

func (g guard) checkDenied(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if slices.ContainsFunc(g.denied, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return fmt.Errorf("%w: %s is in fetch.denied_networks", ErrNotAllowed, addr)
	}
	return nil
}

// dialer returns a dialer that asks the guard.
func (g guard) dialer(resolver *net.Resolver) *net.Dialer {
	return &net.Dialer{Resolver: resolver, Control: g.control}
}

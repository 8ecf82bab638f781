package federationtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// These ports are below the ports for outgoing connections, which could take a port before its
// server has it.
const (
	firstPort = 16000
	lastPort  = 32000
)

// The runtime closes an unreferenced socket.
var claims struct { //nolint:gochecknoglobals // the ports belong to the process
	sync.Mutex
	held []net.PacketConn
}

// FreeAddr returns one of [FreeAddrs].
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	addrs, err := FreeAddrs(tb.Context(), 1)
	if err != nil {
		tb.Fatal(err)
	}
	return addrs[0]
}

// FreePort returns the port of [FreeAddr]. A server can be stopped and restarted on it.
func FreePort(tb testing.TB) int {
	tb.Helper()
	return int(netip.MustParseAddrPort(FreeAddr(tb)).Port())
}

// FreePortPair returns the lower of two loopback ports without a listener, this far apart. No other
// test gets either port while this process runs.
func FreePortPair(tb testing.TB, apart int) int {
	tb.Helper()
	for {
		port := firstPort + rand.IntN(lastPort-apart-firstPort) //nolint:gosec // a port is no secret
		free, err := claim(tb.Context(), loopback(port))
		if err == nil && free {
			free, err = claim(tb.Context(), loopback(port+apart))
		}
		if err != nil {
			tb.Fatal(err)
		}
		if free {
			return port
		}
	}
}

// FreeAddrs returns loopback addresses without a listener. While this process runs, no other test,
// in any process, gets one of them.
func FreeAddrs(ctx context.Context, n int) (addrs []string, err error) {
	for len(addrs) < n {
		addr := loopback(firstPort + rand.IntN(lastPort-firstPort)) //nolint:gosec // a port is no secret
		free, err := claim(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		if free {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Keeps an address until this process ends, by the UDP port of the same number, which a server over
// TCP does not use.
func claim(ctx context.Context, addr string) (free bool, err error) {
	var lc net.ListenConfig
	held, err := lc.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return false, unlessTaken(err)
	}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return false, errors.Join(unlessTaken(err), held.Close())
	}
	claims.Lock()
	defer claims.Unlock()
	claims.held = append(claims.held, held)
	return true, l.Close()
}

func unlessTaken(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil
	}
	return err
}

package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports of servers that cannot pick one themselves, or must have the same after a restart.
// They are below those that systems give to outgoing connections, one of which could take
// a port before its server has it.
const (
	firstPort = 16000
	lastPort  = 32000
)

// FreeAddrs returns different loopback addresses that nothing listens on.
func FreeAddrs(ctx context.Context, n int) (addrs []string, err error) {
	var lc net.ListenConfig
	for len(addrs) < n {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // a port is no secret
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all are held until there are enough
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

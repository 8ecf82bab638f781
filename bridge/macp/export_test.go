package macp

import (
	"context"
	"net"

	"github.com/baton-gateway/baton/bridge"
)

// How errors are answered, for tests.
var (
	RPCError   = rpcError
	WriteError = writeError
)

// Serve serves a link on one more listener.
func Serve(ctx context.Context, link bridge.Link, listener net.Listener) error {
	l, _ := link.(*Link) // of the network
	return l.serve(ctx, listener)
}

package client

import (
	"context"
	"net"
)

// Attach lets a connection in that came by no port. The link must run.
func (l *Link) Attach(ctx context.Context, conn net.Conn) {
	s := l.live.Load()
	s.running.Go(func() { s.serve(ctx, conn, false) })
}

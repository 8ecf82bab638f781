package httpd

import (
	"context"
	"net"
)

// ServeOn is Serve on another listener than that of Listen.
func (s *Server) ServeOn(ctx context.Context, l net.Listener) error {
	s.listener = l
	return s.Serve(ctx)
}

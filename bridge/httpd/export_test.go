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

// Turns are those with which parked answers go on.
type Turns struct{ turns }

// Schedule notes that one is to begin.
func (t *Turns) Schedule() { t.put(func() {}) }

// Begin has the next one begin.
func (t *Turns) Begin() { t.take()() }

// Run has one begin.
func (t *Turns) Run(turn func()) { t.run(turn) }

// Wait returns once as many have begun as were to by now, and their answers could be taken.
func (t *Turns) Wait() { t.wait() }

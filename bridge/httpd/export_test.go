package httpd

import (
	"context"
	"log/slog"
	"net"
)

// ServeOn is Serve on another listener than that of Listen.
func (s *Server) ServeOn(ctx context.Context, l net.Listener) error {
	s.listener = l
	return s.Serve(ctx)
}

// Turns are those that a lot runs.
type Turns struct{ lot *lot }

// NewTurns returns those of a lot in which nobody waits.
func NewTurns() Turns { return Turns{newLot(slog.New(slog.DiscardHandler))} }

// Schedule notes that a turn is to begin.
func (t Turns) Schedule() { t.lot.schedule() }

// Begin notes that a turn has begun.
func (t Turns) Begin() { t.lot.begins() }

// After returns once as many have begun as are to by now.
func (t Turns) After() { t.lot.afterOthers() }

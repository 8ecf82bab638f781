package freeq

import (
	"context"
	"errors"
	"log/slog"
)

// errReplaced ends a session whose connection gives way to another one.
var errReplaced = errors.New("another connection with the other server stands instead")

// preferred reports whether a connection is the one that stands where there are two:
// that which the end with the smaller id has begun. Both ends hold to it.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
func (l *Link) preferred(c stream) bool { return c.dialled == (l.id < l.cfg.EndpointID) }

// rival decides between the connection of this session and another one. Its error ends
// the session for it. One that is to be turned away is kept while the peer has not greeted
// on this one: an attempt may come to nothing, where the peer is reached one way only.
func (s *session) rival(ctx context.Context, a arrival) error {
	r := s.link.reach
	r.taken(a)
	switch {
	case a.err != nil:
		r.failed(ctx, a)
	case s.link.preferred(a.stream()):
		r.keep(a)
		return errReplaced
	case s.greeted || s.spare != nil:
		s.turnAway(ctx, a)
	default:
		s.spare = &a
	}
	return nil
}

// turnAway closes another connection.
func (s *session) turnAway(ctx context.Context, a arrival) {
	s.log.LogAttrs(ctx, slog.LevelInfo, "second connection of the peer closed", slog.Bool("dialled", a.way.dialled))
	s.Running.Go(func() { _ = a.conn.Close() })
	s.link.reach.try(ctx, &s.link.reach.listen)
}

// settleSpare decides about the connection that was kept, when the peer has greeted on
// this one or this one is over.
func (s *session) settleSpare(ctx context.Context) {
	spare := s.spare
	s.spare = nil
	switch {
	case spare == nil:
	case s.greeted:
		s.turnAway(ctx, *spare)
	default:
		s.link.reach.keep(*spare)
	}
}

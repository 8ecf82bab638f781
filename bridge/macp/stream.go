package macp

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"baton/federation/fault"
	"baton/translate/macpmode"
	"baton/translate/macpmode/macpv1"
)

// bidi is the stream of one client.
type bidi = connect.BidiStream[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse]

// converse serves a stream that is bound to one session for its life: the client subscribes to
// the session, or sends its envelopes. It ends with the session, or when the client has closed
// its side and follows nothing.
func (l *Link) converse(ctx context.Context, from participant, s *bidi) error {
	ctx, stop := context.WithCancel(ctx)
	c := &conversation{link: l, from: from, stream: s, followed: make(chan error, 1)}
	defer c.following.Wait() // after stop
	defer stop()
	if err := s.Send(nil); err != nil { // the header
		return err
	}
	frames, closed := receive(ctx, s)
	for {
		select {
		case frame := <-frames:
			if err := c.take(ctx, frame); err != nil {
				return err
			}
		case err := <-c.followed:
			return err
		case err := <-closed:
			if !errors.Is(err, io.EOF) || !c.follows {
				return unlessEOF(err)
			}
			closed = nil // the client reads on
		}
	}
}

// receive reads the frames of a client in their order, and then why there are no more. Its
// goroutine ends after the handler of the stream has returned, which closes the request.
func receive(ctx context.Context, s *bidi) (<-chan *macpv1.StreamSessionRequest, <-chan error) {
	frames, closed := make(chan *macpv1.StreamSessionRequest), make(chan error, 1)
	go func() {
		err := fault.Catch(func() error {
			for {
				frame, err := s.Receive()
				if err != nil {
					return err
				}
				select {
				case frames <- frame:
				case <-ctx.Done():
					return nil
				}
			}
		})
		closed <- err // buffered
	}()
	return frames, closed
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// conversation is one stream with the session that it is bound to.
type conversation struct {
	link      *Link
	from      participant
	stream    *bidi
	session   string
	follows   bool
	following fault.Group
	followed  chan error // how the follower ended
	writing   sync.Mutex // the follower and the reader write
}

// take serves one frame.
func (c *conversation) take(ctx context.Context, frame *macpv1.StreamSessionRequest) error {
	env, subscribed := frame.GetEnvelope(), frame.GetSubscribeSessionId()
	switch {
	case env != nil && subscribed != "", env == nil && subscribed == "":
		return macpmode.Refuse(macpmode.InvalidRequest, "a frame has an envelope or subscribe_session_id")
	case subscribed != "" && c.follows:
		return macpmode.Refuse(macpmode.InvalidRequest, "the stream is subscribed")
	case c.session != "" && c.session != subscribed+env.GetSessionId():
		return macpmode.Refuse(macpmode.InvalidRequest, "the stream is bound to another session")
	case subscribed != "":
		c.session = subscribed
		c.follow(ctx, frame.GetAfterSequence())
		return nil
	}
	return c.write(ctx, env)
}

// write sends the envelope of a frame. A refusal is a frame of its own, and the stream goes on.
func (c *conversation) write(ctx context.Context, env *macpv1.Envelope) error {
	ack := c.link.send(ctx, c.from, env)
	if !ack.GetOk() {
		return c.send(&macpv1.StreamSessionResponse{Response: &macpv1.StreamSessionResponse_Error{Error: ack.GetError()}})
	}
	if c.session = env.GetSessionId(); c.session == "" || c.follows {
		return nil
	}
	var sequence uint64
	if err := c.link.read(ctx, c.from, c.session, func(t *turn) error {
		sequence = t.session.Sequence
		return nil
	}); err != nil {
		return err
	}
	c.follow(ctx, sequence-1) // its own envelope is the first that it reads
	return nil
}

// follow passes the stream of the session on, until ctx or the session ends.
func (c *conversation) follow(ctx context.Context, after uint64) {
	c.follows = true
	c.following.Go(func() {
		c.followed <- fault.Catch(func() error {
			return c.link.follow(ctx, c.from, c.session, after, func(n numbered) error {
				return c.send(&macpv1.StreamSessionResponse{Response: &macpv1.StreamSessionResponse_Envelope{Envelope: n.env}})
			})
		})
	})
}

func (c *conversation) send(answer *macpv1.StreamSessionResponse) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.stream.Send(answer)
}

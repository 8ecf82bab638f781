package spanningtree

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"golang.org/x/time/rate"

	"baton/bridge/irc"
)

// pingEvery is how often we ask whether the peer lives. InspIRCd asks each
// minute.
const pingEvery = 30 * time.Second

// maxSilence is after how long without a line the peer counts as gone: three
// PINGs without an answer.
const maxSilence = 90 * time.Second

// leaveTimeout bounds the wait for the peer to close the connection after we
// left: it does so at once, or is stuck.
const leaveTimeout = 2 * time.Second

// maxBufferBytes is how much may wait to be written before no more rows are
// taken: two rows of the largest size for each lane of a feed.
const maxBufferBytes = 1 << 20

// session is one connection to the peer, from dialling to its end.
type session struct {
	link *Link
	conn net.Conn
	log  *slog.Logger
	up   func() // called once both bursts are over

	// asking ends with the connection, and with it the waits for keys.
	asking context.Context
	// submitting outlives the connection by a little, so that what was read is judged.
	submitting context.Context
	slots      irc.Slots // of what is judged

	// Owned by the goroutine in run.
	net         *tree
	reading     string // the line that is acted on
	memberships int    // given out, to tell the times that a user was in a channel apart
	commands    map[string]command
	challenge   string        // ours
	hello       string        // our SERVER
	linked      bool          // both bursts are over
	skew        time.Duration // of our clock, ahead of the peer's
	tagless     bool          // told the log that the peer takes no tags
	buffer      []byte        // to be written
	writing     bool          // the writer has a piece
	writeErr    error
	unproven    []*row           // in buffer
	pings       [][]*row         // sent and unanswered, with the rows that each proves
	lanes       *lanes           // steps that are judged or wait for it
	events      *rate.Limiter    // steps of the whole link; nil without a limit
	rooms       []room           // that our user opened, in order
	pause       <-chan time.Time // nothing is read until then; nil while something is

	// Between the goroutines.
	running   sync.WaitGroup
	lines     chan line
	broken    chan error // the reader's end
	pieces    chan []byte
	wrote     chan error
	rows      chan *row
	judged    chan judged
	todo      chan func() // what judges have the owner do
	asks      chan ask
	laters    chan later
	returning chan *pseudo  // users whose time to come back has come
	over      chan struct{} // closed at the end
}

func newSession(l *Link, conn net.Conn) *session {
	return &session{
		link: l, conn: conn, log: l.log, slots: irc.NewSlots(irc.LinkSlots),
		net: newTree(l.channels.Spelled()), commands: commands(),
		lines: make(chan line), broken: make(chan error, 1),
		pieces: make(chan []byte, 1), wrote: make(chan error, 1),
		rows:  make(chan *row),
		lanes: newLanes(), judged: make(chan judged), todo: make(chan func()), asks: make(chan ask), laters: make(chan later), returning: make(chan *pseudo),
		over: make(chan struct{}),
	}
}

// sid returns our server id.
func (s *session) sid() string { return s.link.cfg.SID }

// begin starts the reader and the writer.
func (s *session) begin() {
	s.running.Go(s.read)
	s.running.Go(s.write)
}

// run serves a connection whose peer has authenticated, and returns why it ended,
// after all that it started has ended too.
func (s *session) run(ctx context.Context, up func()) error {
	s.up = up
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	submitting, cancel := irc.Outlive(asking)
	defer cancel()
	s.asking, s.submitting = asking, submitting
	s.burst()
	err := s.serve(ctx)
	s.link.live.Store(nil)
	s.link.agreed.Store(nil)
	stopAsking()
	s.hangUp()
	s.link.Lose()
	s.settle()
	s.running.Wait()
	s.link.roster.leave()
	return err
}

// end closes the connection and waits for all that the session started.
func (s *session) end() {
	s.hangUp()
	s.running.Wait()
}

// hangUp closes the connection: the peer takes the next one.
func (s *session) hangUp() {
	close(s.over)
	_ = s.conn.Close()
}

// serve is the owner's loop, from the burst to the end.
func (s *session) serve(ctx context.Context) error {
	alive := time.NewTicker(pingEvery)
	defer alive.Stop()
	silence := time.NewTimer(maxSilence)
	defer silence.Stop()
	for {
		s.flush()
		s.judgeAll()
		select {
		case <-ctx.Done():
			return s.leave(ctx)
		case l := <-s.readable():
			silence.Reset(maxSilence)
			s.link.Hear(time.Now())
			if err := s.take(ctx, l); err != nil {
				return err
			}
		case err := <-s.broken:
			return s.lost(err)
		case err := <-s.wrote:
			s.writing, s.writeErr = false, err
		case r := <-s.takeRows():
			s.deliver(ctx, r)
		case j := <-s.judged:
			if s.lanes.Full() {
				silence.Reset(maxSilence) // while nothing was read nothing was heard
			}
			s.note(ctx, j)
		case do := <-s.todo:
			do()
		case a := <-s.asks:
			a.answer <- s.net.find(a.did, a.accounts, a.nick) != ""
		case what := <-s.laters:
			s.tellSigner(ctx, what)
		case <-s.pause:
			s.pause = nil
		case p := <-s.returning:
			s.comeBack(p)
		case <-alive.C:
			s.ping(nil)
		case <-silence.C:
			if !s.lanes.Full() {
				return s.lost(errors.New("silent for " + maxSilence.String()))
			}
			silence.Reset(maxSilence)
		}
	}
}

// readable returns the channel of lines, or none while too many steps wait to be
// judged or the link is over its rate: what is not read now is read later, and the
// peer feels it.
func (s *session) readable() <-chan line {
	if s.lanes.Full() || s.pause != nil {
		return nil
	}
	return s.lines
}

// takeRows returns the channel of rows, or none while too much waits to be
// written.
func (s *session) takeRows() <-chan *row {
	if len(s.buffer) > maxBufferBytes {
		return nil
	}
	return s.rows
}

// take acts on one line from the peer. Its error ends the link, which nothing
// does that the peer merely spelled badly.
func (s *session) take(ctx context.Context, l line) error {
	s.reading = l.text
	m, wrong := parse(l)
	if wrong != "" {
		s.badInput(ctx, wrong, m.Command)
	}
	switch wrong {
	case tooLong, malformed, unknownSource:
		return nil
	case unreadable:
		return s.takeTagless(ctx, m)
	}
	return s.dispatch(ctx, m)
}

// dispatch calls what the table of commands has for a message.
func (s *session) dispatch(ctx context.Context, m ircmsg.Message) error {
	c, known := s.commands[m.Command]
	switch {
	case !known:
		return nil // a leaf has no use for the rest, and must not drop a network over it
	case m.Source != "" && !s.net.knows(m.Source):
		s.badInput(ctx, unknownSource, m.Command)
		return nil
	case len(m.Params) < c.params:
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	return c.run(s, ctx, m)
}

// leave ends the link in good order: our server leaves the network, and the peer
// closes the connection.
func (s *session) leave(ctx context.Context) error {
	s.put(":%s SQUIT %s :leaving", s.sid(), s.sid())
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for {
		s.flush()
		select {
		case <-s.lines:
		case j := <-s.judged:
			s.exit(j.step)
		case <-s.returning:
		case err := <-s.wrote:
			s.writing, s.writeErr = false, err
		case err := <-s.broken:
			s.log.LogAttrs(ctx, slog.LevelDebug, "left the network", slog.Any("err", err))
			return context.Cause(ctx)
		case <-timeout.C:
			return context.Cause(ctx)
		}
	}
}

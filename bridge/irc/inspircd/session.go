package inspircd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// InspIRCd pings each minute.
const pingEvery = 30 * time.Second

// maxSilence is the timeout for input from the peer: three unanswered PINGs.
const maxSilence = 90 * time.Second

// The peer closes the connection at once after we leave, unless it is stuck.
const leaveTimeout = 2 * time.Second

// maxBufferBytes allows two rows of the maximum size for each lane of a feed.
const maxBufferBytes = 1 << 20

// The steps of one user, and the text of one channel, are judged in order of arrival.
type judging = irc.Session[line, *inbound, string]

type session struct {
	*judging

	link *Link
	conn net.Conn
	log  *slog.Logger
	up   func()
	rows chan *outbound
	// agreed is constant once the session accepts rows.
	agreed *agreement

	notCarried atomic.Pointer[[]string]

	announcer irc.Announcer

	// Owned by the goroutine in run.
	protocol    version
	net         *tree
	reading     string
	displaced   map[*pseudo]bool
	memberships int // distinguishes a user's stays in a channel
	commands    map[string]command
	challenge   string
	hello       string
	linked      bool
	changed     bool
	skew        time.Duration // how far our clock is ahead of the peer's
	tagless     bool
	buffer      []byte
	unproven    []*outbound
	pings       [][]*outbound // unanswered, with the rows that each proves
	events      *rate.Limiter // nil without a limit
	rooms       []room
	missed      map[federation.DID]party
	pause       <-chan time.Time // reading is paused until then; nil if not paused
	unread      []*outbound      // waiting for users of their channel, in order
	readersDue  <-chan time.Time // end of that wait; nil afterwards
}

func newSession(l *Link, conn net.Conn) *session {
	s := &session{
		link: l, conn: conn, log: l.log, rows: make(chan *outbound),
		net: newTree(l.channels.Spelled()), commands: commands(), displaced: map[*pseudo]bool{}, missed: map[federation.DID]party{},
	}
	s.net.left = func(u *user) { s.changedUser(u, bridge.PresenceChange{Gone: true}) }
	wire := irc.Wire[line]{
		Conn: conn, MaxLineBytes: maxLineBytes, Write: s.writePiece,
		Decode: func(text []byte, err error) line { return line{text: string(text), err: err} },
	}
	s.judging = irc.NewSession(l.log, wire, 0, irc.NewLanes(maxSteps, (*inbound).lane))
	s.announcer = irc.NewAnnouncer(l.cfg.Name, l.ports.Presence, s.Running.Go)
	return s
}

func (s *session) sid() string { return s.link.cfg.SID }

func (s *session) run(ctx context.Context, up func()) error {
	s.up = up
	s.Judge = func(in *inbound) func() { return s.process(ctx, in) }
	s.burst()
	err := s.Run(ctx, s.serve, func() {
		s.link.live.Store(nil)
		s.link.SignalDisconnect()
	})
	s.link.roster.leave()
	return err
}

func (s *session) serve(ctx context.Context) error {
	alive := time.NewTicker(pingEvery)
	defer alive.Stop()
	silence := time.NewTimer(maxSilence)
	defer silence.Stop()
	for {
		s.flush()
		s.JudgeAll()
		if s.linked && s.changed {
			s.publish()
		}
		select {
		case <-ctx.Done():
			return s.leave(ctx)
		case l := <-s.readable():
			silence.Reset(maxSilence)
			s.link.Hear(time.Now())
			if err := s.handleLine(ctx, l); err != nil {
				return err
			}
			s.deliverUnread(ctx)
		case err := <-s.Broken:
			return s.lost(err)
		case err := <-s.Wrote:
			s.Written(err)
		case r := <-s.acceptedRows():
			s.deliver(ctx, r)
		case do := <-s.Calls:
			if s.Steps.Full() {
				silence.Reset(maxSilence) // nothing was read meanwhile
			}
			do()
		case <-s.pause:
			s.pause = nil
		case <-s.readersDue:
			s.readersDue = nil
			s.deliverUnread(ctx)
		case <-alive.C:
			s.ping(nil)
		case <-silence.C:
			if !s.Steps.Full() {
				return s.lost(errors.New("silent for " + maxSilence.String()))
			}
			silence.Reset(maxSilence)
		}
	}
}

// readable returns nil while too many steps wait to be judged or the link exceeds its rate. The
// unread lines slow the peer down.
func (s *session) readable() <-chan line {
	if s.Steps.Full() || s.pause != nil {
		return nil
	}
	return s.Lines
}

func (s *session) acceptedRows() <-chan *outbound {
	if len(s.buffer) > maxBufferBytes {
		return nil
	}
	return s.rows
}

// An error ends the link; malformed input never does.
func (s *session) handleLine(ctx context.Context, l line) error {
	s.reading = l.text
	m, wrong := parse(l)
	if wrong != "" {
		s.badInput(ctx, wrong, m.Command)
	}
	switch wrong {
	case tooLong, malformed, unknownSource, noMessageID:
		return nil
	case unreadable:
		return s.onTagless(ctx, m)
	}
	return s.dispatch(ctx, m)
}

func (s *session) dispatch(ctx context.Context, m ircmsg.Message) error {
	c, known := s.commands[m.Command]
	switch {
	case !known:
		return nil // a leaf does not need other commands, and must not drop a network because of them
	case m.Source != "" && !s.net.knows(m.Source):
		s.badInput(ctx, unknownSource, m.Command)
		return nil
	case len(m.Params) < c.params:
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	return c.run(s, ctx, m)
}

func (s *session) leave(ctx context.Context) error {
	s.link.live.Store(nil)
	s.Leave()
	s.put(":%s SQUIT %s :leaving", s.sid(), s.sid())
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for {
		s.flush()
		select {
		case <-s.Lines:
		case do := <-s.Calls:
			do()
		case err := <-s.Wrote:
			s.Written(err)
		case err := <-s.Broken:
			s.log.LogAttrs(ctx, slog.LevelDebug, "left the network", slog.Any("err", err))
			return context.Cause(ctx)
		case <-timeout.C:
			return context.Cause(ctx)
		}
	}
}

const (
	sidBytes  = 3 // of a server ID, as in "1AA"
	uuidBytes = 9 // of a user ID: its server's ID plus six
)

// Servers have no limit between each other. A whole tag section is 8 KiB, and no server sends a
// megabyte.
const maxLineBytes = 1 << 20

// A peer that reads nothing for this long counts as gone.
const writeTimeout = 30 * time.Second

// After a failed write, the peer's last lines may contain the reason.
const lastWords = time.Second

type line struct {
	text string
	err  error // nil or [irc.ErrLineTooLong]
}

// The reason is "" for a valid line. A line with unreadable tags is returned without them.
func parse(l line) (ircmsg.Message, reason) {
	if l.err != nil {
		return ircmsg.Message{}, tooLong
	}
	if l.text == "" {
		return ircmsg.Message{}, "" // no command
	}
	m, err := ircmsg.ParseLine(l.text)
	if err == nil {
		return m, ""
	}
	if errors.Is(err, ircmsg.ErrorInvalidTagContent) {
		_, rest, _ := strings.Cut(l.text, " ")
		if m, err = ircmsg.ParseLine(rest); err == nil {
			return m, unreadable
		}
	}
	return ircmsg.Message{}, malformed
}

// After a failure, the reader ends soon.
func (s *session) writePiece(piece []byte) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.conn.Write(piece)
	if err != nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(lastWords))
	}
	return err
}

// The caller sanitises the arguments of put: none contains a space or a line ending, except a last
// one after a colon.
func (s *session) put(format string, args ...any) {
	s.buffer = append(fmt.Appendf(s.buffer, format, args...), "\r\n"...)
}

// putMessage returns an error for a tag or parameter that fits no line.
func (s *session) putMessage(m ircmsg.Message) error {
	text, err := m.LineBytesStrict(false, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", m.Command, err)
	}
	s.buffer = append(s.buffer, text...)
	return nil
}

// flush writes a PING after the buffer, to prove its rows. It does nothing while the writer is
// busy.
func (s *session) flush() {
	if s.Writing() || len(s.buffer) == 0 {
		return
	}
	if len(s.unproven) > 0 {
		s.ping(s.unproven)
		s.unproven = nil
	}
	s.Send(s.buffer)
	s.buffer = nil
}

// Without rows, a PING proves only that the peer is alive. The protocol has no cookie: answers
// arrive in the order of the questions.
func (s *session) ping(rows []*outbound) {
	s.put(":%s PING %s", s.sid(), s.net.peer)
	s.pings = append(s.pings, rows)
}

func (s *session) lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("closed by the other server")
	}
	return fmt.Errorf("connection to %s lost: %w", s.link.cfg.ServerName, errors.Join(err, s.WriteErr()))
}

func (s *session) lastWord(text string) {
	s.put("%s", text)
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for s.flush(); s.Writing(); s.flush() {
		select {
		case err := <-s.Wrote:
			if err != nil {
				return
			}
			s.Written(nil)
		case <-timeout.C:
			return
		}
	}
}

package freeq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// meetTimeout bounds greetings and states together. A server waits at most two seconds for the
// capabilities of the other.
const meetTimeout = 15 * time.Second

// probeEvery is a peer's time of silence before a liveness probe. Each probe is a line in its
// operator's log. The timeout is [roundTrips.timeout], and answerTimeout until the link is up.
// Dropping a link too early may cause an outage of half a minute: for that time, the server keeps
// the old connection and refuses a new one.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
const (
	probeEvery    = time.Minute
	answerTimeout = 15 * time.Second
)

const watchEvery = 500 * time.Millisecond

// busyTimeout is the timeout for a response while the peer sends other messages, because its
// messages arrive in order.
const busyTimeout = time.Minute

// Above this number of queued messages, about fifteen seconds' worth, no more rows are accepted.
const maxWaiting = 1024

const inboundLines = 256

// The steps of one handoff are judged in order of arrival.
type judging = irc.Session[inboundLine, *inbound, federation.HandoffID]

type session struct {
	*judging

	link *Link
	conn stream
	log  *slog.Logger
	up   func()
	rows chan *outbound
	// agreed is constant once the session accepts rows.
	agreed map[string]string

	// Owned by the goroutine in run.
	theirs        *members
	announcer     irc.Announcer
	modes         map[string]*channelState // as reported by the peer
	made          map[string]bool
	missed        map[federation.DID]bool
	seen          irc.Recent
	queue         *queue
	tried         time.Time
	lastRead      time.Time
	greeted       bool
	greeting      *hello
	stated        bool
	linked        bool
	spare         *arrival // other connection until the peer has greeted on this one, or nil
	proofs        []*proof
	unanswered    bool       // a message without proof was written after the last probe
	cursor        int64      // position in the peer's log, by its clock; it never moves back
	asked         []question // in the order of the wire
	answers       []answer   // in the order of the requests
	catchup       *catchup
	rulings       []*pendingRuling
	written       irc.Recent // steps to rewrite only if the log lacks them
	earlyReceipts []*inbound
	processed     irc.Recent // judged steps, which a replay skips
	keyless       gap
	limited       gap
	events        *rate.Limiter // nil without a limit
}

// A peer repeats itself within seconds, and sends at most a hundred messages per second. The set is
// exact, not a high-water mark, because the IDs of a server sometimes step back.
//
// spec: freeq-s2s "event_id and dedup"
const maxSeen = 10_000

type inboundLine struct {
	message any // nil for an irrelevant one
	wrong   reason
	bytes   int
}

func newSession(l *Link, conn stream) *session {
	s := &session{
		link: l, conn: conn, log: l.log, rows: make(chan *outbound),
		theirs: newMembers(l.channels.There()), modes: map[string]*channelState{}, made: map[string]bool{}, missed: map[federation.DID]bool{}, seen: irc.Recent{Most: maxSeen}, processed: irc.Recent{Most: maxSeen}, written: irc.Recent{Most: maxSeen}, queue: newQueue(l.id, time.Now()),
	}
	wire := irc.Wire[inboundLine]{Conn: conn, MaxLineBytes: maxLineBytes, Decode: l.decodeLine, Write: func(piece []byte) error {
		_, err := conn.Write(piece)
		return err
	}}
	s.judging = irc.NewSession(l.log, wire, inboundLines, irc.NewLanes(maxSteps, func(in *inbound) federation.HandoffID { return in.ev.Handoff }))
	s.announcer = irc.NewAnnouncer(l.cfg.Name, l.deps.Presence, s.Running.Go)
	return s
}

// The reader calls decodeLine, because opening envelopes is most of the work.
func (l *Link) decodeLine(text []byte, err error) inboundLine {
	if err != nil {
		return inboundLine{wrong: tooLong}
	}
	read := inboundLine{bytes: len(text)}
	read.message, read.wrong = open(text, l.peer)
	return read
}

func (s *session) run(ctx context.Context, up func()) error {
	s.up = up
	s.Judge = func(in *inbound) func() { return s.process(ctx, in) }
	s.Start()
	s.greet()
	err := s.Run(ctx, s.serve, func() {
		s.link.live.Store(nil)
		s.link.SignalDisconnect()
	})
	s.link.roster.LeaveChannels()
	s.settleSpare(ctx)
	if s.linked {
		s.link.readUntil = s.missedSince(time.Now())
	}
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("link to %s: %w", s.link.cfg.ServerName, err)
}

func (s *session) serve(ctx context.Context) error {
	meet := time.NewTimer(meetTimeout)
	defer meet.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		wait, err := s.flush(ctx)
		if err != nil {
			return err
		}
		s.JudgeAll()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l := <-s.Lines:
			s.lastRead = time.Now()
			s.link.Hear(s.lastRead)
			if err := s.handleLine(ctx, l); err != nil {
				return err
			}
		case err := <-s.Broken:
			return s.lost(err)
		case a := <-s.link.reach.arrivals:
			if err := s.rival(ctx, a); err != nil {
				return err
			}
		case err := <-s.Wrote:
			s.Written(err)
		case <-wait:
		case r := <-s.acceptedRows():
			s.deliver(r)
		case do := <-s.Calls:
			do()
		case <-meet.C:
			if !s.stated {
				return errors.New("no greeting and state within " + meetTimeout.String())
			}
		case now := <-tick.C:
			if err := s.watch(now); err != nil {
				return err
			}
		}
	}
}

// acceptedRows returns nil before the link is up and while too many messages are queued.
func (s *session) acceptedRows() <-chan *outbound {
	if !s.linked || s.queue.size() > maxWaiting {
		return nil
	}
	return s.rows
}

// The channel fires when the next message may be written; it is nil if another event triggers that.
func (s *session) flush(ctx context.Context) (<-chan time.Time, error) {
	if s.Writing() {
		return nil, nil
	}
	now := time.Now()
	o, wait, ok := s.queue.next(now)
	if !ok {
		if look := s.prove(now); look > 0 && (wait <= 0 || look < wait) {
			wait = look
		}
		if o, _, ok = s.queue.next(now); !ok { // else it is the question
			return after(wait), nil
		}
	}
	s.aim(o.message)
	line, err := s.pack(ctx, o.message)
	if err != nil {
		return nil, err
	}
	if _, asks := o.message.(*catchupRequest); asks {
		s.wroteQuestion(now)
	}
	if o.proof != nil {
		s.wrote(o.proof, now)
	}
	s.Send(append(line, '\n'))
	return nil, nil
}

func after(wait time.Duration) <-chan time.Time {
	if wait <= 0 {
		return nil
	}
	return time.After(wait)
}

// A greeting has no envelope.
func (s *session) pack(ctx context.Context, m any) ([]byte, error) {
	switch m.(type) {
	case *hello, *helloAck:
		return encode(m)
	}
	return signEnvelope(ctx, s.link.deps.Endpoint, m)
}

func (s *session) put(p priority, m any) { s.queue.add(p, outgoing{message: m}) }

// The transport's error may add a reason to io.EOF.
func (s *session) lost(err error) error {
	if errors.Is(err, io.EOF) {
		why := "closed by the other server"
		if !s.greeted {
			why += " without an error: it does not accept this endpoint id, or already has a link with it"
		}
		if more, known := strings.CutPrefix(err.Error(), io.EOF.Error()+": "); known {
			why += " (" + more + ")"
		}
		err = errors.New(why)
	}
	return fmt.Errorf("connection lost: %w", errors.Join(err, s.WriteErr()))
}

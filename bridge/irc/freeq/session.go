package freeq

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"baton/bridge/irc"
)

// meetTimeout bounds greetings and states together. A server greets at once, and
// waits two seconds at most for what the other one can do.
const meetTimeout = 15 * time.Second

// probeEvery is how often a silent link is asked whether it lives, and answerTimeout
// how long an answer may take: a server that is not stuck needs a fraction of a
// second.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
const (
	probeEvery    = 15 * time.Second
	answerTimeout = 5 * time.Second
)

// busyTimeout is how long an answer may take from a peer that says other things
// meanwhile: what it says comes in order.
const busyTimeout = time.Minute

// maxWaiting is how many messages may wait to be written before no more rows are
// taken: some fifteen seconds' worth.
const maxWaiting = 1024

// inboundLines is how many lines that were read wait for the owner, who never takes
// long.
const inboundLines = 256

// session is one connection to the peer.
type session struct {
	link *Link
	conn stream
	log  *slog.Logger
	up   func() // called once rows may be taken

	// submitting outlives the connection by a little, so that what was read is judged.
	submitting context.Context
	// asking ends with the connection, and with it the waits for keys.
	asking context.Context
	slots  irc.Slots // of what is judged
	// agreed is for operators, and never changes once the session takes rows.
	agreed map[string]string

	// Owned by the goroutine in run.
	theirs   *members
	modes    map[string]*channelState // of our channels, as the peer told them
	seen     *seen
	queue    *queue
	writing  bool // the writer has a line
	writeErr error
	probed   time.Time // when an idle link was asked last
	heard    time.Time // when the last line was read
	greeted  bool      // their hello came
	greeting *hello    // which that is
	stated   bool      // their sync_response came
	linked   bool      // rows are taken
	spare    *arrival  // another connection, until somebody has greeted on this one; or nil
	unproven []*row
	asked    []question // that the peer has not answered yet, in the order of the wire
	answers  []answer   // that we owe the peer, in the order of its questions
	lanes    *lanes
	catchup  *catchup      // running, or nil
	guests   []*petition   // under way
	parked   []*inbound    // receipts of steps that have not come yet
	keyless  time.Time     // since when steps could not be judged for want of a key; zero for none
	keyWait  time.Duration // before those are asked for again
	keysDue  time.Time     // when they are
	behind   time.Time     // since when steps were let go for want of room; zero for none
	events   *rate.Limiter // steps of the whole link; nil without a limit

	// Between the goroutines.
	running sync.WaitGroup
	inbound chan inboundLine
	broken  chan error // the reader's end
	pieces  chan []byte
	wrote   chan error
	rows    chan *row
	judged  chan judged
	todo    chan func() // what judges have the owner do
	asks    chan ask
	words   chan word
	// What waits for the server's ruling, and whose fate was asked for.
	waiting    chan []*petition
	inquired   chan *petition
	remembered chan *catchupEvents // the answer to the oldest question, from the record
	// The rest of a second of which the log shows no more.
	recollected chan []replayed
	over        chan struct{} // closed at the end
}

// inboundLine is what the reader made of one line.
type inboundLine struct {
	message any // nil for one that nothing here is for
	wrong   reason
	bytes   int
}

func newSession(l *Link, conn stream) *session {
	return &session{
		link: l, conn: conn, log: l.log, slots: irc.NewSlots(irc.LinkSlots),
		theirs: newMembers(l.channels.There()), modes: map[string]*channelState{}, seen: newSeen(), queue: newQueue(l.id, time.Now()),
		inbound: make(chan inboundLine, inboundLines), broken: make(chan error, 1),
		pieces: make(chan []byte, 1), wrote: make(chan error, 1),
		rows: make(chan *row), lanes: newLanes(), judged: make(chan judged), todo: make(chan func()), asks: make(chan ask), words: make(chan word),
		waiting: make(chan []*petition), inquired: make(chan *petition), remembered: make(chan *catchupEvents),
		recollected: make(chan []replayed), over: make(chan struct{}),
	}
}

// run serves a connection, and returns why it ended, after all that it started has
// ended too.
func (s *session) run(ctx context.Context, up func()) error {
	s.up = up
	asking, cancelAsking := context.WithCancel(ctx)
	defer cancelAsking()
	submitting, cancel := irc.Outlive(asking)
	defer cancel()
	s.asking, s.submitting = asking, submitting
	s.running.Go(s.read)
	s.running.Go(s.write)
	s.greet()
	err := s.serve(ctx)
	s.link.live.Store(nil)
	close(s.over)
	cancelAsking()
	_ = s.conn.Close() // the peer forgets us at once, and takes the next connection
	s.link.Lose()
	s.settle()
	s.running.Wait()
	s.link.roster.leave()
	s.settleSpare(ctx)
	if s.linked {
		s.link.heard = time.Now().Add(-clockMargin)
	}
	if err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("link to %s: %w", s.link.cfg.ServerName, err)
}

// serve is the owner's loop, from the greeting to the end.
func (s *session) serve(ctx context.Context) error {
	meet := time.NewTimer(meetTimeout)
	defer meet.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		wait, err := s.flush(ctx)
		if err != nil {
			return err
		}
		s.judgeAll()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l := <-s.inbound:
			s.heard = time.Now()
			s.link.Hear(s.heard)
			if err := s.take(ctx, l); err != nil {
				return err
			}
		case err := <-s.broken:
			return s.lost(err)
		case a := <-s.link.reach.arrivals:
			if err := s.rival(ctx, a); err != nil {
				return err
			}
		case err := <-s.wrote:
			s.writing, s.writeErr = false, err
		case <-wait:
		case r := <-s.takeRows():
			s.deliver(r)
		case j := <-s.judged:
			s.note(ctx, j)
		case do := <-s.todo:
			do()
		case a := <-s.asks:
			a.answer <- s.theirs.online(a.did)
		case w := <-s.words:
			s.tell(w)
		case waiting := <-s.waiting:
			s.weigh(waiting, time.Now())
		case p := <-s.inquired:
			p.asking = false
		case m := <-s.remembered:
			s.answerOldest(m)
			s.answerNext()
		case rows := <-s.recollected:
			s.onRecollected(ctx, rows)
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

// takeRows returns the channel of rows, or none before the link is up and while too
// much waits to be written.
func (s *session) takeRows() <-chan *row {
	if !s.linked || s.queue.size() > maxWaiting {
		return nil
	}
	return s.rows
}

// flush gives the writer the next message, unless it is busy. The channel says when
// the next one may be written, nil where something else will tell.
func (s *session) flush(ctx context.Context) (<-chan time.Time, error) {
	if s.writing {
		return nil, nil
	}
	s.prove()
	o, wait, ok := s.queue.next(time.Now())
	if !ok {
		if wait > 0 {
			return time.After(wait), nil
		}
		return nil, nil
	}
	line, err := s.pack(ctx, o.message)
	if err != nil {
		return nil, err
	}
	if _, asks := o.message.(*catchupRequest); asks {
		s.asked[s.firstUnwritten()].written = time.Now()
	}
	if o.row != nil {
		s.unproven = append(s.unproven, o.row)
	}
	s.pieces <- append(line, '\n') // has room for one, and the writer has taken the last
	s.writing = true
	return nil, nil
}

// pack writes a message as a line: a greeting as it is, all else in an envelope.
func (s *session) pack(ctx context.Context, m any) ([]byte, error) {
	switch m.(type) {
	case *hello, *helloAck:
		return encode(m)
	}
	return seal(ctx, s.link.deps.Endpoint, m)
}

// put adds a message to what is to be written.
func (s *session) put(p priority, m any) { s.queue.add(p, outgoing{message: m}) }

// read carries lines from the connection to the owner until either is over. It opens
// the envelopes, which is most of the work.
func (s *session) read() {
	r := bufio.NewReaderSize(s.conn, readBufferBytes)
	for {
		text, err := irc.ReadLine(r, maxLineBytes)
		if err != nil && !errors.Is(err, irc.ErrLineTooLong) {
			s.broken <- err
			return
		}
		l := inboundLine{bytes: len(text), wrong: tooLong}
		if err == nil {
			l.message, l.wrong = open(text, s.link.peer)
		}
		select {
		case s.inbound <- l:
		case <-s.over:
			return
		}
	}
}

// write carries lines from the owner to the connection until either is over.
func (s *session) write() {
	for {
		select {
		case piece := <-s.pieces:
			_, err := s.conn.Write(piece)
			s.wrote <- err
			if err != nil {
				return
			}
		case <-s.over:
			return
		}
	}
}

// lost describes the end of a connection. A transport may know more of it than that
// nothing more came.
func (s *session) lost(err error) error {
	if errors.Is(err, io.EOF) {
		why := "closed by the other server"
		if !s.greeted {
			why += " without a word: it has no place for this endpoint id, or holds a link with it already"
		}
		if more, known := strings.CutPrefix(err.Error(), io.EOF.Error()+": "); known {
			why += " (" + more + ")"
		}
		err = errors.New(why)
	}
	return fmt.Errorf("connection lost: %w", errors.Join(err, s.writeErr))
}

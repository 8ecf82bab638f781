package irc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

const readBufferBytes = 64 << 10

// Wire reads and writes one connection in a dialect.
type Wire[Line any] struct {
	Conn         io.ReadWriteCloser
	MaxLineBytes int // per inbound line
	// Decode turns a line into input for the owner. Its error is nil or [ErrLineTooLong]. It runs in
	// the reader goroutine.
	Decode func(text []byte, err error) Line
	// Write writes one piece to Conn. It runs in the writer goroutine.
	Write func(piece []byte) error
}

// Session is one connection to another server. Its owner is the goroutine in [Session.Run]. A
// dialect embeds it, and receives from Lines, Broken, Wrote and Calls in its loop.
//
// Any goroutine may call [Session.Post], and Judge may call [Session.Do], [Session.Submit] and
// [Session.Execute]. Only the owner may use the rest.
type Session[Line any, Step, Lane comparable] struct {
	Lines  chan Line
	Broken chan error
	Wrote  chan error
	Calls  chan func()
	// Over is closed with the connection.
	Over chan struct{}
	// Steps are the peer's steps waiting or being judged.
	Steps *Lanes[Step, Lane]
	// Judge judges a step in its own goroutine. The owner calls the returned function to handle the
	// result. The dialect sets Judge before Run.
	Judge func(step Step) (note func())
	// Running contains the goroutines of the session. A panic in one of them ends the session with
	// an error.
	Running fault.Group
	// Asking is the context of key lookups and ends with the connection. Submitting ends a little
	// later, so that steps already read are judged.
	Asking, Submitting context.Context

	wire     Wire[Line]
	log      *slog.Logger
	pieces   chan []byte
	writing  bool
	writeErr error
	leaving  bool
}

// NewSession returns a session that reads at most ahead lines in advance. It starts no goroutine.
func NewSession[Line any, Step, Lane comparable](log *slog.Logger, wire Wire[Line], ahead int, steps *Lanes[Step, Lane]) *Session[Line, Step, Lane] {
	s := &Session[Line, Step, Lane]{
		Lines: make(chan Line, ahead), Broken: make(chan error, 1), Wrote: make(chan error, 1), Calls: make(chan func()), Over: make(chan struct{}),
		Steps: steps, wire: wire, log: log, pieces: make(chan []byte, 1),
	}
	s.Running.Caught = s.fail
	return s
}

func (s *Session[Line, Step, Lane]) fail(err error) {
	select {
	case s.Broken <- err:
	default:
	}
}

// Start starts the reader and the writer.
func (s *Session[Line, Step, Lane]) Start() {
	s.Running.Go(s.read)
	s.Running.Go(s.write)
}

// Run calls serve, the loop of the owner, and then closes the connection. It then calls lost and
// judges the steps already read, without notes. It returns the error of serve after all goroutines
// of the session have ended. A step without its key is deferred in the record.
func (s *Session[Line, Step, Lane]) Run(ctx context.Context, serve func(ctx context.Context) error, lost func()) error {
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	submitting, stopSubmitting := WithGrace(asking)
	defer stopSubmitting()
	s.Asking, s.Submitting = asking, submitting
	err := fault.Catch(func() error { return serve(ctx) })
	s.Leave()
	s.hangUp()
	stopAsking()
	err = cmp.Or(err, fault.Catch(func() error { lost(); return nil }))
	for !s.Steps.Empty() {
		s.JudgeAll()
		err = cmp.Or(err, fault.Catch(func() error { (<-s.Calls)(); return nil }))
	}
	s.Running.Wait()
	return err
}

// End closes a connection without a call of Run, and waits for the goroutines of the session.
func (s *Session[Line, Step, Lane]) End() {
	s.hangUp()
	s.Running.Wait()
}

// The peer can then open the next connection.
func (s *Session[Line, Step, Lane]) hangUp() {
	close(s.Over)
	_ = s.wire.Conn.Close()
}

// Leave stops notes and posts, before the last messages to the peer.
func (s *Session[Line, Step, Lane]) Leave() { s.leaving = true }

// JudgeAll starts judging the front step of each idle lane.
func (s *Session[Line, Step, Lane]) JudgeAll() {
	for step, ok := s.Steps.Next(); ok; step, ok = s.Steps.Next() {
		s.Running.Go(func() {
			note := func() {}
			err := fault.Catch(func() error { note = s.Judge(step); return nil })
			s.Calls <- func() {
				s.Steps.Finish(step)
				if !s.leaving {
					note()
				}
			}
			fault.Again(err)
		})
	}
}

// Submit calls [SubmitWithRetry]. It judges a step already read even if the owner ends.
func (s *Session[Line, Step, Lane]) Submit(ev federation.Event, once func(ctx context.Context) (federation.Judgement, error)) (federation.Judgement, error) {
	return SubmitWithRetry(s.Submitting, s.log, ev, once)
}

// Execute runs a command and returns the reply.
func (s *Session[Line, Step, Lane]) Execute(o ChatOps, c Command) (reply []string) {
	return o.Run(s.Submitting, c, time.Now())
}

// RetryTexts retries the pending messages of a link to a DID, or all of them for "". It does not block.
func (s *Session[Line, Step, Lane]) RetryTexts(messages bridge.Messages, link string, did federation.DID) {
	if messages == nil {
		return
	}
	s.Running.Go(func() {
		_ = messages.Back(s.Asking, link, did) // on error, a timer retries them
	})
}

// Do makes the owner call a function, and blocks until it returns.
func (s *Session[Line, Step, Lane]) Do(do func()) {
	done := make(chan struct{})
	s.Calls <- func() { defer close(done); do() } // the owner receives calls until the last step is processed
	<-done
}

// Post makes the owner call a function. It returns false after [Session.Leave] or the end of ctx.
func (s *Session[Line, Step, Lane]) Post(ctx context.Context, do func()) bool {
	done := make(chan bool, 1)
	call := func() {
		called := false
		defer func() { done <- called }()
		if !s.leaving {
			do()
			called = true
		}
	}
	select {
	case s.Calls <- call:
		return <-done
	case <-s.Over:
	case <-ctx.Done():
	}
	return false
}

// Writing reports whether the writer is busy.
func (s *Session[Line, Step, Lane]) Writing() bool { return s.writing }

// Send passes a piece to the writer, which must not be busy.
func (s *Session[Line, Step, Lane]) Send(piece []byte) {
	s.pieces <- piece
	s.writing = true
}

// Written records the result of a write.
func (s *Session[Line, Step, Lane]) Written(err error) { s.writing, s.writeErr = false, err }

// WriteErr returns the error of the last write.
func (s *Session[Line, Step, Lane]) WriteErr() error { return s.writeErr }

func (s *Session[Line, Step, Lane]) read() {
	r := bufio.NewReaderSize(s.wire.Conn, readBufferBytes)
	for {
		text, err := ReadLine(r, s.wire.MaxLineBytes)
		if err != nil && !errors.Is(err, ErrLineTooLong) {
			s.Broken <- err
			return
		}
		select {
		case s.Lines <- s.wire.Decode(text, err):
		case <-s.Over:
			return
		}
	}
}

func (s *Session[Line, Step, Lane]) write() {
	for {
		select {
		case piece := <-s.pieces:
			err := s.wire.Write(piece)
			s.Wrote <- err
			if err != nil {
				return
			}
		case <-s.Over:
			return
		}
	}
}

// Lanes contains the steps of a link, in order of arrival. Steps of one lane are judged
// sequentially, and lanes concurrently, so a slow key lookup delays only its lane. One goroutine
// owns Lanes.
type Lanes[S, Lane comparable] struct {
	of    func(S) Lane
	most  int
	steps []laned[S]
}

type laned[S comparable] struct {
	step    S
	judging bool
}

// NewLanes returns lanes with a capacity of most steps. The lane of a step must not change until Finish.
func NewLanes[S, Lane comparable](most int, of func(S) Lane) *Lanes[S, Lane] {
	return &Lanes[S, Lane]{of: of, most: most}
}

// Full reports whether the capacity is reached. Add still accepts a step that has already been read.
func (l *Lanes[S, Lane]) Full() bool { return len(l.steps) >= l.most }

// Empty reports whether no step is waiting or being judged.
func (l *Lanes[S, Lane]) Empty() bool { return len(l.steps) == 0 }

// All returns the steps in order of arrival.
func (l *Lanes[S, Lane]) All() iter.Seq[S] {
	return func(yield func(S) bool) {
		for _, each := range l.steps {
			if !yield(each.step) {
				return
			}
		}
	}
}

// Add appends a step to its lane.
func (l *Lanes[S, Lane]) Add(step S) { l.steps = append(l.steps, laned[S]{step: step}) }

// Next returns the next step to judge and marks its lane as busy. It returns false if every lane is
// busy or empty.
func (l *Lanes[S, Lane]) Next() (step S, ok bool) {
	busy := map[Lane]bool{}
	for i, each := range l.steps {
		lane := l.of(each.step)
		if !each.judging && !busy[lane] {
			l.steps[i].judging = true
			return each.step, true
		}
		busy[lane] = true
	}
	return step, false
}

// Finish removes a judged step.
func (l *Lanes[S, Lane]) Finish(step S) {
	l.steps = slices.DeleteFunc(l.steps, func(each laned[S]) bool { return each.step == step })
}

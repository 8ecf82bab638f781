package macp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

const (
	maxBatch     = 128     // calls committed in one transaction
	maxWeight    = 1 << 18 // of the sessions in memory, see [macpmode.Session.Weight]
	subscription = 256     // queued envelopes per reader of a stream
	pageEntries  = 64      // an entry may have 1 MiB
)

// The goroutine of run owns the sessions. It judges all calls in order, and writes the entries of
// all waiting calls in one transaction.
type engine struct {
	deps     Deps
	log      *slog.Logger
	calls    chan *call
	ended    chan struct{}
	sessions map[string]*live
	weight   int
	watchers *watchers
	policies *policies
	wake     func(session string) // the session has steps to file
}

type live struct {
	*macpmode.Session

	streams map[*stream]bool
}

type call struct {
	session string // "" for none
	do      func(ctx context.Context, t *turn) error
	err     error
	done    chan struct{}
}

type turn struct {
	engine  *engine
	now     time.Time
	session *live // nil for a call without a session
	batch   *batch
}

type batch struct {
	touched  []*live
	writes   map[*live]*federation.JournalWrite
	more     []federation.JournalWrite
	removed  []string
	events   []func() // sent after the transaction
	policies uint64
	claimed  []string
	later    map[*live]time.Time
	gone     []*live
}

func newEngine(deps Deps, log *slog.Logger) *engine {
	return &engine{
		deps: deps, log: log, calls: make(chan *call), ended: make(chan struct{}), sessions: map[string]*live{},
		watchers: newWatchers(), wake: func(string) {},
	}
}

var errEnded = errors.New("the runtime has stopped")

func unavailable(err error) error {
	return &federation.UnavailableError{What: "the runtime", Err: err}
}

// on returns once the writes of a call are on disk. It blocks on the record. Its error is the error
// of do, or wraps [*federation.UnavailableError].
func (e *engine) on(ctx context.Context, session string, do func(ctx context.Context, t *turn) error) error {
	c := &call{session: session, do: do, done: make(chan struct{})}
	select {
	case e.calls <- c:
	case <-e.ended:
		return unavailable(errEnded)
	case <-ctx.Done():
		return ctx.Err()
	}
	<-c.done // the engine answers each accepted call
	return c.err
}

func (e *engine) run(ctx context.Context) error {
	defer close(e.ended)
	var err error
	if e.policies, err = readPolicies(ctx, e.deps.Journals); err != nil {
		return err
	}
	for {
		select {
		case first := <-e.calls:
			e.commit(ctx, e.gather(first))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// gather does not block.
func (e *engine) gather(first *call) []*call {
	all := []*call{first}
	for len(all) < maxBatch {
		select {
		case c := <-e.calls:
			all = append(all, c)
		default:
			return all
		}
	}
	return all
}

func (e *engine) commit(ctx context.Context, calls []*call) {
	b := &batch{writes: map[*live]*federation.JournalWrite{}, later: map[*live]time.Time{}}
	now := time.Now()
	for _, c := range calls {
		c.err = unavailable(errEnded) // until it is processed
		defer close(c.done)           // even after a panic, which ends the engine
	}
	for _, c := range calls {
		c.err = e.process(ctx, c, b, now)
	}
	if err := e.write(ctx, b); err != nil {
		e.log.LogAttrs(ctx, slog.LevelError, "sessions not written", slog.Any("err", err))
		e.undo(b)
		for _, c := range calls {
			c.err = unavailable(err)
		}
	} else {
		for _, tell := range b.events {
			tell()
		}
		for _, s := range b.gone {
			e.forget(s)
		}
	}
	e.trim(b)
}

func (e *engine) process(ctx context.Context, c *call, b *batch, now time.Time) error {
	t := &turn{engine: e, now: now, batch: b}
	if c.session != "" {
		var err error
		if t.session, err = e.load(ctx, c.session); err != nil {
			return unavailable(err)
		}
		if err := t.tick(); err != nil {
			return err
		}
	}
	err := c.do(ctx, t)
	if s := t.session; s != nil && !s.Exists() {
		e.weight -= s.Weight()
		delete(e.sessions, c.session)
	}
	return err
}

func (e *engine) load(ctx context.Context, id string) (*live, error) {
	if s := e.sessions[id]; s != nil {
		return s, nil
	}
	s := &live{Session: &macpmode.Session{}, streams: map[*stream]bool{}}
	for {
		page, err := e.deps.Journals.Journal(ctx, sessionJournal(id), s.Length, pageEntries)
		if err != nil {
			return nil, err
		}
		for _, text := range page {
			var entry historyv1.Entry
			if err = proto.Unmarshal(text, &entry); err == nil {
				err = s.Apply(&entry)
			}
			if err != nil {
				return nil, fmt.Errorf("read session %s: %w", id, err)
			}
		}
		if len(page) < pageEntries {
			break
		}
	}
	e.sessions[id] = s
	e.weight += s.Weight()
	return s, nil
}

func (t *turn) tick() error {
	for {
		entry, err := t.session.Due(t.now.UnixMilli())
		if err != nil || entry == nil {
			return err
		}
		if err := t.accept(entry); err != nil {
			return err
		}
	}
}

// The batch writes the entry.
func (t *turn) accept(entry *historyv1.Entry) error {
	text, err := proto.Marshal(entry)
	if err != nil {
		return err
	}
	s, before := t.session, t.session.State
	w := t.pending()
	weight := s.Weight()
	if err := s.Apply(entry); err != nil {
		return err
	}
	t.engine.weight += s.Weight() - weight
	w.Entries = append(w.Entries, text)
	t.publish(entry, before)
	return nil
}

func (t *turn) pending() *federation.JournalWrite {
	w := t.batch.writes[t.session]
	if w == nil {
		w = &federation.JournalWrite{Length: t.session.Length}
		t.batch.writes[t.session] = w
		t.batch.touched = append(t.batch.touched, t.session)
	}
	return w
}

func (t *turn) publish(entry *historyv1.Entry, before macpv1.SessionState) {
	e, s := t.engine, t.session
	if entry.GetSource() == historyv1.Source_SOURCE_NOTE {
		return
	}
	env, err := macpmode.EnvelopeOf(entry)
	if err != nil {
		return // cannot fail: Apply has read the same bytes
	}
	sequence, changed, meta := s.Sequence, s.State != before, s.Metadata()
	names := append([]string{s.Initiator}, s.Start.GetParticipants()...)
	id := s.ID
	_, waits := s.Pending()
	t.batch.events = append(t.batch.events, func() {
		switch entry.GetSource() {
		case historyv1.Source_SOURCE_PARTICIPANT:
			for each := range s.streams {
				each.send(env, sequence)
			}
		case historyv1.Source_SOURCE_SIGNAL:
			e.watchers.signal(names, env)
		case historyv1.Source_SOURCE_RUNTIME, historyv1.Source_SOURCE_NOTE, historyv1.Source_SOURCE_UNSPECIFIED:
		}
		if changed {
			e.watchers.session(names, lifecycle(env, meta), entry.GetAtUnixMs())
			if s.Over() {
				for each := range s.streams {
					each.over(s.State)
				}
			}
		}
		if waits {
			e.wake(id)
		}
	})
}

func (e *engine) write(ctx context.Context, b *batch) error {
	writes := b.more
	for _, s := range b.touched {
		w := b.writes[s]
		w.Name, w.Due = sessionJournal(s.ID), e.dueOf(s)
		if later, ok := b.later[s]; ok {
			w.Due = later
		}
		writes = append(writes, *w)
	}
	if len(writes) > 0 {
		if err := e.deps.Journals.WriteJournals(ctx, writes); err != nil {
			return err
		}
	}
	if len(b.removed) == 0 {
		return nil
	}
	return e.deps.Journals.RemoveJournals(ctx, b.removed)
}

func (e *engine) dueOf(s *live) time.Time {
	due := s.NextDue()
	if s.Over() {
		if kept := e.deps.Bounds().Finished; kept > 0 {
			due = s.Ended + kept.Milliseconds()
		}
	}
	if at, waits := s.Pending(); waits && (due == 0 || at < due) {
		due = at
	}
	if due == 0 {
		return time.Time{}
	}
	return time.UnixMilli(due)
}

func (e *engine) undo(b *batch) {
	for _, s := range b.touched {
		e.forget(s)
	}
}

// The streams of the session end, and its readers subscribe again.
func (e *engine) forget(s *live) {
	if e.sessions[s.ID] != s {
		return
	}
	for each := range s.streams {
		each.lost()
	}
	e.weight -= s.Weight()
	delete(e.sessions, s.ID)
}

func (e *engine) trim(b *batch) {
	for _, s := range e.sessions {
		if e.weight <= maxWeight {
			return
		}
		if b.writes[s] == nil && len(s.streams) == 0 {
			e.forget(s)
		}
	}
}

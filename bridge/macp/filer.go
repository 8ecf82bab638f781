package macp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
)

const (
	sweepEach  = 250 * time.Millisecond
	sweepLimit = 256
	filers     = 8
	retryAfter = 2 * time.Second
	freshStep  = time.Minute // how long a step keeps the ID of its entry, which contains the entry's time
)

// filer files the entries of each session in order. Pending work is derived from the histories, so
// it survives a restart.
type filer struct {
	link  *Link
	mu    sync.Mutex
	ready map[string]bool
	woken chan struct{}
}

func newFiler(l *Link) *filer {
	return &filer{link: l, ready: map[string]bool{}, woken: make(chan struct{}, 1)}
}

func (f *filer) wake(session string) {
	f.mu.Lock()
	f.ready[session] = true
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

func (f *filer) drain() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for session := range f.ready {
		all = append(all, session)
		delete(f.ready, session)
	}
	return all
}

func (f *filer) run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEach)
	defer sweep.Stop()
	for {
		select {
		case <-f.woken:
		case <-sweep.C:
			f.sweep(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var group errgroup.Group
		group.SetLimit(filers)
		for _, session := range f.drain() {
			group.Go(fault.Func(func() error {
				f.look(ctx, session) // look logs its error
				return nil
			}))
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
}

func (f *filer) sweep(ctx context.Context) {
	due, err := f.link.deps.Journals.DueJournals(ctx, sessionPrefix, time.Now(), sweepLimit)
	if err != nil {
		if ctx.Err() == nil {
			f.link.log.LogAttrs(ctx, slog.LevelError, "due sessions not read", slog.Any("err", err))
		}
		return
	}
	for _, name := range due {
		f.wake(name[len(sessionPrefix):])
	}
}

func (f *filer) look(ctx context.Context, session string) {
	err := f.file(ctx, session)
	if err == nil || ctx.Err() != nil {
		return
	}
	f.link.log.LogAttrs(ctx, slog.LevelWarn, "session not filed", slog.String("session", session), slog.Any("err", err))
	err = f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if t.session.Exists() {
			t.pending()
			t.batch.later[t.session] = t.now.Add(retryAfter)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		f.link.log.LogAttrs(ctx, slog.LevelError, "session not checked", slog.String("session", session), slog.Any("err", err))
	}
}

type snapshot struct {
	filed, length uint64
	waits         bool
	at            int64
	ended         int64 // 0 for an open session
	handoffs      []string
}

func (f *filer) file(ctx context.Context, session string) error {
	var s snapshot
	err := f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if !t.session.Exists() {
			return nil
		}
		s = snapshot{filed: t.session.Filed, length: t.session.Length, ended: t.session.Ended}
		s.at, s.waits = t.session.Pending()
		for _, offer := range t.session.Offers {
			if offer.Handoff != "" {
				s.handoffs = append(s.handoffs, offer.Handoff)
			}
		}
		return nil
	})
	if err == nil && s.ended != 0 && !s.waits {
		return f.retire(ctx, session, s)
	}
	if err != nil || !s.waits || s.at > time.Now().UnixMilli() {
		return err
	}
	for s.filed < s.length {
		page, err := f.link.deps.Journals.Journal(ctx, sessionJournal(session), s.filed, pageEntries)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, text := range page {
			s.filed++
			if err := f.entry(ctx, session, s, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *filer) entry(ctx context.Context, session string, s snapshot, text []byte) error {
	step, files, err := readWireEntry(session, s.filed, text)
	if err != nil || !files {
		return err
	}
	switch step.env.GetMessageType() {
	case macpmode.TypeOffer:
		err = f.link.fileOffer(ctx, step)
	case macpmode.TypeAccept, macpmode.TypeDecline:
		err = f.link.fileAnswer(ctx, step)
	case macpmode.TypeSessionCancel:
		err = f.link.fileCancel(ctx, step)
	case macpmode.TypeSessionExpire:
		err = f.link.reopen(ctx, step)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", s.filed, err)
	}
	return f.markFiled(ctx, session, s.filed)
}

func (f *filer) markFiled(ctx context.Context, session string, filed uint64) error {
	return f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if t.session.Filed >= filed {
			return nil
		}
		return t.accept(&historyv1.Entry{AtUnixMs: t.now.UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Filed: filed})
	})
}

func (f *filer) retire(ctx context.Context, session string, s snapshot) error {
	kept := f.link.deps.Bounds().Finished
	if kept <= 0 || time.Now().Before(time.UnixMilli(s.ended).Add(kept)) {
		return nil
	}
	for _, text := range s.handoffs {
		id, err := federation.ParseEventID(text)
		if err != nil {
			return err
		}
		view, err := f.link.ports.Gateway.View(ctx, id)
		if err != nil {
			return err
		}
		if view.Exists() && !view.Over {
			return f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
				t.pending()
				t.batch.later[t.session] = t.now.Add(time.Hour)
				return nil
			})
		}
	}
	return f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if !t.session.Over() {
			return nil
		}
		t.batch.removed = append(t.batch.removed, sessionJournal(session))
		for _, one := range f.link.participants.all {
			t.batch.removed = append(t.batch.removed, memberJournal(one.name, t.session.Started, session))
		}
		for _, text := range s.handoffs {
			t.batch.removed = append(t.batch.removed, handoffPrefix+text)
		}
		t.batch.gone = append(t.batch.gone, t.session)
		return nil
	})
}

// The journals of the runtime: the history of each session, an empty journal per participant's session,
// and the session of each handoff.
const (
	sessionPrefix = network + "/session/"
	memberPrefix  = network + "/of/"
	handoffPrefix = network + "/handoff/"
	policyJournal = network + "/policies"
)

func sessionJournal(id string) string { return sessionPrefix + id }

func handoffJournal(id federation.HandoffID) string { return handoffPrefix + id.String() }

func membersPrefix(name string) string {
	digest := sha256.Sum256([]byte(name))
	return memberPrefix + hex.EncodeToString(digest[:12]) + "/"
}

// Names sort in the order in which the sessions began.
func memberJournal(name string, started int64, session string) string {
	return fmt.Sprintf("%s%013d/%s", membersPrefix(name), started, session)
}

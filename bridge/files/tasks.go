package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/taskfile"
)

// Another program may still be writing an unreadable record for this long.
const writingTime = time.Second

// TasksLink is one ".handoffs" directory.
type TasksLink struct {
	*base

	cfg   TasksConfig
	dir   directory.Tasks
	found map[string]task // by file name; owned by the goroutine in Run
}

type task struct {
	stamp   directory.Stamp
	digest  [32]byte
	handoff federation.HandoffID // zero for a record without a handoff
	ours    bool
	// Handoff of a record claimed by another gateway; zero if unknown.
	elsewhere federation.HandoffID
	refused   [32]byte
	again     bool
}

// Run implements [bridge.Link]. It watches the directory until ctx ends or the directory is
// unavailable.
func (l *TasksLink) Run(ctx context.Context, up func()) error {
	l.found = map[string]task{}
	return l.serve(ctx, up, l.cfg.Dir, l)
}

func (l *TasksLink) prepare() ([]string, error) {
	return []string{l.cfg.Dir}, nil
}

func (l *TasksLink) scan(ctx context.Context) error {
	there := make(map[string]bool, len(l.found))
	claims := false
	err := directory.Each(l.cfg.Dir, func(name string, stamp directory.Stamp) error {
		if !directory.IsRecord(name) {
			claims = claims || directory.IsClaim(name)
			return nil
		}
		there[name] = true
		if was, known := l.found[name]; known && was.stamp == stamp && !was.again {
			return nil
		}
		return l.look(ctx, filepath.Join(l.cfg.Dir, name))
	})
	if err == nil && claims {
		err = l.dir.Recover(time.Now())
	}
	if err != nil {
		return l.broken(ctx, err)
	}
	for name := range l.found {
		if there[name] {
			continue
		}
		if err := l.look(ctx, filepath.Join(l.cfg.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *TasksLink) look(ctx context.Context, path string) error {
	name := filepath.Base(path)
	if !directory.IsRecord(name) {
		return nil
	}
	stamp, err := directory.Stat(path)
	was, known := l.found[name]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.gone(ctx, name)
	case err != nil:
		return broken(err)
	case known && was.stamp == stamp && !was.again:
		return nil
	}
	was.stamp, was.again = stamp, false
	l.found[name] = was
	item, err := l.dir.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the next scan decides
	}
	if errors.Is(err, taskfile.ErrUnreadable) && time.Since(time.Unix(0, stamp.Modified)) < writingTime {
		was.again = true // a program may be writing it
		l.found[name] = was
		return nil
	}
	if err != nil {
		l.refuse(ctx, name, sha256.Sum256(item.Raw), reasonOf(err), err)
		return nil
	}
	if err := l.process(ctx, name, item); err != nil {
		was = l.found[name]
		was.again = true
		l.found[name] = was
		return l.fault(ctx, path, err)
	}
	return nil
}

func reasonOf(err error) string {
	if odd, ok := errors.AsType[*directory.OddError](err); ok {
		return odd.Reason
	}
	return "record"
}

// refuse counts a rejected record once per content.
func (l *TasksLink) refuse(ctx context.Context, name string, digest [32]byte, reason string, err error) {
	seen := l.found[name]
	if seen.refused == digest && digest != [32]byte{} {
		return
	}
	seen.refused = digest
	l.found[name] = seen
	l.unread(ctx, name, reason, err)
}

func (l *TasksLink) process(ctx context.Context, name string, item directory.Task) error {
	digest := sha256.Sum256(item.Raw)
	seen := l.found[name]
	if seen.digest == digest && !seen.handoff.IsZero() {
		return nil // already written or judged by the link
	}
	fed := item.Fed()
	seen.elsewhere = federation.HandoffID{}
	if fed.Gateway != "" && fed.Gateway != string(l.ports.Home) {
		seen.handoff = federation.HandoffID{}
		seen.elsewhere, _ = federation.ParseEventID(fed.ID)
		l.found[name] = seen
		return nil
	}
	l.found[name] = seen
	view, s, ours, err := l.handoffOf(ctx, item.Record)
	if err != nil {
		return err
	}
	if !view.Exists() || view.State == federation.Failed && item.Status == taskfile.Offered {
		return l.offerRecord(ctx, name, item, view, s)
	}
	seen.handoff, seen.ours = view.ID, ours
	l.found[name] = seen
	if fed.Gateway == "" && item.Status == taskfile.Offered { // an agent rewrote the record without the note
		var mine bool
		if item, mine, err = l.claim(ctx, name, item, view.ID); err != nil || !mine {
			return err
		}
		digest = sha256.Sum256(item.Raw)
	}
	if err := l.report(ctx, name, item, view); err != nil {
		return err
	}
	seen = l.found[name]
	seen.digest = digest
	l.found[name] = seen
	if view.Over && view.State != federation.Failed && !ours {
		return l.release(ctx, s, time.Now())
	}
	return nil
}

// claim returns false if another program changed the record first, so at most one gateway claims a
// record.
func (l *TasksLink) claim(ctx context.Context, name string, item directory.Task, id federation.HandoffID) (directory.Task, bool, error) {
	if fed := item.Fed(); fed.Gateway == string(l.ports.Home) && fed.ID == id.String() {
		return item, true, nil
	}
	claimed, err := l.dir.Change(item.ID, l.claimant(), func(r taskfile.Record) (taskfile.Record, error) {
		if !bytes.Equal(r.Bytes(), item.Bytes()) {
			return r, &directory.RefusedError{Why: "another program changed the record"}
		}
		fed := r.Fed()
		fed.Version, fed.ID, fed.Gateway = 1, id.String(), string(l.ports.Home)
		return r.WithFed(fed)
	})
	_, busy := errors.AsType[*directory.RefusedError](err)
	_, gone := errors.AsType[*directory.NotFoundError](err)
	switch {
	case busy, gone, errors.Is(err, taskfile.ErrUnreadable):
		l.log.LogAttrs(ctx, slog.LevelDebug, "record not claimed", slog.String("file", name), slog.Any("err", err))
		return item, false, nil
	case err != nil:
		return item, false, broken(err)
	}
	seen := l.found[name]
	seen.digest = sha256.Sum256(claimed.Raw)
	l.found[name] = seen
	return claimed, true, nil
}

// The handoff comes from the note if this gateway wrote it, otherwise from the slot. The view is
// zero for a record without a handoff yet.
func (l *TasksLink) handoffOf(ctx context.Context, r taskfile.Record) (view federation.View, s slot, ours bool, err error) {
	if id, notULID := federation.ParseEventID(r.Fed().ID); notULID == nil {
		if view, err = l.view(ctx, id); err != nil {
			return view, s, false, err
		}
		root, err := l.rootOf(ctx, view)
		if err != nil {
			return view, s, false, err
		}
		if view.Exists() && taskfile.TaskID(l.name, root) == r.ID {
			return l.latest(ctx, r, view)
		}
	}
	if !slices.Contains(l.cfg.Trusted, r.From) {
		return federation.View{}, s, false, nil
	}
	if s, err = l.slotOf(ctx, r); err != nil {
		return federation.View{}, s, false, err
	}
	view, err = l.view(ctx, s.Event)
	return view, s, false, err
}

// If an agent of the directory has offered the failed task again, latest returns the new handoff.
func (l *TasksLink) latest(ctx context.Context, r taskfile.Record, view federation.View) (federation.View, slot, bool, error) {
	if view.State != federation.Failed || r.Status == taskfile.Failed {
		return view, slot{}, true, nil
	}
	s, err := l.slotOf(ctx, r)
	if err != nil {
		return view, s, true, err
	}
	next, err := l.view(ctx, s.Event)
	if err == nil && next.Exists() && next.Replaces == view.ID {
		return next, s, false, nil
	}
	return view, s, true, err
}

func taskKey(id string) string { return "task\x00" + id }

func (l *TasksLink) slotOf(ctx context.Context, r taskfile.Record) (slot, error) {
	if r.Status != taskfile.Offered {
		return l.glance(ctx, taskKey(r.ID))
	}
	return l.reserve(ctx, taskKey(r.ID), [32]byte{}, nil, time.Now().Add(kept))
}

// maxRevivals bounds a chain of handoffs that replace each other in one record.
const maxRevivals = 64

// rootOf returns the first of the handoffs that share a record. Each revives its failed
// predecessor.
func (l *TasksLink) rootOf(ctx context.Context, view federation.View) (federation.HandoffID, error) {
	for range maxRevivals {
		if view.Replaces.IsZero() {
			break
		}
		before, err := l.view(ctx, view.Replaces)
		if err != nil {
			return view.ID, err
		}
		if before.State != federation.Failed || before.Offeree != view.Offeree || before.Offerer != view.Offerer {
			break
		}
		view = before
	}
	return view.ID, nil
}

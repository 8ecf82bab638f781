package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

const (
	// Rescan interval of the whole directory. A notification may be lost, and some file systems send
	// none.
	rescanWait = 5 * time.Second
	// Quiet time before the link reads a notified file. A program that writes in place causes many
	// notifications.
	settleWait = 100 * time.Millisecond
	// Interval of checks for a missing directory.
	redialWait = 2 * time.Second
)

// Above this number of notified files, the link rescans the whole directory.
const maxChanged = 4096

type call struct {
	ctx  context.Context //nolint:containedctx // it belongs to this one call
	do   func(ctx context.Context) error
	done chan error
}

// While the link is down, the error is an [*federation.UnavailableError].
func (b *base) ask(ctx context.Context, do func(ctx context.Context) error) error {
	c := call{ctx, do, make(chan error, 1)}
	select {
	case b.calls <- c:
	case <-ctx.Done():
		return away(b.name, ctx.Err())
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return away(b.name, ctx.Err())
	}
}

// directoryError ends the session of the link, and appears in its status.
type directoryError struct{ err error }

func (e *directoryError) Error() string { return e.err.Error() }

func (e *directoryError) Unwrap() error { return e.err }

func broken(err error) error {
	if err == nil {
		return nil
	}
	return &directoryError{err}
}

func (*base) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return broken(err)
}

type tree interface {
	// prepare returns the folders to watch.
	prepare() ([]string, error)
	// scan returns errors of the directory and of ctx.
	scan(ctx context.Context) error
	// look returns the same errors as scan.
	look(ctx context.Context, path string) error
}

// Reconnected implements [bridge.ReconnectNotifier]. Checking the directory is cheap, so the link
// retries soon.
func (*base) Reconnected() <-chan struct{} {
	back := make(chan struct{}, 1)
	time.AfterFunc(redialWait, func() { back <- struct{}{} })
	return back
}

// Unpin implements [bridge.Pinned].
func (b *base) Unpin() { b.unpinned.Store(true) }

// An operator can allow a changed directory.
func (b *base) pin(root string) error {
	folder, err := directory.FolderAt(root)
	if err != nil {
		return err
	}
	if b.unpinned.Swap(false) || b.root == "" {
		b.root, b.folder = root, folder
	}
	return b.here()
}

// Files missing from a directory other than the pinned one would look deleted, and their offers
// would be cancelled.
func (b *base) here() error {
	folder, err := directory.FolderAt(b.root)
	if err != nil {
		return broken(err)
	}
	if !folder.Same(b.folder) {
		return broken(fmt.Errorf("%s was replaced by another folder: restore the earlier one, or run \"baton link dial %s\" to use this one", b.root, b.name))
	}
	return nil
}

type session struct {
	*base

	tree    tree
	folders map[string]directory.Folder
	watcher *fsnotify.Watcher
	changed map[string]bool
	settle  <-chan time.Time
}

func (b *base) serve(ctx context.Context, up func(), root string, t tree) error {
	defer b.unpinned.Store(false) // an operator allows a new directory while the link is down
	if err := b.pin(root); err != nil {
		return err
	}
	paths, err := t.prepare()
	if err != nil {
		return err
	}
	watcher, err := fsnotify.NewBufferedWatcher(maxChanged)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watcher.Close()
	s := &session{base: b, tree: t, folders: map[string]directory.Folder{}, watcher: watcher, changed: map[string]bool{}}
	for _, path := range paths {
		if s.folders[path], err = directory.FolderAt(path); err == nil {
			err = watcher.Add(path)
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
	if err := t.scan(ctx); err != nil {
		return err
	}
	up()
	return s.run(ctx)
}

func (s *session) run(ctx context.Context) error {
	rescan := time.NewTicker(rescanWait)
	defer rescan.Stop()
	for {
		var err error
		select {
		case c := <-s.calls:
			err = s.serveCall(c)
		case event := <-s.watcher.Events:
			err = s.onEvent(event)
		case lost := <-s.watcher.Errors:
			s.log.LogAttrs(ctx, slog.LevelInfo, "notifications lost", slog.Any("err", lost))
			err = s.rescan(ctx)
		case <-s.settle:
			err = s.lookAtChanged(ctx)
		case <-rescan.C:
			err = s.rescan(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) serveCall(c call) error {
	err := s.here()
	if err == nil {
		err = fault.Catch(func() error { return c.do(c.ctx) })
	}
	if caught := fault.Of(err); caught != nil {
		c.done <- away(s.name, caught)
		return caught
	}
	broken, isBroken := errors.AsType[*directoryError](err)
	if isBroken {
		err = away(s.name, broken)
	}
	c.done <- err
	if isBroken {
		return broken
	}
	return nil
}

// The removal of a watched folder ends the session, because its replacement would not be watched.
func (s *session) onEvent(event fsnotify.Event) error {
	if _, watched := s.folders[event.Name]; watched && (event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)) {
		return fmt.Errorf("%s was moved or deleted", event.Name)
	}
	if directory.IsTemp(filepath.Base(event.Name)) {
		return nil
	}
	if len(s.changed) < maxChanged {
		s.changed[event.Name] = true
	}
	if s.settle == nil {
		s.settle = time.After(settleWait)
	}
	return nil
}

func (s *session) lookAtChanged(ctx context.Context) error {
	paths := s.changed
	s.changed, s.settle = map[string]bool{}, nil
	if len(paths) == maxChanged {
		return s.rescan(ctx)
	}
	if err := s.here(); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) { // "claimed" before "handoff"
		if err := s.tree.look(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// An outage of the record is not an error, because the next rescan retries.
func (s *session) rescan(ctx context.Context) error {
	if err := s.here(); err != nil {
		return err
	}
	for path, was := range s.folders {
		if folder, err := directory.FolderAt(path); err != nil {
			return err
		} else if !folder.Same(was) {
			return fmt.Errorf("%s was replaced by another folder", path)
		}
	}
	return s.tree.scan(ctx)
}

// fault returns only errors of the directory and of ctx, which end the session. After any other
// error, the file is read again later.
func (b *base) fault(ctx context.Context, path string, err error) error {
	if _, ok := errors.AsType[*directoryError](err); ok || ctx.Err() != nil {
		return err
	}
	level := slog.LevelError
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok {
		level = slog.LevelInfo
	}
	b.log.LogAttrs(ctx, level, "file waits", slog.String("file", filepath.Base(path)), slog.Any("err", err))
	return nil
}

func (b *base) unread(ctx context.Context, path, reason string, err error) {
	b.ports.Metrics.BadInput.WithLabelValues(network, b.name, reason).Inc()
	b.log.LogAttrs(ctx, slog.LevelWarn, "file not imported", slog.String("file", filepath.Base(path)), slog.String("reason", reason), slog.Any("err", err))
}

package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/voicefile"
)

// place leaves the file of an open handoff unchanged.
func (l *VoiceLink) place(ctx context.Context, v voice, file voicefile.File, view federation.View) error {
	folder := v.folder()
	if !view.Over || folder == archiveFolder || folder == rejectedFolder {
		return nil
	}
	if view.State == federation.Completed {
		name := file.ArchiveName(time.Now())
		to, err := l.move(v.path, archiveFolder, name, strings.TrimSuffix(name, ".json")+"-"+file.Key+".json")
		if err != nil || to == "" {
			return err
		}
		l.carry(v.path, to)
		return nil
	}
	note := ""
	for last, err := range l.deps.Record.Log(ctx, view.ID, view.Version-1) {
		if err != nil {
			return fmt.Errorf("read the last step of %s: %w", view.ID, err)
		}
		note = last.Event.Note
	}
	return l.reject(ctx, v, file, ending(view, note))
}

// The sidecar is written first, so that every rejected file has one.
func (l *VoiceLink) reject(ctx context.Context, v voice, file voicefile.File, why *voicefile.Error) error {
	base := strings.TrimSuffix(filepath.Base(v.path), ".json")
	reason := voicefile.Reason{Code: why.Code, Detail: why.Detail, At: time.Now()}
	for _, name := range []string{base + ".json", base + "-" + v.sealed.Key() + ".json"} {
		to := filepath.Join(l.cfg.Dir, rejectedFolder, name)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := directory.Replace(to+".reason", reason.Bytes(), 0o644); err != nil { // an interrupted move may have left a sidecar
			return broken(err)
		}
		err := directory.Move(v.path, to)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case errors.Is(err, fs.ErrNotExist): // another program took the file
			if _, err := os.Lstat(to); err != nil { // otherwise another gateway rejected it, and the sidecar stays
				_ = os.Remove(to + ".reason")
			}
			l.forget(v.path)
			return nil
		case err != nil:
			return broken(err)
		}
		l.log.LogAttrs(ctx, slog.LevelInfo, "file rejected", slog.String("file", name), slog.String("code", string(why.Code)), slog.String("reason", why.Detail))
		if file.ID == "" {
			l.ports.Metrics.BadInput.WithLabelValues(network, l.name, string(why.Code)).Inc()
		}
		l.carry(v.path, to)
		return nil
	}
	l.unread(ctx, v.path, "duplicate", why) // the same file was already rejected
	return nil
}

// move uses the first free name and returns the new path, or "" if another program has moved the
// file.
func (l *VoiceLink) move(from, folder string, names ...string) (string, error) {
	var err error
	for _, name := range names {
		to := filepath.Join(l.cfg.Dir, folder, name)
		switch err = directory.Move(from, to); {
		case err == nil:
			return to, nil
		case errors.Is(err, fs.ErrNotExist):
			l.forget(from)
			return "", nil
		case !errors.Is(err, fs.ErrExist):
			return "", broken(err)
		}
	}
	return "", err
}

func (l *VoiceLink) carry(from, to string) {
	seen := l.found[from]
	l.forget(from)
	stamp, err := directory.Stat(to)
	if err != nil {
		return // the next scan finds it
	}
	seen.stamp, seen.again = stamp, false
	l.found[to] = seen
	if !seen.handoff.IsZero() {
		l.paths[seen.handoff] = to
	}
	if seen.key != "" {
		l.taken[seen.key] = to
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

// accepted keeps the slot until the work is over.
func (l *VoiceLink) accepted(ctx context.Context, file voicefile.File) error {
	s, err := l.reserve(ctx, fileKey(file), [32]byte{}, nil, file.Expires)
	if err == nil {
		s, err = l.hold(ctx, s)
	}
	if err != nil || l.cfg.StateDir == "" {
		return err
	}
	return l.writeBootstrap(ctx, s, file)
}

// Until the file expires, the slot shows that the file was taken.
func (l *VoiceLink) releaseFile(ctx context.Context, file voicefile.File) error {
	s, err := l.glance(ctx, fileKey(file))
	if err != nil {
		return err
	}
	return l.release(ctx, s, file.Expires)
}

// bootstrapState is the body of the slot of a file whose bootstrap has been decided.
const bootstrapState = "bootstrap"

// writeBootstrap writes a bootstrap at most once, even if the voice server has consumed it. The
// file is on disk under a hidden name before the record notes it, and is renamed afterwards.
func (l *VoiceLink) writeBootstrap(ctx context.Context, s slot, file voicefile.File) error {
	folder := filepath.Join(l.cfg.StateDir, "handoffs")
	hidden, path := filepath.Join(folder, "."+file.ID+".bootstrap"), filepath.Join(folder, file.ID+".json")
	if !bytes.Equal(s.Body, []byte(bootstrapState)) {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return broken(err)
		}
		_ = os.Remove(hidden) // left by a gateway killed before the record noted it
		if err := directory.Create(hidden, file.Bootstrap(time.Now()), 0o600); err != nil {
			return broken(err)
		}
		s.Body = []byte(bootstrapState)
		if err := l.keep(ctx, s); err != nil {
			return err
		}
	}
	switch err := directory.Move(hidden, path); {
	case err == nil, errors.Is(err, fs.ErrNotExist): // already written
		return l.sweepBootstraps(folder)
	case errors.Is(err, fs.ErrExist):
		_ = os.Remove(hidden)
		l.unread(ctx, path, "bootstrap-exists", err)
		return nil
	default:
		return broken(err)
	}
}

func (l *VoiceLink) sweepBootstraps(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return broken(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > l.cfg.ResumeWindow && strings.HasSuffix(entry.Name(), ".json") {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
	return nil
}

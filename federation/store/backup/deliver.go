package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Save writes a backup to a file, whole or not at all, and never over another file. The caller's
// write makes the draft in a folder of its own, which Save removes.
func Save(path string, write func(draft, folder string) (Manifest, error)) (made Manifest, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return made, errors.Join(fmt.Errorf("%s: there is something already", path), err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".baton-backup-") // of mode 0700
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	draft := filepath.Join(folder, "backup.tar")
	if made, err = write(draft, folder); err != nil {
		return made, err
	}
	if err := os.Link(draft, path); err != nil { // unlike a rename, never over another file
		return made, err
	}
	return made, SyncFolder(filepath.Dir(path))
}

// Receive writes a backup that a gateway sends to a file, and reads it once more: a connection that
// is cut leaves an error, and not a part of a backup.
func Receive(path string, from io.Reader) (made Manifest, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, from); err != nil {
		return made, fmt.Errorf("the gateway went away: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	if err := errors.Join(err, f.Sync()); err != nil {
		return made, err
	}
	return Check(f)
}

// Stream returns a backup of a source, from a folder of its own that no longer exists when Stream
// returns: the open file stays. The caller closes it.
func Stream(ctx context.Context, from Source, dir string) (_ io.ReadCloser, err error) {
	folder, err := os.MkdirTemp(dir, ".backup-") // of mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "backup.tar")
	if _, err := Write(ctx, path, from, folder); err != nil {
		return nil, err
	}
	return os.Open(path) //nolint:gosec // made just now
}

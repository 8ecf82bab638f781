// Package backup writes and restores backups of a gateway: a consistent copy of its record,
// with its keys.
//
// A backup is one tar file, for the owner alone. First comes manifest.json, then the files
// that it lists, in that order and nothing else:
//
//	manifest.json    home, time, and name, size and SHA-256 of each file
//	record.db        the record, an SQLite file; or
//	baton.toml       the configuration, where the record is in a database
//	keys/NAME        each file of the keys folder
//
// The secrets that the configuration names are not in it, nor is the configuration where the
// record is: they belong to the operator, and often to a host. A database has tools of its
// own, and the configuration names the database that belongs together with the keys.
package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Write writes a backup of a source to a file that is not there yet, and puts it on disk. It
// uses a folder of the caller for drafts, and leaves them there.
func Write(ctx context.Context, path string, from Source, drafts string) (Manifest, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return Manifest{}, err
	}
	made, err := write(ctx, f, from, filepath.Join(drafts, recordMember), time.Now())
	if err == nil {
		err = f.Sync()
	}
	return made, errors.Join(err, f.Close())
}

// Check reads a backup whole, and returns its manifest, or why it is damaged.
func Check(r io.Reader) (made Manifest, err error) {
	err = read(r, func(m Manifest) error { made = m; return nil }, func(string) (io.WriteCloser, error) { return nowhere{io.Discard}, nil })
	return made, err
}

// nowhere takes members that are read for their checksum alone.
type nowhere struct{ io.Writer }

// Close does nothing.
func (nowhere) Close() error { return nil }

// SyncFolder puts the names in a folder on disk.
func SyncFolder(path string) error {
	folder, err := os.Open(path) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

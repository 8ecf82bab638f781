package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Names of the files that SQLite keeps beside a database in WAL mode: the
// write-ahead log, and its index, which processes share as memory.
const (
	WALSuffix = "-wal"
	shmSuffix = "-shm"
)

// Places in the two files, in bytes.
//
// spec: SQLite "WAL-mode File Format"
const (
	walHeader     = 32
	walSalts      = 16 // where the 8 bytes are in the header of the log
	frameHeader   = 24
	indexPageSize = 14 // 2 bytes, native order
	indexFrames   = 16 // 4 bytes, native order: how many frames are committed
	indexSalts    = 32
	indexHeader   = 48
)

// ErrCut is a log that lost its end.
var ErrCut = errors.New("store: the write-ahead log is cut short")

// checkWAL compares the write-ahead log with its index, where both are left of a
// process that did not end in order. SQLite writes a commit into the index after it
// synced the log, so a log that is shorter has lost steps that were acknowledged.
// SQLite itself would go on without a word from what is left.
//
// Without the index nothing can be said: that is what a power cut leaves, and what
// is unfinished then was never acknowledged.
func checkWAL(path string) error {
	index, err := readHead(path+shmSuffix, indexHeader)
	if err != nil || len(index) < indexHeader {
		return err
	}
	frames := int64(binary.NativeEndian.Uint32(index[indexFrames:]))
	log, err := readHead(path+WALSuffix, walHeader)
	if err != nil || frames == 0 {
		return err
	}
	if len(log) == walHeader && string(log[walSalts:walSalts+8]) != string(index[indexSalts:indexSalts+8]) {
		return nil // the index is of another log
	}
	size, err := sizeOf(path + WALSuffix)
	if err != nil {
		return err
	}
	page := int64(binary.NativeEndian.Uint16(index[indexPageSize:]))
	if page == 1 {
		page = 1 << 16 // which 2 bytes cannot say
	}
	if want := walHeader + frames*(frameHeader+page); size < want {
		return fmt.Errorf("%w: it has %d bytes and had %d; restore a backup, or remove the file %s%s to go on without what is missing",
			ErrCut, size, want, path, shmSuffix)
	}
	return nil
}

// readHead returns up to n bytes, none of a file that is not there.
func readHead(path string, n int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the path
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(f, n))
	return head, errors.Join(err, f.Close())
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

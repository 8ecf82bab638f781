package identity_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type markRecord struct {
	marks []federation.KeyMark
	used  bool
}

func (m *markRecord) OwnKeys(context.Context) ([]federation.KeyMark, error) { return m.marks, nil }

func (m *markRecord) Used(context.Context) (bool, error) { return m.used, nil }

func (m *markRecord) MarkOwnKeys(_ context.Context, marks []federation.KeyMark) error {
	m.marks = marks
	return nil
}

func TestOpenForMarksKeysOfARecord(t *testing.T) {
	t.Parallel()
	folder, record := identity.KeyFolder{Dir: filepath.Join(t.TempDir(), "keys")}, &markRecord{}
	if _, adopted, err := folder.OpenFor(t.Context(), record, time.Now()); err != nil || adopted || len(record.marks) != 4 {
		t.Fatalf("a new record: adopted %v, %d marks, %v", adopted, len(record.marks), err)
	}
	record.marks, record.used = nil, true
	if _, adopted, err := folder.OpenFor(t.Context(), record, time.Now()); err != nil || !adopted || len(record.marks) != 4 {
		t.Fatalf("a record without marks: adopted %v, %d marks, %v", adopted, len(record.marks), err)
	}
	if err := os.Remove(filepath.Join(folder.Dir, string(identity.ServerKey))); err != nil {
		t.Fatal(err)
	}
	_, _, err := folder.OpenFor(t.Context(), record, time.Now())
	if _, lost := errors.AsType[*identity.LostKeysError](err); !lost {
		t.Errorf("a lost key: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder.Dir, string(identity.ServerKey))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a key was made in the place of the lost one: %v", err)
	}
}

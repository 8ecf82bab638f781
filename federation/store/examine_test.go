package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// rules are those by which this package's tests make steps.
type rules struct{}

// Verify finds a document that differs from the fields.
func (rules) Verify(_ context.Context, ev federation.Event) error {
	if ev.Signature.Document != federationtest.Document(ev.Fields) {
		return errors.New("the document is not that of the fields")
	}
	return nil
}

// VerifyText finds nothing: the text of this package's tests has no signatures.
func (rules) VerifyText(federation.Text) error { return nil }

// Replay judges nothing but the order.
func (rules) Replay(before federation.View, step federation.Entry, _ federation.HomeID) (federation.View, error) {
	if before.Exists() == (step.Event.Verb == federation.Offer) {
		return before, errors.New("there is an offer first, and then no other")
	}
	return federationtest.File(step.Event, before).View, nil
}

func newest(t *testing.T) int {
	t.Helper()
	steps, err := filepath.Glob("engine/schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	return len(steps)
}

func files(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	found := map[string][32]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = sha256.Sum256(content)
	}
	return found
}

func examine(t *testing.T, dir string) fsck.Report {
	t.Helper()
	before := files(t, dir)
	report, err := fsck.Examine(t.Context(), at(dir), registry.Tables{}, rules{})
	if err != nil {
		t.Fatalf("Examine: %v", err)
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("Examine changed files (-before +after):\n%s", diff)
	}
	return report
}

func full(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	populate(t, record)
	for n := 30; n < 70; n++ { // more than a page of each table
		if _, err := record.Append(t.Context(), offer(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExamineFindsNothingInASoundRecord(t *testing.T) {
	report := examine(t, full(t))
	if diff := cmp.Diff(fsck.Report{Version: newest(t), Handoffs: 42, Events: 44, Damage: []fsck.Damage{}}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestExamineReadsARecordInUse(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	populate(t, record)
	if report, err := fsck.Examine(t.Context(), at(dir), registry.Tables{}, rules{}); err != nil || report.Events != 4 || len(report.Damage) > 0 {
		t.Errorf("Examine = %+v, %v", report, err)
	}
	if _, err := record.Append(t.Context(), offer(90)); err != nil {
		t.Errorf("Append after the examination: %v", err)
	}
}

func TestExamineFindsChangedRows(t *testing.T) {
	t.Parallel()
	first, ninth := federationtest.ID(1).String(), federationtest.ID(9).String()
	tests := []struct {
		name, change string
		kind         fsck.DamageKind
		where        string
	}{
		{"a step that is gone", `DELETE FROM event WHERE handoff = '` + first + `' AND version = 1`, fsck.DamagedChain, first + " step 2"},
		{"the newest step that is gone", `DELETE FROM event WHERE handoff = '` + first + `' AND version = 2`, fsck.DamagedChain, first},
		{"a document that was rewritten", `UPDATE event SET document = CAST('pay eve' AS BLOB) WHERE version = 1 AND handoff = '` + first + `'`, fsck.DamagedSignature, first + " step 1"},
		{"a link to another step", `UPDATE event SET prev = randomblob(32) WHERE version = 2`, fsck.DamagedChain, first + " step 2"},
		{"a head that is another", `UPDATE handoff SET head = randomblob(32) WHERE id = '` + ninth + `'`, fsck.DamagedChain, ninth},
		{"a body that is no JSON", `UPDATE event SET body = '{' WHERE version = 2`, fsck.DamagedEvent, first + " step 2"},
		{"columns of another event", `UPDATE event SET signer = 999 WHERE version = 2`, fsck.DamagedEvent, first + " step 2"},
		{"a state that no step led to", `UPDATE event SET state = 'completed' WHERE version = 2`, fsck.DamagedView, first + " step 2"},
		{"a view that was rewritten", `UPDATE handoff SET view = json_set(view, '$.assignee', 'did:plc:eve') WHERE id = '` + first + `'`, fsck.DamagedView, first},
		{"a view that is no JSON", `UPDATE handoff SET view = '{' WHERE id = '` + first + `'`, fsck.DamagedView, first},
		{"columns that are not of the view", `UPDATE handoff SET since = since + 1000000000 WHERE id = '` + ninth + `'`, fsck.DamagedView, ninth},
		{"evidence that was changed", `UPDATE evidence SET bytes = x'00' WHERE bytes = CAST('original' AS BLOB)`, fsck.DamagedEvidence, "original"},
		{"evidence that is gone", `DELETE FROM evidence`, fsck.DamagedEvidence, first},
		{"a handoff without steps", `DELETE FROM event WHERE handoff = '` + ninth + `'`, fsck.Orphan, ninth},
		{"steps without a handoff", `DELETE FROM handoff WHERE id = '` + ninth + `'`, fsck.Orphan, ninth},
		{"an inbox with what is not there", `INSERT INTO inbox (did, event, waiting, number) SELECT n, 999, 1, 9 FROM actor WHERE did = '` + string(bob) + `'`, fsck.Orphan, "inbox of " + string(bob)},
		{"a pending delivery of a missing step", `INSERT INTO delivery (item, destination, lane, sender, rank, queued, next) SELECT 999, n, '', 0, 1, 0, 0 FROM destination WHERE name = 'oftc'`, fsck.Orphan, "delivery to oftc"},
		{"a lane without a time", `UPDATE delivery SET next = NULL`, fsck.Orphan, "lane "},
		{"a document without a delivery", `INSERT INTO document (kind, sender, message, handoff, document) VALUES ('message', 'a', 'b', '', x'7b7d')`, fsck.Orphan, "document 1"},
		{"a mailbox that is counted wrong", `UPDATE mailbox SET entries = entries + 1 WHERE did = (SELECT n FROM actor WHERE did = '` + string(bob) + `')`, fsck.Orphan, "inbox of " + string(bob)},
		{"a sender that is counted wrong", `UPDATE share SET size = size + 1`, fsck.Orphan, "inbox of " + string(bob)},
		{"an assignee that is not of the view", `UPDATE handoff SET assignee = (SELECT n FROM actor WHERE did = '` + string(bob) + `') WHERE id = '` + ninth + `'`, fsck.DamagedView, ninth},
		{"a delivery of what is not there", `INSERT INTO delivery (item, destination, lane, sender, rank, queued, state, ended) SELECT 999, n, '', 0, 1, 0, 'delivered', 1 FROM destination WHERE name = 'oftc'`, fsck.Orphan, "delivery to oftc"},
		{"keys of nobody", `DELETE FROM agent`, fsck.Orphan, "keys of agent judge"},
		{"a record of a newer version", `PRAGMA user_version = 99`, fsck.DamagedFile, "baton.db"},
		{"a database of another program", `PRAGMA application_id = 7`, fsck.DamagedFile, "baton.db"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := full(t)
			db := raw(t, dir)
			_, err := db.ExecContext(t.Context(), tt.change)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			checkFirst(t, examine(t, dir), tt.kind, tt.where)
		})
	}
}

func checkFirst(t *testing.T, report fsck.Report, kind fsck.DamageKind, where string) {
	t.Helper()
	for _, d := range report.Damage {
		if d.Kind == kind && strings.Contains(d.Where, where) {
			return
		}
	}
	t.Errorf("found %v, want %s at %s", report.Damage, kind, where)
}

func TestExamineFindsDamagedFiles(t *testing.T) {
	t.Parallel()
	overwrite := func(t *testing.T, dir string, offset int64) {
		t.Helper()
		f, err := os.OpenFile(at(dir), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte(strings.Repeat("ruin", 2048)), offset)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir string)
		kind  fsck.DamageKind
	}{
		{"a page in the midst", func(t *testing.T, dir string) {
			t.Helper()
			info, err := os.Stat(at(dir))
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, dir, info.Size()/2&^8191)
		}, fsck.DamagedPage},
		{"the last page", func(t *testing.T, dir string) {
			t.Helper()
			info, err := os.Stat(at(dir))
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, dir, info.Size()-8192)
		}, fsck.DamagedPage},
		{"the first page", func(t *testing.T, dir string) { t.Helper(); overwrite(t, dir, 0) }, fsck.DamagedFile},
		{"half a file", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Truncate(at(dir), 5*8192); err != nil {
				t.Fatal(err)
			}
		}, fsck.DamagedPage},
		{"a diary", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(at(dir), []byte(strings.Repeat("dear diary\n", 200)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, fsck.DamagedFile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := full(t)
			tt.spoil(t, dir)
			checkFirst(t, examine(t, dir), tt.kind, "baton.db")
		})
	}
}

func leave(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenRefusesATruncatedWriteAheadLog(t *testing.T) {
	used := t.TempDir()
	populate(t, open(t, used, prometheus.NewRegistry()))
	whole := leave(t, used)
	if report := examine(t, whole); len(report.Damage) > 0 {
		t.Errorf("what a killed process leaves is damaged: %v", report.Damage)
	}
	cut := leave(t, used)
	wal := at(cut) + "-wal"
	info, err := os.Stat(wal)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{info.Size() - 1, info.Size() / 2, 40, 0} {
		if err := os.Truncate(wal, size); err != nil {
			t.Fatal(err)
		}
		checkFirst(t, examine(t, cut), fsck.DamagedWAL, "baton.db-wal")
		before := files(t, cut)
		record, err := registry.Open(t.Context(), at(cut), prometheus.NewRegistry())
		if err == nil {
			record.Close()
			t.Fatalf("Open goes on from %d bytes of %d", size, info.Size())
		}
		if !strings.Contains(err.Error(), "cut short") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open: %v", err)
		}
		if diff := cmp.Diff(before, files(t, cut)); diff != "" {
			t.Errorf("Open changed files (-before +after):\n%s", diff)
		}
	}
	if err := os.Remove(at(cut) + "-shm"); err != nil {
		t.Fatal(err)
	}
	open(t, cut, prometheus.NewRegistry()) // as the error said
}

func TestOpenNamesAReadOnlyFile(t *testing.T) {
	dir := full(t)
	if err := os.Chmod(at(dir), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Open(t.Context(), at(dir), prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "read-only: chmod 600 it") {
		t.Errorf("Open: %v", err)
	}
	if report := examine(t, dir); len(report.Damage) > 0 {
		t.Errorf("a record that may only be read is damaged: %v", report.Damage)
	}
}

func TestExamineReturnsErrorsApartFromDamage(t *testing.T) {
	dir := t.TempDir()
	if _, err := fsck.Examine(t.Context(), at(dir), registry.Tables{}, rules{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no record: %v", err)
	}
	db := raw(t, dir)
	for _, tt := range []struct{ change, want string }{
		{"PRAGMA application_id = 1114926643", "baton migrate"},                                         // of no version yet
		{"PRAGMA application_id = 1114926641; PRAGMA user_version = 32", "a development version wrote"}, // "Btn1"
		{"PRAGMA application_id = 1114926642; PRAGMA user_version = 1", "a development version wrote"},  // "Btn2"
	} {
		if _, err := db.ExecContext(t.Context(), tt.change); err != nil {
			t.Fatal(err)
		}
		if report, err := fsck.Examine(t.Context(), at(dir), registry.Tables{}, rules{}); err == nil || !strings.Contains(err.Error(), tt.want) || len(report.Damage) > 0 {
			t.Errorf("after %s: %+v, %v, want %q", tt.change, report, err, tt.want)
		}
	}
}

package store_test

import (
	"database/sql"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const (
	ada = federation.DID("did:plc:ada000000000000000000000")
	bob = federation.DID("did:plc:bob000000000000000000000")
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		os.Exit(victim(dir))
	}
	if dir := os.Getenv(upgradeDir); dir != "" {
		os.Exit(upgradeUntil(dir, os.Getenv(upgradeDeath)))
	}
	federationtest.RunParallel(8)
	goleak.VerifyTestMain(m)
}

func at(dir string) string { return filepath.Join(dir, "baton.db") }

// open opens the record in a directory. It is closed at the end of the test.
func open(tb testing.TB, dir string, reg prometheus.Registerer) *registry.Record {
	tb.Helper()
	record, err := registry.Open(tb.Context(), at(dir), reg)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() {
		if err := record.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return record
}

func raw(tb testing.TB, dir string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", at(dir))
	if err != nil {
		tb.Fatalf("open raw: %v", err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

func offer(n int) federation.Filing {
	return federationtest.File(federationtest.Offer(n, ada, bob), federation.View{})
}

// emptyRecord returns the file of a record with nothing in it. A copy of it saves
// the making of the schema, which under the race detector is most of a test.
func emptyRecord(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	err := open(t, dir, prometheus.NewRegistry()).Close()
	file, readErr := os.ReadFile(at(dir))
	if err := errors.Join(err, readErr); err != nil {
		t.Fatalf("make a record: %v", err)
	}
	return file
}

// The suites make all queries that a record ever gets, so each query made here needs an index.
func TestRecord(t *testing.T) {
	t.Parallel()
	empty, asked := emptyRecord(t), map[string]bool{}
	runRecord(t, func(t *testing.T) *registry.Record {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(at(dir), empty, 0o600); err != nil {
			t.Fatal(err)
		}
		record := open(t, dir, prometheus.NewRegistry())
		db := raw(t, dir)
		t.Cleanup(func() {
			for _, query := range record.Queries() {
				asked[query] = true
			}
			checkDerived(t, db)
		})
		return record
	})
	dir := t.TempDir()
	open(t, dir, prometheus.NewRegistry())
	db := raw(t, dir)
	for query := range asked {
		checkPlan(t, db, query)
	}
}

func TestOpenRefuses(t *testing.T) {
	exec := func(t *testing.T, dir, query string) {
		t.Helper()
		if _, err := raw(t, dir).ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"a file that is something else", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(at(dir), []byte(strings.Repeat("dear diary\n", 200)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a record of this program"},
		{"a short file that is something else", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(at(dir), []byte("dear diary"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a record of this program"},
		{"a database of another program", func(t *testing.T, dir string) {
			t.Helper()
			exec(t, dir, "CREATE TABLE diary (day TEXT)")
		}, "database of another program"},
		{"a record of a development version", func(t *testing.T, dir string) {
			t.Helper()
			if err := open(t, dir, prometheus.NewRegistry()).Close(); err != nil {
				t.Fatal(err)
			}
			exec(t, dir, "PRAGMA application_id = 1114926641; PRAGMA user_version = 32")
		}, "a development version wrote this record"},
		{"a record of a newer version", func(t *testing.T, dir string) {
			t.Helper()
			if err := open(t, dir, prometheus.NewRegistry()).Close(); err != nil {
				t.Fatal(err)
			}
			exec(t, dir, "PRAGMA user_version = 99")
		}, "version 99"},
		{"a record that is open already", func(t *testing.T, dir string) {
			t.Helper()
			open(t, dir, prometheus.NewRegistry())
		}, "another process has it open"},
		{"a file in a directory that is not there", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}, "no such file or directory"},
		{"a directory", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Mkdir(at(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, dir)
			before, _ := os.ReadFile(at(dir)) // nothing without a file
			record, err := registry.Open(t.Context(), at(dir), prometheus.NewRegistry())
			if err == nil {
				record.Close()
				t.Fatal("Open succeeds")
			}
			if text := err.Error(); !strings.Contains(text, tt.want) || strings.Contains(text, "\n") || !strings.Contains(text, at(dir)) {
				t.Errorf("Open: %q, want one line with the path and %q", text, tt.want)
			}
			if after, _ := os.ReadFile(at(dir)); string(after) != string(before) {
				t.Error("Open changed the file")
			}
		})
	}
}

func TestLayoutOfTheFile(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, prometheus.NewRegistry())
	steps, err := filepath.Glob("engine/schema/*.sql")
	if err != nil || len(steps) == 0 {
		t.Fatalf("migrations %v, %v", steps, err)
	}
	for pragma, want := range map[string]string{
		"page_size": "4096", "journal_mode": "wal", "user_version": strconv.Itoa(len(steps)), "application_id": "1114926643", // "Btn3"
	} {
		var got string
		if err := raw(t, dir).QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", pragma, got, err, want)
		}
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	if _, err := record.Append(t.Context(), offer(1)); err != nil {
		t.Fatalf("Append: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has permissions %o, want 600", file.Name(), mode)
		}
	}
}

// A file that may not grow is a full disk, for SQLite.
func TestWriteReturnsUnavailableOnAFullDisk(t *testing.T) {
	record := open(t, t.TempDir(), prometheus.NewRegistry())
	if _, err := record.Append(t.Context(), offer(1)); err != nil {
		t.Fatalf("Append: %v", err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = 1
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	_, refused := record.Append(t.Context(), offer(2))
	unready := record.Ready(t.Context())
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{refused, unready} {
		if down, ok := errors.AsType[*federation.UnavailableError](err); !ok || down.What != "record" {
			t.Errorf("on a full disk: %v, want the record to be unavailable", err)
		}
	}
	if _, err := record.Known(t.Context(), ada, federationtest.ID(2), offer(2).Event.Digest()); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Known after the refusal: %v, want ErrNotFound", err)
	}
	if err := record.Ready(t.Context()); err != nil {
		t.Errorf("Ready with room again: %v", err)
	}
	if _, err := record.Append(t.Context(), offer(2)); err != nil {
		t.Errorf("Append with room again: %v", err)
	}
}

func TestAppendRefusesInvalidUTF8(t *testing.T) {
	record := open(t, t.TempDir(), prometheus.NewRegistry())
	f := offer(1)
	f.Event.Signature.Document += "\xff"
	if _, err := record.Append(t.Context(), f); err == nil {
		t.Error("Append keeps a document that is not UTF-8")
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	record := open(t, t.TempDir(), reg)
	if err := record.Ready(t.Context()); err != nil {
		t.Fatalf("Ready: %v", err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatalf("lint: %v", err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	if n, err := testutil.GatherAndCount(reg, "baton_store_commit_seconds", "baton_store_batch_size"); err != nil || n != 2 {
		t.Errorf("%d metrics, %v, want 2", n, err)
	}
}

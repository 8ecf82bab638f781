package engine_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const (
	ada = federation.DID("did:plc:ada000000000000000000000")
	bob = federation.DID("did:plc:bob000000000000000000000")
)

// newest is the version of a record of this program.
const newest = 5

// added is the migration of a later one, and gap is one that leaves its version out. The names of
// files that a migration makes beside a record of this program go on with kept.
var (
	added = fmt.Sprintf("schema/%04d_colour.sql", newest+1)
	gap   = fmt.Sprintf("schema/%04d_gap.sql", newest+2)
	kept  = fmt.Sprintf(".v%d", newest)
)

// handoffs is the number of handoffs in a record of these tests: more than a page.
const handoffs = 42

func at(dir string) string { return filepath.Join(dir, "baton.db") }

func full(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	record, err := registry.Open(t.Context(), at(dir), prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	for n := range handoffs {
		if _, err := record.Append(t.Context(), federationtest.File(federationtest.Offer(n+1, ada, bob), federation.View{})); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
	if err := record.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return dir
}

func count(t *testing.T, dir, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", at(dir))
	if err != nil {
		t.Fatalf("open %s: %v", at(dir), err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if found[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// laterProgram returns the migrations of a program that knows one version more than this one:
// its last migration adds a column.
func laterProgram(t *testing.T) fstest.MapFS {
	t.Helper()
	known, err := filepath.Glob("schema/*.sql")
	if err != nil || len(known) != newest {
		t.Fatalf("migrations %v, %v, want %d", known, err, newest)
	}
	later := fstest.MapFS{added: {Data: []byte("ALTER TABLE handoff ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';")}}
	for _, name := range known {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		later[name] = &fstest.MapFile{Data: text}
	}
	return later
}

func TestMigrateKeepsTheContent(t *testing.T) {
	dir := full(t)
	later := laterProgram(t)
	if done, err := engine.MigrateBy(t.Context(), later, at(dir), federationtest.At(7)); err != nil || done.From != newest || done.To != newest+1 {
		t.Fatalf("MigrateBy = %+v, %v", done, err)
	}
	if n := count(t, dir, "SELECT count(*) FROM handoff WHERE colour = 'red'"); n != handoffs {
		t.Errorf("%d handoffs have the new column, want %d", n, handoffs)
	}
	if damaged := count(t, dir, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); damaged > 0 {
		t.Errorf("%d pages are damaged", damaged)
	}
	if _, err := engine.Open(t.Context(), at(dir), registry.Tables{}, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("of version %d and this program knows versions up to %d", newest+1, newest)) {
		t.Errorf("Open by the older program: %v", err)
	}
}

func TestMigrateCreatesAnEmptyRecord(t *testing.T) {
	dir := t.TempDir()
	if done, err := engine.MigrateBy(t.Context(), laterProgram(t), at(dir), federationtest.At(7)); err != nil || done != (engine.Upgrade{From: 0, To: newest + 1}) {
		t.Errorf("MigrateBy = %+v, %v", done, err)
	}
}

func TestMigrateChangesNothingAfterAFailure(t *testing.T) {
	dir := full(t)
	later := laterProgram(t)
	later[added].Data = append(later[added].Data, "INSERT INTO nowhere VALUES (1);"...)
	if done, err := engine.MigrateBy(t.Context(), later, at(dir), federationtest.At(7)); err == nil || !strings.Contains(err.Error(), added) {
		t.Errorf("MigrateBy = %+v, %v, want an error with the name of the migration", done, err)
	}
	if planned, err := engine.Plan(t.Context(), at(dir)); err != nil || planned != (engine.Upgrade{From: newest, To: newest}) {
		t.Errorf("Plan = %+v, %v", planned, err)
	}
	if n := count(t, dir, "SELECT count(*) FROM handoff"); n != handoffs {
		t.Errorf("%d handoffs are left of %d", n, handoffs)
	}
}

func TestMigrationsHaveNoGap(t *testing.T) {
	for _, name := range []string{gap, "schema/0001_twice.sql", "schema/colour.sql"} {
		later := laterProgram(t)
		later[name] = later[added]
		delete(later, added)
		if _, err := engine.MigrateBy(t.Context(), later, at(t.TempDir()), federationtest.At(7)); err == nil || !strings.Contains(err.Error(), "has to begin with 000") {
			t.Errorf("MigrateBy with %s: %v", name, err)
		}
	}
}

func TestMigrateCopiesAnOlderRecordFirst(t *testing.T) {
	dir := full(t)
	later := laterProgram(t)
	before := files(t, dir)
	planned, err := engine.PlanBy(t.Context(), later, at(dir))
	if err != nil || planned.From != newest || planned.To != newest+1 || planned.Estimate == nil {
		t.Fatalf("PlanBy = %+v, %v", planned, err)
	}
	took, size := *planned.Estimate, int64(count(t, dir, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"))
	if took.Bytes != size || took.Needs != size*11/5 || took.Rows < handoffs || took.Seconds <= 0 || took.Free <= 0 {
		t.Errorf("the estimate is %+v of %d bytes", took, size)
	}
	if !maps.EqualFunc(before, files(t, dir), bytes.Equal) {
		t.Error("PlanBy changed files")
	}
	done, err := engine.MigrateBy(t.Context(), later, at(dir), federationtest.At(7))
	want := engine.Upgrade{From: newest, To: newest + 1, Backup: at(dir) + kept + "-20261121T120007.000Z.bak"}
	if err != nil || done != want {
		t.Fatalf("MigrateBy = %+v, %v, want %+v", done, err, want)
	}
	back := t.TempDir()
	if err := os.Rename(done.Backup, at(back)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(at(back)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if planned, err := engine.PlanBy(t.Context(), later, at(back)); err != nil || planned.From != newest {
		t.Errorf("the copy: %+v, %v", planned, err)
	}
	if n := count(t, back, "SELECT count(*) FROM handoff"); n != handoffs {
		t.Errorf("the copy has %d handoffs, want %d", n, handoffs)
	}
}

// A start killed during its copy, or after, leaves files behind: the next start begins again.
func TestMigrateResumesAnInterruptedUpgrade(t *testing.T) {
	dir := full(t)
	for name, text := range map[string]string{kept + ".draft": "half a copy", kept + "-20261121T110000.000Z.bak": "a copy"} {
		if err := os.WriteFile(at(dir)+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := engine.MigrateBy(t.Context(), laterProgram(t), at(dir), federationtest.At(7)); err != nil || done.Backup == "" {
		t.Fatalf("MigrateBy = %+v, %v", done, err)
	}
	if _, err := os.Stat(at(dir) + kept + ".draft"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
	if text, err := os.ReadFile(at(dir) + kept + "-20261121T110000.000Z.bak"); err != nil || string(text) != "a copy" {
		t.Errorf("the copy of before: %q, %v", text, err)
	}
}

func TestMigrateRefusesWithoutACopy(t *testing.T) {
	dir := full(t)
	info, err := os.Stat(at(dir))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(at(dir), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	half := info.Size() / 2 // whatever is read of a record, some of it is there
	_, err = f.WriteAt(bytes.Repeat([]byte("ruin"), int(half)/4), half)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)[filepath.Base(at(dir))]
	if done, err := engine.MigrateBy(t.Context(), laterProgram(t), at(dir), federationtest.At(7)); err == nil || done.Backup != "" {
		t.Errorf("MigrateBy = %+v, %v", done, err)
	}
	if !bytes.Equal(files(t, dir)[filepath.Base(at(dir))], before) {
		t.Error("the record was changed")
	}
	if planned, err := engine.PlanBy(t.Context(), laterProgram(t), at(dir)); err == nil {
		t.Errorf("PlanBy = %+v of a record that cannot be copied", planned)
	}
	if n := count(t, dir, "PRAGMA user_version"); n != newest {
		t.Errorf("the record is of version %d", n)
	}
}

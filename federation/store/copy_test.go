package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"baton/federation/federationtest"
	"baton/federation/store"
	"baton/federation/store/registry"
)

func TestACopyIsTheWholeRecordAndTheOwnersAlone(t *testing.T) {
	used, dir := t.TempDir(), t.TempDir()
	record := open(t, used, prometheus.NewRegistry())
	populate(t, record)
	if err := store.Copy(t.Context(), at(used), at(dir)); err != nil {
		t.Fatalf("Copy: %v", err)
	}
	info, err := os.Stat(at(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("Copy left %d files", len(left))
	}
	if report := examine(t, dir); len(report.Damage) > 0 || report.Events != 4 {
		t.Errorf("the copy: %+v", report)
	}
	if diff := cmp.Diff(read(t, record), read(t, open(t, dir, prometheus.NewRegistry())), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("contents (-record +copy):\n%s", diff)
	}
	if err := store.Copy(t.Context(), at(used), at(dir)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Copy over a file: %v", err)
	}
	if err := store.Copy(t.Context(), at(t.TempDir()), at(t.TempDir())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Copy of nothing: %v", err)
	}
}

func TestACopyIsOfOneMomentWhileWritesGoOn(t *testing.T) {
	used := t.TempDir()
	record := open(t, used, prometheus.NewRegistry())
	var writers sync.WaitGroup
	stop := make(chan struct{})
	begun := make(chan struct{}, 4)
	for caller := range 4 {
		writers.Go(func() {
			for n := caller + 1; ; n += 4 {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := record.Append(t.Context(), offer(n)); err != nil {
					t.Errorf("Append: %v", err)
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
	}
	for round := range 3 {
		<-begun
		dir := t.TempDir()
		if err := store.Copy(t.Context(), at(used), at(dir)); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		if report := examine(t, dir); len(report.Damage) > 0 || report.Events == 0 {
			t.Errorf("copy %d: %+v", round, report)
		}
	}
	close(stop)
	writers.Wait()
}

func TestAnOlderRecordIsCopiedBeforeItsMigration(t *testing.T) {
	dir := full(t)
	later := laterProgram(t)
	before := files(t, dir)
	if planned, err := store.PlanBy(t.Context(), later, at(dir)); err != nil || planned != (store.Upgrade{From: 1, To: 2}) {
		t.Errorf("PlanBy = %+v, %v", planned, err)
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("PlanBy changed files (-before +after):\n%s", diff)
	}
	done, err := store.MigrateBy(t.Context(), later, at(dir), federationtest.At(7))
	want := store.Upgrade{From: 1, To: 2, Backup: at(dir) + ".v1-20261121T120007.000Z.bak"}
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
	if planned, err := store.PlanBy(t.Context(), later, at(back)); err != nil || planned.From != 1 {
		t.Errorf("the copy: %+v, %v", planned, err)
	}
	view, err := open(t, back, prometheus.NewRegistry()).View(t.Context(), federationtest.ID(1))
	if err != nil || view.Version != 2 {
		t.Errorf("View = %+v, %v", view, err)
	}
}

func TestARecordThatIsUpToDateIsNotCopied(t *testing.T) {
	dir := full(t)
	if done, err := store.Migrate(t.Context(), at(dir), registry.Tables{}, federationtest.At(1)); err != nil || done != (store.Upgrade{From: newest(t), To: newest(t)}) {
		t.Errorf("Migrate = %+v, %v", done, err)
	}
	fresh := t.TempDir()
	if done, err := store.Migrate(t.Context(), at(fresh), registry.Tables{}, federationtest.At(1)); err != nil || done != (store.Upgrade{From: 0, To: newest(t)}) {
		t.Errorf("Migrate of nothing = %+v, %v", done, err)
	}
	for _, dir := range []string{dir, fresh} {
		if copies, err := filepath.Glob(filepath.Join(dir, "*.bak")); err != nil || len(copies) > 0 {
			t.Errorf("copies %v, %v", copies, err)
		}
	}
}

// A start that was killed while it copied, or after, leaves files behind: the next start
// begins again.
func TestAnUpgradeThatWasCutShortIsTakenUpAgain(t *testing.T) {
	dir := full(t)
	for name, text := range map[string]string{".v1.draft": "half a copy", ".v1-20261121T110000.000Z.bak": "a copy"} {
		if err := os.WriteFile(at(dir)+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := store.MigrateBy(t.Context(), laterProgram(t), at(dir), federationtest.At(7)); err != nil || done.Backup == "" {
		t.Fatalf("MigrateBy = %+v, %v", done, err)
	}
	if _, err := os.Stat(at(dir) + ".v1.draft"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
	if text, err := os.ReadFile(at(dir) + ".v1-20261121T110000.000Z.bak"); err != nil || string(text) != "a copy" {
		t.Errorf("the copy of before: %q, %v", text, err)
	}
}

func TestAnUpgradeThatCannotBeCopiedIsNotBegun(t *testing.T) {
	dir := full(t)
	info, err := os.Stat(at(dir))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(at(dir), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(strings.Repeat("ruin", 2048)), info.Size()-8192)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)[filepath.Base(at(dir))]
	if done, err := store.MigrateBy(t.Context(), laterProgram(t), at(dir), federationtest.At(7)); err == nil || done.Backup != "" {
		t.Errorf("MigrateBy = %+v, %v", done, err)
	}
	if files(t, dir)[filepath.Base(at(dir))] != before {
		t.Error("the record was changed")
	}
	if planned, err := store.PlanBy(t.Context(), laterProgram(t), at(dir)); err != nil || planned.From != 1 {
		t.Errorf("PlanBy = %+v, %v", planned, err)
	}
}

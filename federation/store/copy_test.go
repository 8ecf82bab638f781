package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func TestCopyIsWholeAndPrivate(t *testing.T) {
	used, dir := t.TempDir(), t.TempDir()
	record := open(t, used, prometheus.NewRegistry())
	populate(t, record)
	if err := engine.Copy(t.Context(), at(used), at(dir)); err != nil {
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
	if err := engine.Copy(t.Context(), at(used), at(dir)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Copy over a file: %v", err)
	}
	if err := engine.Copy(t.Context(), at(t.TempDir()), at(t.TempDir())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Copy of nothing: %v", err)
	}
}

func TestCopyIsConsistentDuringWrites(t *testing.T) {
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
		if err := engine.Copy(t.Context(), at(used), at(dir)); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		if report := examine(t, dir); len(report.Damage) > 0 || report.Events == 0 {
			t.Errorf("copy %d: %+v", round, report)
		}
	}
	close(stop)
	writers.Wait()
}

func TestOpenCopiesNoCurrentRecord(t *testing.T) {
	dir := full(t)
	if done, err := engine.Migrate(t.Context(), at(dir), registry.Tables{}, federationtest.At(1), nil); err != nil || done != (engine.Upgrade{From: newest(t), To: newest(t)}) {
		t.Errorf("Migrate = %+v, %v", done, err)
	}
	fresh := t.TempDir()
	if done, err := engine.Migrate(t.Context(), at(fresh), registry.Tables{}, federationtest.At(1), nil); err != nil || done != (engine.Upgrade{From: 0, To: newest(t)}) {
		t.Errorf("Migrate of nothing = %+v, %v", done, err)
	}
	for _, dir := range []string{dir, fresh} {
		if copies, err := filepath.Glob(filepath.Join(dir, "*.bak")); err != nil || len(copies) > 0 {
			t.Errorf("copies %v, %v", copies, err)
		}
	}
}

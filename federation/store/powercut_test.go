package store_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// Three lives of a record under several callers, with an orderly end between them, which empties
// the write-ahead log into the file; then the power fails at each of many moments, and the disk
// forgets unsynced writes.
func TestAppendSurvivesAPowerCut(t *testing.T) {
	const (
		lives, callers, each = 3, 4, 6
		moments              = 40
		seed                 = 20261121
	)
	dir := t.TempDir()
	d := mount(t, dir)
	for life := range lives {
		record := open(t, dir, prometheus.NewRegistry())
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := range each {
					n := (life*callers+caller)*each + i + 1
					if _, err := record.Append(t.Context(), offer(n)); err != nil {
						t.Errorf("Append: %v", err)
					}
					d.Mark(n)
				}
			})
		}
		all.Wait()
		if err := record.Close(); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	// One falls for sure between a commit and its acknowledgement.
	done := d.Done()
	at := []int{lastMark(done)}
	for len(at) < moments {
		at = append(at, random.IntN(len(done)+1))
	}
	checkCuts(t, done, random, at)
}

// mount puts a disk below a folder until the test ends.
func mount(t *testing.T, dir string) *storetest.Disk {
	t.Helper()
	d := storetest.Mount(dir)
	t.Cleanup(d.Unmount)
	return d
}

func lastMark(done []storetest.Deed) int {
	for i, one := range slices.Backward(done) {
		if one.Kind == storetest.Mark {
			return i
		}
	}
	return 0
}

// checkCuts cuts the power at each of some moments, and looks for the steps acknowledged by then.
func checkCuts(t *testing.T, done []storetest.Deed, random *rand.Rand, moments []int) {
	t.Helper()
	var unsynced, kept int
	for _, moment := range moments {
		image := t.TempDir()
		if err := storetest.Crash(done[:moment], random, image); err != nil {
			t.Fatal(err)
		}
		var acknowledged []int
		for _, one := range done[:moment] {
			if one.Kind == storetest.Mark {
				acknowledged = append(acknowledged, int(one.At))
			}
		}
		record := open(t, image, prometheus.NewRegistry())
		filed, err := record.Replay(t.Context(), bob, "", 1000)
		if err != nil {
			t.Fatalf("after %d deeds: %v", moment, err)
		}
		for _, n := range acknowledged {
			if view, err := record.View(t.Context(), federationtest.ID(n)); err != nil || !view.Exists() {
				t.Errorf("after %d deeds: step %d was acknowledged and is lost: %v", moment, n, err)
			}
		}
		if err := record.Close(); err != nil {
			t.Fatal(err)
		}
		if report, err := fsck.Examine(t.Context(), at(image), registry.Tables{}, rules{}); err != nil || len(report.Damage) > 0 {
			t.Errorf("after %d deeds: %v, %v", moment, report.Damage, err)
		}
		kept += len(acknowledged)
		unsynced += len(filed) - len(acknowledged)
	}
	t.Logf("%d power cuts among %d deeds: %d acknowledged steps, 0 lost; %d more were on disk", len(moments), len(done), kept, unsynced)
	if kept == 0 || unsynced == 0 {
		t.Error("the cuts fell where they show nothing")
	}
}

// A disk that drops writes reported as synced does lose steps: so the test above can detect a loss.
func TestOpenDetectsADiskThatDidNotSync(t *testing.T) {
	dir := t.TempDir()
	d := mount(t, dir)
	record := open(t, dir, prometheus.NewRegistry())
	for n := 1; n <= 20; n++ {
		if _, err := record.Append(t.Context(), offer(n)); err != nil {
			t.Fatal(err)
		}
	}
	var lying []storetest.Deed
	for _, one := range d.Done() {
		if one.Kind != storetest.Sync || !ofWAL(one) {
			lying = append(lying, one)
		}
	}
	image := t.TempDir()
	if err := storetest.Crash(lying, rand.New(rand.NewPCG(1, 1)), image); err != nil {
		t.Fatal(err)
	}
	var filed []federation.Entry
	if after, err := registry.Open(t.Context(), at(image), prometheus.NewRegistry()); err == nil {
		filed, err = after.Replay(t.Context(), bob, "", 100)
		if err := errors.Join(err, after.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if len(filed) == 20 {
		t.Error("nothing is lost")
	}
}

func TestWriteReturnsUnavailableWhileTheDiskFails(t *testing.T) {
	syncs := func(one storetest.Deed) bool { return one.Kind == storetest.Sync && ofWAL(one) }
	writes := func(one storetest.Deed) bool { return one.Kind == storetest.Write && ofWAL(one) }
	for name, fault := range map[string]struct {
		code   int32
		chosen func(storetest.Deed) bool
	}{
		"full":                         {sqlite3.SQLITE_FULL, writes},
		"full in the midst":            {sqlite3.SQLITE_FULL, everyOther(writes)},
		"failing to write":             {sqlite3.SQLITE_IOERR_WRITE, writes},
		"failing to sync":              {sqlite3.SQLITE_IOERR_FSYNC, syncs},
		"failing to sync now and then": {sqlite3.SQLITE_IOERR_FSYNC, everyOther(syncs)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := mount(t, dir)
			record := open(t, dir, prometheus.NewRegistry())
			if _, err := record.Append(t.Context(), offer(1)); err != nil {
				t.Fatal(err)
			}
			d.FailWith(func(one storetest.Deed) int32 {
				if fault.chosen(one) {
					return fault.code
				}
				return sqlite3.SQLITE_OK
			})
			var failed []int
			for n := 2; n < 8; n++ {
				_, err := record.Append(t.Context(), offer(n))
				if err == nil {
					continue
				}
				failed = append(failed, n)
				if away, ok := errors.AsType[*federation.UnavailableError](err); !ok || away.What != "record" {
					t.Errorf("Append: %v, want the record to be unavailable", err)
				}
			}
			if len(failed) == 0 {
				t.Fatal("nothing failed")
			}
			if view, err := record.View(t.Context(), federationtest.ID(1)); err != nil || !view.Exists() {
				t.Errorf("View = %+v, %v: what is on disk can be read", view, err)
			}
			d.FailWith(nil)
			if err := record.Ready(t.Context()); err != nil {
				t.Errorf("Ready: %v", err)
			}
			for _, n := range failed { // the same step again, as callers do
				if _, err := record.Append(t.Context(), offer(n)); err != nil {
					t.Errorf("Append again: %v", err)
				}
			}
			if filed, err := record.Replay(t.Context(), bob, "", 100); err != nil || len(filed) != 7 {
				t.Errorf("%d steps are filed, %v, want 7", len(filed), err)
			}
			if err := record.Close(); err != nil {
				t.Fatal(err)
			}
			if report := examine(t, dir); len(report.Damage) > 0 {
				t.Errorf("damage: %v", report.Damage)
			}
		})
	}
}

// SQLite waits a few seconds for another writer, such as an operator's shell.
func TestWriteReturnsUnavailableWhileTheFileIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	release := occupy(t, dir)
	_, err := record.Append(t.Context(), offer(1))
	if away, ok := errors.AsType[*federation.UnavailableError](err); !ok || away.What != "record" {
		t.Errorf("Append: %v, want the record to be unavailable", err)
	}
	release()
	if _, err := record.Append(t.Context(), offer(1)); err != nil {
		t.Errorf("Append again: %v", err)
	}
}

func ofWAL(one storetest.Deed) bool { return strings.HasSuffix(one.Name, engine.WALSuffix) }

func everyOther(chosen func(storetest.Deed) bool) func(storetest.Deed) bool {
	n := 0
	return func(one storetest.Deed) bool {
		if chosen(one) {
			n++
			return n%2 == 0
		}
		return false
	}
}

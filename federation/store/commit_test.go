package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// occupy keeps the file from being written until release.
func occupy(t *testing.T, dir string) (release func()) {
	t.Helper()
	conn, err := raw(t, dir).Conn(t.Context())
	if err != nil {
		t.Fatalf("occupy: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatalf("occupy: %v", err)
	}
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Errorf("release: %v", err)
		}
	}
}

// await polls until a condition holds, and fails the test after ten seconds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after ten seconds", what)
		}
	}
}

// waiting returns how many goroutines of this process wait for the committer, and whether it is
// busy, held by occupy.
func waiting() (callers int, busy bool) {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "engine.(*DB).WriteAfter(") && strings.Contains(stack, "[select") {
			callers++
		}
		busy = busy || strings.Contains(stack, "engine.(*committer).transact(")
	}
	return callers, busy
}

// taken reports whether the committer is at work on one write, that of the only
// caller.
func taken() bool {
	callers, busy := waiting()
	return callers == 1 && busy
}

func batches(t *testing.T, reg prometheus.Gatherer) (writes float64, transactions uint64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	for _, family := range families {
		if family.GetName() == "baton_store_batch_size" {
			h := family.GetMetric()[0].GetHistogram()
			return h.GetSampleSum(), h.GetSampleCount()
		}
	}
	t.Fatal("no batch sizes")
	return 0, 0
}

// appendTogether appends filings in one batch, the second one after that of a heartbeat, and
// returns each answer. Nothing is written from occupy to release.
func appendTogether(t *testing.T, record *registry.Record, occupy func() (release func()), filings ...federation.Filing) []error {
	t.Helper()
	release := occupy()
	ready := make(chan error, 1)
	go func() { ready <- record.Ready(t.Context()) }() // a batch of its own, which gathers the next
	await(t, "heartbeat", taken)
	errs := make([]error, len(filings))
	var all sync.WaitGroup
	for i, f := range filings {
		all.Go(func() { _, errs[i] = record.Append(t.Context(), f) })
	}
	await(t, "callers", func() bool {
		callers, _ := waiting()
		return callers == 1+len(filings)
	})
	release()
	all.Wait()
	if err := <-ready; err != nil {
		t.Errorf("Ready: %v", err)
	}
	return errs
}

// One batch holds good steps, a stale one, one step twice and an id in use: each gets the same
// answer as in a batch of its own.
func TestWriteRefusalLeavesItsBatch(t *testing.T) {
	dir, reg := t.TempDir(), prometheus.NewRegistry()
	record := open(t, dir, reg)
	refuseInBatch(t, record, func() func() { return occupy(t, dir) })
	if writes, transactions := batches(t, reg); writes != 8 || transactions != 3 {
		t.Errorf("%v writes in %d transactions, want 8 in 3", writes, transactions)
	}
}

func refuseInBatch(t *testing.T, record *registry.Record, occupy func() (release func()), more ...federation.Filing) {
	t.Helper()
	opened := offer(1)
	if _, err := record.Append(t.Context(), opened); err != nil {
		t.Fatalf("Append: %v", err)
	}
	stale := federationtest.File(federationtest.Step(2, opened.Event, federation.Accept, bob), opened.View)
	stale.After, stale.View.Version = 7, 8
	inUse := offer(1)
	inUse.Event.Signature.Document += "other"
	filings := []federation.Filing{offer(3), stale, offer(4), inUse, offer(5), offer(5)}
	for i, err := range appendTogether(t, record, occupy, append(filings, more...)...) {
		refused, _ := errors.AsType[*federation.RefusalError](err)
		switch i {
		case 1:
			if !errors.Is(err, federation.ErrStale) {
				t.Errorf("the stale step: %v, want ErrStale", err)
			}
		case 3:
			if refused == nil || refused.Code != federation.EventIDInUse {
				t.Errorf("the id in use: %v, want a refusal", err)
			}
		case 6:
			if refused == nil {
				t.Errorf("what is refused beside: %v, want a refusal", err)
			}
		default:
			if err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		}
	}
	if entries, err := record.Replay(t.Context(), bob, "", 10); err != nil || len(entries) != 4 {
		t.Errorf("the inbox has %d entries, %v, want 4", len(entries), err)
	}
}

// A write of a batch fails after it filed its step: that leaves nothing, and the others are
// as if it had never been there.
func TestWriteIsUndoneAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	_, err := raw(t, dir).ExecContext(t.Context(), `CREATE TRIGGER sour BEFORE INSERT ON binding WHEN NEW.name = 'sour' BEGIN SELECT RAISE(ABORT, 'sour'); END`)
	if err != nil {
		t.Fatalf("create trigger: %v", err)
	}
	sour := offer(4)
	sour.Event.Arrival.Name = "sour"
	filings := []federation.Filing{offer(3), sour, offer(5)}
	for i, err := range appendTogether(t, record, func() func() { return occupy(t, dir) }, filings...) {
		if failed := err != nil; failed != (i == 1) {
			t.Errorf("step %d: %v", i, err)
		}
		view, err := record.View(t.Context(), filings[i].View.ID)
		if there := view.Exists(); err != nil || there != (i != 1) {
			t.Errorf("handoff %d is there: %v, %v", i, there, err)
		}
	}
	if entries, err := record.Replay(t.Context(), bob, "", 10); err != nil || len(entries) != 2 {
		t.Errorf("the inbox has %d entries, %v, want 2", len(entries), err)
	}
}

func TestWriteOutlivesItsContext(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	release := occupy(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := record.Append(ctx, offer(1))
		answer <- err
	}()
	await(t, "write", taken)
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("Append: %v, want context.Canceled", err)
	}
	release()
	await(t, "entry", func() bool {
		view, err := record.View(t.Context(), federationtest.ID(1))
		return err == nil && view.Exists()
	})
}

func TestCloseWaitsForBegunWrites(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	release := occupy(t, dir)
	answer, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := record.Append(t.Context(), offer(1))
		answer <- err
	}()
	await(t, "write", taken)
	go func() { closed <- record.Close() }()
	release()
	if err := errors.Join(<-answer, <-closed); err != nil {
		t.Errorf("Append, Close: %v", err)
	}
	if view, err := open(t, dir, prometheus.NewRegistry()).View(t.Context(), federationtest.ID(1)); err != nil || !view.Exists() {
		t.Errorf("View = %+v, %v, want the handoff", view, err)
	}
}

func TestAppendChainsEvents(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	first := offer(1)
	accept := federationtest.File(federationtest.Step(2, first.Event, federation.Accept, bob), first.View)
	done := federationtest.File(federationtest.Vouch(federationtest.Step(3, first.Event, federation.Complete, bob), "done"), accept.View)
	want := make([]byte, sha256.Size)
	for i, f := range []federation.Filing{first, accept, done} {
		if _, err := record.Append(t.Context(), f); err != nil {
			t.Fatalf("Append: %v", err)
		}
		var prev, head []byte
		if err := raw(t, dir).QueryRowContext(t.Context(), `SELECT e.prev, h.head FROM event e JOIN handoff h ON h.id = e.handoff
			WHERE e.version = ?`, i+1).Scan(&prev, &head); err != nil {
			t.Fatalf("read links: %v", err)
		}
		if !slices.Equal(prev, want) {
			t.Errorf("event %d links to %x, want %x", i+1, prev, want)
		}
		document := sha256.Sum256([]byte(f.Event.Signature.Document))
		link := sha256.Sum256(slices.Concat(want, document[:]))
		if want = link[:]; !slices.Equal(head, want) {
			t.Errorf("after event %d the head is %x, want %x", i+1, head, want)
		}
	}
}

func sound(t *testing.T, db *sql.DB) string {
	t.Helper()
	var verdict string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil {
		t.Fatalf("check integrity: %v", err)
	}
	return verdict
}

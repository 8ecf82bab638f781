//go:build long

package store_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// largeHandoffs is enough for a file of 40 MiB. With the race detector, one upgrade of it takes about three minutes.
const largeHandoffs = 4_000

// largePeople is the number of agents of a record of [fillFourth].
const largePeople = 64

// fillFourth fills a record of version 4 with handoffs of four steps, each between two of [largePeople] agents. The entries
// of the first nine tenths were read, and the steps of the last hundredth wait for a link.
func fillFourth(t *testing.T, db *sql.DB, handoffs int) {
	t.Helper()
	ctx := t.Context()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	insert := func(query string) func(args ...any) {
		stmt, err := tx.PrepareContext(ctx, query)
		if err != nil {
			t.Fatal(err)
		}
		return func(args ...any) {
			if _, err := stmt.ExecContext(ctx, args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	event := insert(`INSERT INTO event (handoff, version, signer, id, digest, prev, state, filed, body, said) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`)
	inbox := insert(`INSERT INTO inbox (did, event, waiting, number) VALUES (?1, ?2, ?3, ?4)`)
	handoff := insert(`INSERT INTO handoff (id, version, view, head, state, offerer, over, clock, since, moved) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`)
	outbox := insert(`INSERT INTO outbox (link, event, attempt, handoff, rank, filed, next) VALUES ('oftc', ?1, 0, ?2, 0, ?3, ?4)`)
	numbers := map[federation.DID]int{}
	for n := range handoffs {
		from := federationtest.Person(fmt.Sprint("agent", n%largePeople))
		to := federationtest.Person(fmt.Sprint("agent", (n+1+n/largePeople%(largePeople-1))%largePeople))
		id, seq, head := 4*n+1, 4*n, make([]byte, sha256.Size)
		opened := federationtest.Offer(id, from, to)
		opened.Title, opened.Note = "Review the change of the parser", strings.Repeat("It has a new state for comments. ", 4)
		var view federation.View
		for i, verb := range []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Complete} {
			step, reader := opened, to
			if i > 0 {
				step, reader = federationtest.Step(id+i, opened, verb, to), from
				step.Note = "The tests pass. "
			}
			step = sealed(t, step, federation.HandoffTags)
			if i == 0 {
				opened = step
			}
			filing := federationtest.File(step, view)
			view = filing.View
			seq++
			body, err := json.Marshal(step)
			if err != nil {
				t.Fatal(err)
			}
			digest, document := step.Digest(), step.DocumentDigest()
			event(view.ID.String(), int64(view.Version), string(step.From), step.ID.String(), digest[:], head, string(view.State), engine.Stamp(filing.Filed), string(body), engine.Stamp(step.ShownAt()))
			numbers[reader]++
			inbox(string(reader), seq, len(step.Signature.Document), numbers[reader])
			if n >= handoffs-handoffs/100 {
				next := sql.NullInt64{Valid: i == 0}
				outbox(seq, view.ID.String(), engine.Stamp(filing.Filed), next)
			}
			next := sha256.Sum256(slices.Concat(head, document[:]))
			head = next[:]
		}
		text, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		over := 0
		if view.Over {
			over = 1
		}
		handoff(view.ID.String(), int64(view.Version), string(text), head, string(view.State), string(view.Offerer), over, string(view.Clock), engine.Stamp(view.Since), engine.Stamp(view.Moved))
	}
	insert(`UPDATE inbox SET waiting = NULL, outcome = 'delivered', ended = 9 WHERE event <= ?1`)(4 * handoffs / 10 * 9)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func bytesIn(dir string) (sum int64) {
	entries, _ := os.ReadDir(dir) // a file may be gone before it is measured
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// watchDisk measures a directory until stop is closed, and returns the most that it had.
func watchDisk(dir string, stop <-chan struct{}) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for most := int64(0); ; {
			most = max(most, bytesIn(dir))
			select {
			case <-tick.C:
			case <-stop:
				peak <- max(most, bytesIn(dir))
				return
			}
		}
	}()
	return peak
}

func TestUpgradeOfALargeRecordFitsItsEstimate(t *testing.T) {
	dir := t.TempDir()
	db := raw(t, dir)
	if _, err := db.ExecContext(t.Context(), schemaOf(t, "schema", 4)+"PRAGMA user_version = 4"); err != nil {
		t.Fatal(err)
	}
	fillFourth(t, db, largeHandoffs)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Plan(t.Context(), at(dir))
	if err != nil {
		t.Fatal(err)
	}
	before, stop := bytesIn(dir), make(chan struct{})
	peak, began := watchDisk(dir, stop), time.Now()
	record, err := registry.Open(t.Context(), at(dir), prometheus.NewRegistry())
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	used := <-peak - before
	t.Logf("%d handoffs, %d MiB: upgraded in %s, with %d MiB more disk", largeHandoffs, before>>20, took, used>>20)
	if used > plan.Estimate.Needs {
		t.Errorf("the upgrade took %d bytes of disk, and its estimate is %d", used, plan.Estimate.Needs)
	}
	report, err := fsck.Examine(t.Context(), at(dir), registry.Tables{}, signedRules{})
	if err != nil || report.Handoffs != largeHandoffs || report.Events != 4*largeHandoffs {
		t.Errorf("examined %d handoffs and %d events, %v", report.Handoffs, report.Events, err)
	}
	if len(report.Damage) > 0 {
		t.Errorf("%d times damage, first %v", len(report.Damage), report.Damage[0])
	}
}

package store_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/federationtest"
)

// oldRecord is a file of version 1, as the program of that version left it.
type oldRecord struct {
	db *sql.DB
}

func newOldRecord(t *testing.T, dir string) oldRecord {
	t.Helper()
	schema, err := os.ReadFile("schema/0001_record.sql")
	if err != nil {
		t.Fatal(err)
	}
	old := oldRecord{raw(t, dir)}
	old.exec(t, "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL;"+string(schema)+"PRAGMA user_version = 1")
	return old
}

func (o oldRecord) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := o.db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// file writes a step as the n-th event, with one inbox and one feed.
func (o oldRecord) file(t *testing.T, n int, f federation.Filing) {
	t.Helper()
	asItWas := f.View
	asItWas.Answered, asItWas.Over, asItWas.Clock, asItWas.Since = 0, false, "", time.Time{}
	body, err := json.Marshal(f.Event)
	view, viewErr := json.Marshal(asItWas)
	if err := errors.Join(err, viewErr); err != nil {
		t.Fatal(err)
	}
	ev, digest := f.Event, f.Event.Digest()
	o.exec(t, `INSERT INTO handoff (id, version, view, head) VALUES (?, ?, ?, zeroblob(32))
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, view = excluded.view`, ev.Handoff.String(), f.View.Version, string(view))
	o.exec(t, `INSERT INTO event (seq, handoff, version, signer, id, digest, prev, message, state, filed, body)
		VALUES (?, ?, ?, ?, ?, ?, zeroblob(32), ?, ?, ?, ?)`, n, ev.Handoff.String(), f.View.Version, ev.From, ev.ID.String(),
		digest[:], ev.Arrival.MessageID, f.View.State, f.Filed.UnixNano(), string(body))
	for _, did := range f.Inboxes {
		o.exec(t, `INSERT INTO inbox (did, n, event) SELECT ?1, count(*) + 1, ?2 FROM inbox WHERE did = ?1`, did, n)
	}
	o.exec(t, `INSERT INTO feed (link, event, attempt) VALUES ('oftc', ?, ?)`, n, n-1)
}

// post writes a message of "scout" to "judge"; a place of 0 is none.
func (o oldRecord) post(t *testing.T, n, place int) {
	t.Helper()
	m := federationtest.Message(n, "scout", "judge")
	o.exec(t, `INSERT INTO message (id, sender, recipient, low, high, seq, position, envelope, handoff, received)
		VALUES (?, ?, ?, ?, ?, nullif(?6, 0), nullif(?6, 0), ?7, ?8, ?9)`,
		m.ID, m.From, m.To, m.To, m.From, place, m.Envelope, federationtest.ID(1).String(), m.Received.UnixNano())
}

func TestRecordOfVersion1IsTakenOver(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	old := newOldRecord(t, dir)
	opened := offer(1)
	accept := federationtest.File(federationtest.Vouch(federationtest.Step(2, opened.Event, federation.Accept, bob), "original"), opened.View)
	timed, untimed := offer(3), offer(4)
	timed.View.Deadline = federationtest.At(60).In(time.FixedZone("east", 2*60*60))
	untimed.View.Deadline = time.Time{}
	untimed.View.Opened = federationtest.At(4).Add(123456789)
	ended := offer(6)
	cancel := federationtest.File(federationtest.Step(7, ended.Event, federation.Cancel, ada), ended.View)
	for n, f := range []federation.Filing{opened, accept, timed, untimed, ended, cancel} {
		old.file(t, n+1, f)
	}
	old.exec(t, `INSERT INTO evidence (digest, bytes) VALUES (?, CAST('original' AS BLOB))`, accept.Event.Evidence.Digest[:])
	old.post(t, 1, 1)
	old.post(t, 2, 0)
	old.exec(t, `INSERT INTO consent (sender, recipient, state, updated, version) VALUES ('scout', 'judge', 'pending', 1, 1)`)
	old.exec(t, `INSERT INTO agent (handle, did, own_did, capabilities, registered, kept_key)
		VALUES ('judge', 'did:key:zK', 'did:key:zO', ?, 1, x''), ('scout', 'did:key:zL', 'did:key:zP', NULL, 2, x'')`,
		[]byte(`{"skills":["go","review","go",7]}`))

	record := open(t, dir, prometheus.NewRegistry())
	checkClocks(t, record, accept.View, timed.View, untimed.View)
	checkOver(t, record, cancel.View)
	if n, err := record.Unfinished(ctx, ada); err != nil || n != 3 {
		t.Errorf("Unfinished = %d, %v, want 3", n, err)
	}
	if n, _, err := record.Waiting(ctx, bob); err != nil || n != 0 {
		t.Errorf("Waiting = %d, %v, want none: nobody knows what was read", n, err)
	}
	if able, err := record.Capable(ctx, []string{"review", "go"}); err != nil || len(able) != 1 || able[0].Handle != "judge" {
		t.Errorf("Capable = %+v, %v, want the judge", able, err)
	}
	if sent, err := record.Shown(ctx, opened.View.ID); err != nil || len(sent) != 1 {
		t.Errorf("Shown = %q, %v, want the judge", sent, err)
	}
	if _, err := record.Accept(ctx, "scout", "judge", federationtest.At(9)); err != nil {
		t.Errorf("Accept: %v", err)
	}
	if inbox, _, err := record.Inbox(ctx, "judge", "", 10); err != nil || len(inbox) != 2 || inbox[1].Seq != 2 {
		t.Errorf("Inbox = %+v, %v, want what was held after what was not", inbox, err)
	}

	complete := federationtest.File(federationtest.Step(5, opened.Event, federation.Complete, bob), accept.View)
	complete.Feeds = []string{"oftc"}
	if _, err := record.Append(ctx, complete); err != nil {
		t.Errorf("Append: %v", err)
	}
	checkOrder(t, record)
	checkSaid(t, record)
	checkFound(t, record)
	if verdict := sound(t, raw(t, dir)); verdict != "ok" {
		t.Errorf("integrity: %s", verdict)
	}
}

// checkSaid holds that what was filed before anybody noted where, or since when, is in the
// history of its place.
func checkSaid(t *testing.T, record federationtest.Record) {
	t.Helper()
	found, err := record.Spoken(t.Context(), federation.Stretch{Place: federation.Place{Venue: "#ops"}}, 10)
	var times []time.Time
	for _, said := range found {
		times = append(times, said.Mark.At)
	}
	var want []time.Time
	for n := 1; n <= 7; n++ {
		want = append(want, federationtest.At(n))
	}
	if d := cmp.Diff(want, times); err != nil || d != "" {
		t.Errorf("Spoken: %v (-want +got):\n%s", err, d)
	}
}

// checkFound looks for what the old record has by what it did not note, and prunes
// it.
func checkFound(t *testing.T, record federationtest.Record) {
	t.Helper()
	id := federationtest.ID
	views, _, err := record.Handoffs(t.Context(), federation.Filter{DID: bob}, "", 10)
	var listed []federation.HandoffID
	for _, v := range views {
		listed = append(listed, v.ID)
	}
	if d := cmp.Diff([]federation.HandoffID{id(6), id(1), id(4), id(3)}, listed); err != nil || d != "" {
		t.Errorf("Handoffs: %v (-want +got):\n%s", err, d)
	}
	if found, err := record.Find(t.Context(), id(3).Short()); err != nil || len(found) != 1 {
		t.Errorf("Find = %v, %v, want the third", found, err)
	}
	entries, err := record.Replay(t.Context(), ada, "", 10)
	if err != nil || len(entries) != 2 || entries[0].Number != 1 || entries[1].Number != 2 {
		t.Errorf("Replay = %+v, %v, want the first two by number", entries, err)
	}
	owed, err := record.Owed(t.Context(), "oftc", 0, 10)
	for _, d := range owed {
		err = errors.Join(err, record.Settle(t.Context(), "oftc", []int64{d.Row}, federation.Settlement{At: federationtest.At(9)}))
	}
	_, appended := record.Append(t.Context(), offer(50))
	if err := errors.Join(err, appended); err != nil {
		t.Error(err)
	}
	pruned := 0
	for next, more := federation.Cursor(""), true; more; more = next != "" {
		var n int
		if n, next, err = record.Prune(t.Context(), federationtest.At(100), federationtest.At(100), next, 10); err != nil {
			t.Fatal(err)
		}
		pruned += n
	}
	if pruned != 2 {
		t.Errorf("%d handoffs were pruned, want the two that are over", pruned)
	}
	if _, err := record.Evidence(t.Context(), sha256.Sum256([]byte("original"))); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Evidence: %v, want ErrNotFound", err)
	}
}

// checkOver looks at a handoff of the old record that was cancelled.
func checkOver(t *testing.T, record federationtest.Record, cancelled federation.View) {
	t.Helper()
	cancelled.Answered, cancelled.Over = 2, true
	view, err := record.View(t.Context(), cancelled.ID)
	if d := cmp.Diff(cancelled, view); err != nil || d != "" {
		t.Errorf("View: %v (-want +got):\n%s", err, d)
	}
}

// checkClocks looks for handoffs of the old record on which a clock runs: one that
// was accepted, one that is to be answered by a deadline, and one at any time.
func checkClocks(t *testing.T, record federationtest.Record, accepted, timed, untimed federation.View) {
	t.Helper()
	accepted.Answered, accepted.Clock, accepted.Since = 2, federation.AbandonedClock, accepted.Moved
	timed.Clock, timed.Since = federation.DeadlineClock, timed.Deadline
	untimed.Clock, untimed.Since = federation.UnansweredClock, untimed.Opened
	for _, want := range []federation.View{accepted, timed, untimed} {
		due, err := record.Due(t.Context(), want.Clock, want.Since, 10)
		if d := cmp.Diff([]federation.View{want}, due); err != nil || d != "" {
			t.Errorf("Due: %v (-want +got):\n%s", err, d)
		}
		if early, err := record.Due(t.Context(), want.Clock, want.Since.Add(-time.Millisecond), 10); err != nil || len(early) != 0 {
			t.Errorf("Due before = %+v, %v, want none", early, err)
		}
	}
}

// checkOrder reads what the old record has, and the step after it, in their order.
func checkOrder(t *testing.T, record federationtest.Record) {
	t.Helper()
	var steps, inbox []federation.EventID
	for entry, err := range record.Log(t.Context(), federationtest.ID(1)) {
		if err != nil {
			t.Fatalf("Log: %v", err)
		}
		steps = append(steps, entry.Event.ID)
	}
	entries, err := record.Replay(t.Context(), ada, "", 10)
	if err != nil {
		t.Fatalf("Replay: %v", err)
	}
	for _, entry := range entries {
		inbox = append(inbox, entry.Event.ID)
	}
	owed, err := record.Owed(t.Context(), "oftc", 0, 10)
	if err != nil {
		t.Fatalf("Owed: %v", err)
	}
	feed := map[federation.EventID]int{}
	for _, d := range owed {
		feed[d.Entry.Event.ID] = d.Attempt
	}
	id := federationtest.ID
	d := cmp.Diff([]federation.EventID{id(1), id(2), id(5)}, steps) + cmp.Diff([]federation.EventID{id(2), id(5)}, inbox) +
		cmp.Diff(map[federation.EventID]int{id(1): 0, id(2): 1, id(3): 2, id(4): 3, id(5): 0, id(6): 4, id(7): 5}, feed)
	if d != "" {
		t.Errorf("log, inbox and feed (-want +got):\n%s", d)
	}
}

// The record of version 26 knew whether an entry was read, and not when, nor who reads.
func TestWhatWasReadBeforeAnybodyNotedWhenIsToldToNobody(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	old := oldRecord{raw(t, dir)}
	files, err := filepath.Glob("schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files[:26] {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		old.exec(t, string(text))
	}
	old.exec(t, "PRAGMA journal_mode = WAL; PRAGMA user_version = 26")
	opened := offer(1)
	cancel := federationtest.File(federationtest.Step(2, opened.Event, federation.Cancel, ada), opened.View)
	other := federationtest.File(federationtest.Offer(3, ada, "did:plc:cleo00000000000000000000"), federation.View{})
	for n, f := range []federation.Filing{opened, cancel, other} {
		old.fileLater(t, n+1, f)
	}
	old.exec(t, `INSERT INTO device (did, name, event, number, since, seen) VALUES (?, 'desk', 1, 1, 1, 1)`, bob)
	old.exec(t, `UPDATE inbox SET waiting = NULL WHERE event <> 2`)

	record := open(t, dir, prometheus.NewRegistry())
	checkBecame(t, record, opened.View.ID,
		federation.Delivered{Event: federationtest.ID(1), Link: federation.InboxLink, Agent: string(bob), State: federation.DeliveryDelivered, Ended: opened.Filed},
		federation.Delivered{Event: federationtest.ID(2), Link: federation.InboxLink, Agent: string(bob), State: federation.DeliveryWaiting})
	checkBecame(t, record, other.View.ID) // a link may have shown it to her
	for _, want := range []int{0, 1} {
		if n, err := record.Delay(ctx, federationtest.At(100), federationtest.At(100), 10); err != nil || n != want {
			t.Errorf("Delay = %d, %v, want %d", n, err, want)
		}
		if _, err := record.Append(ctx, offer(50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.Read(ctx, bob, []federation.EventID{federationtest.ID(2)}, federationtest.At(60)); err != nil {
		t.Fatal(err)
	}
	if told, err := record.Untold(ctx, "oftc", federationtest.At(100), 10); err != nil || len(told) != 1 || told[0].Event.ID != federationtest.ID(50) {
		t.Errorf("signers are told %+v, %v, want of the new offer alone", told, err)
	}
}

// checkBecame holds the deliveries of a handoff to those that are wanted.
func checkBecame(t *testing.T, record federationtest.Record, id federation.HandoffID, want ...federation.Delivered) {
	t.Helper()
	became, err := record.Deliveries(t.Context(), id, nil)
	if d := cmp.Diff(want, became); err != nil || d != "" {
		t.Errorf("Deliveries: %v (-want +got):\n%s", err, d)
	}
}

// fileLater writes a step as the n-th event of a record of version 26, with its inbox.
func (o oldRecord) fileLater(t *testing.T, n int, f federation.Filing) {
	t.Helper()
	body, err := json.Marshal(f.Event)
	view, viewErr := json.Marshal(f.View)
	if err := errors.Join(err, viewErr); err != nil {
		t.Fatal(err)
	}
	ev, digest := f.Event, f.Event.Digest()
	o.exec(t, `INSERT INTO handoff (id, version, view, head, state, offerer, moved) VALUES (?, ?, ?, zeroblob(32), ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, view = excluded.view, state = excluded.state, moved = excluded.moved`,
		ev.Handoff.String(), f.View.Version, string(view), f.View.State, f.View.Offerer, f.Filed.UnixNano())
	o.exec(t, `INSERT INTO event (seq, handoff, version, signer, id, digest, prev, state, filed, body) VALUES (?, ?, ?, ?, ?, ?, zeroblob(32), ?, ?, ?)`,
		n, ev.Handoff.String(), f.View.Version, ev.From, ev.ID.String(), digest[:], f.View.State, f.Filed.UnixNano(), string(body))
	for _, did := range f.Inboxes {
		o.exec(t, `INSERT INTO inbox (did, event, waiting, number) SELECT ?1, ?2, 10, 1 + coalesce((SELECT number FROM mailbox WHERE did = ?1), 0)`, did, n)
	}
}

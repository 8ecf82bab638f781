package store_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

type contents struct {
	View     federation.View
	Log      []federation.Entry
	Evidence string
	Handoff  federation.HandoffID
	Inbox    []federation.Entry
	Feed     []federation.Delivery
	Binding  federation.Binding
	Owner    federation.DID
	Agent    agents.Agent
	Messages []agents.Message
	Held     agents.Message
	Edges    []agents.Consent
	Due      []federation.View
	Waiting  int
	Kept     string
	Devices  []federation.Device
	Leased   []federation.Lease // given to another device, while the first one holds the waiting entries
	Spent    federation.RefusalCode
	Able     []agents.Agent
}

func populate(t *testing.T, record *registry.Record) {
	t.Helper()
	ctx := t.Context()
	opened := offer(1)
	opened.Links = []string{"oftc"}
	accept := federationtest.File(federationtest.Vouch(federationtest.Step(2, opened.Event, federation.Accept, bob), "original"), opened.View)
	receipt := federationtest.Confirm(8, accept.Event)
	accept.Links, accept.Receipt = []string{"oftc"}, &receipt
	judge := federationtest.NewAgent("judge")
	judge.Capabilities = json.RawMessage(`{"skills":["go"]}`)
	_, offered := record.Append(ctx, opened)
	_, accepted := record.Append(ctx, accept)
	handshake := federationtest.Message(3, "system", "judge")
	_, held := record.Post(ctx, agents.Posting{Message: federationtest.Message(4, "scout", "judge"), Held: true, Handshake: &handshake})
	_, posted := record.Post(ctx, agents.Posting{Message: federationtest.Message(5, "clerk", "judge")})
	_, consented := record.Accept(ctx, "clerk", "judge", federationtest.At(6))
	_, blocked := record.Block(ctx, "spammer", "judge", federationtest.At(7))
	ended := offer(20)
	_, gone := record.Append(ctx, ended)
	_, over := record.Append(ctx, federationtest.File(federationtest.Step(21, ended.Event, federation.Decline, bob), ended.View))
	keyless := federationtest.Offer(9, "did:plc:cyd000000000000000000000", bob) // as an offer that the gateway vouches for: its signer has shown no key
	keyless.Signature.Key = nil
	_, waits := record.Append(ctx, federationtest.File(keyless, federation.View{}))
	_, next, pruned := record.Prune(ctx, federationtest.At(21), federationtest.At(22), "", 10)
	_, _, rest := record.Prune(ctx, federationtest.At(21), federationtest.At(22), next, 10)
	_, leased := record.Lease(ctx, bob, "phone", "", federationtest.At(22), federationtest.At(82), 10)
	session := federation.Session{ID: "one", Participant: "judge", Generation: 2, Expires: federationtest.At(60)}
	err := errors.Join(offered, accepted, held, posted, consented, blocked, gone, over, waits, pruned, rest, leased,
		record.Advance(ctx, bob, "desk", "", federationtest.At(22)),
		record.AddAgent(ctx, judge), record.Rows().Attempt(ctx, "oftc", []int64{1}), record.Ready(ctx),
		record.Keep(ctx, opened.View.ID, *federationtest.Vouch(opened.Event, "rendition").Evidence),
		record.Read(ctx, bob, []federation.EventID{opened.Event.ID}, federationtest.At(22)), record.StartSession(ctx, session))
	if err != nil {
		t.Fatalf("populate: %v", err)
	}
}

func read(t *testing.T, record *registry.Record) contents {
	t.Helper()
	ctx := t.Context()
	var c contents
	errs := make([]error, 18)
	c.View, errs[0] = record.View(ctx, federationtest.ID(1))
	for entry, err := range record.Log(ctx, federationtest.ID(1), 0) {
		c.Log, errs[1] = append(c.Log, entry), err
	}
	var original []byte
	original, errs[2] = record.Evidence(ctx, c.Log[1].Event.Evidence.Digest)
	c.Evidence = string(original)
	c.Handoff, errs[3] = record.Reference(ctx, "msg-2")
	c.Inbox, errs[4] = record.Replay(ctx, bob, "", 10)
	c.Feed, errs[5] = record.Outbox(ctx, "oftc", federation.Delivery{}, 10)
	c.Binding, errs[6] = record.Binding(ctx, ada)
	c.Owner, errs[7] = record.KeyOwner(ctx, federation.KeyID(federationtest.Key(ada)))
	c.Agent, errs[8] = record.Agent(ctx, "judge")
	c.Messages, _, errs[9] = record.Inbox(ctx, "judge", "", 10)
	c.Held, errs[10] = record.Sent(ctx, "scout", "message-4", federationtest.At(0))
	for _, from := range []string{"scout", "clerk", "spammer", "nobody"} {
		edge, err := record.Consent(ctx, from, "judge")
		c.Edges, errs[11] = append(c.Edges, edge), errors.Join(errs[11], err)
	}
	c.Due, errs[12] = record.ListDue(ctx, federation.AbandonedClock, federationtest.At(10_000), 10)
	c.Waiting, _, errs[13] = record.Waiting(ctx, bob)
	original, errs[14] = record.Evidence(ctx, sha256.Sum256([]byte("rendition")))
	c.Kept = string(original)
	c.Able, errs[15] = record.Capable(ctx, []string{"go"})
	c.Devices, errs[16] = record.Devices(ctx, bob)
	c.Leased, errs[17] = record.Lease(ctx, bob, "laptop", "", federationtest.At(81), federationtest.At(90), 10)
	_, err := record.Known(ctx, ada, federationtest.ID(20), offer(20).Event.Digest())
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		c.Spent = refused.Code
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("read: %v", err)
	}
	return c
}

func TestRecordSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, prometheus.NewRegistry())
	populate(t, first)
	before := read(t, first)
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	second := open(t, dir, prometheus.NewRegistry())
	if d := cmp.Diff(before, read(t, second), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("contents (-before +after):\n%s", d)
	}
	if len(before.Inbox) != 2 || len(before.Feed) != 3 || before.Feed[0].Attempt != 1 || len(before.Messages) != 2 ||
		len(before.Due) != 1 || before.Waiting != 1 || len(before.Able) != 1 || len(before.Devices) != 1 || len(before.Leased) != 0 || before.Spent == "" {
		t.Errorf("contents are too few for this test: %+v", before)
	}
	if entries, err := second.Replay(t.Context(), bob, before.Inbox[0].Cursor, 10); err != nil || len(entries) != 1 {
		t.Errorf("Replay from an old cursor = %d entries, %v, want 1", len(entries), err)
	}
	if session, err := second.AdvanceSession(t.Context(), "one", 2, federationtest.At(9), federationtest.At(90)); err != nil || session.Participant != "judge" {
		t.Errorf("AdvanceSession = %+v, %v, want that of the judge", session, err)
	}
}

// A restored backup has fewer entries than its readers have seen.
func TestCursorOfAnotherHistoryIsUnknown(t *testing.T) {
	lost, restored := open(t, t.TempDir(), prometheus.NewRegistry()), open(t, t.TempDir(), prometheus.NewRegistry())
	elsewhere := federationtest.File(federationtest.Offer(1, ada, federationtest.Person("cleo")), federation.View{})
	for record, filings := range map[*registry.Record][]federation.Filing{
		lost:     {elsewhere, offer(2), offer(3)},           // bob's are the second and third event
		restored: {offer(5), offer(2), elsewhere, offer(4)}, // the first, second and fourth
	} {
		for _, f := range filings {
			if _, err := record.Append(t.Context(), f); err != nil {
				t.Fatalf("Append: %v", err)
			}
		}
	}
	old, err := lost.Replay(t.Context(), bob, "", 10)
	kept, keptErr := restored.Replay(t.Context(), bob, "", 10)
	if err := errors.Join(err, keptErr); err != nil {
		t.Fatalf("Replay: %v", err)
	}
	for _, entry := range old {
		_, err := restored.Replay(t.Context(), bob, entry.Cursor, 10)
		unknown, ok := errors.AsType[*federation.CursorError](err)
		if !ok || unknown.Newest != kept[len(kept)-1].Cursor {
			t.Errorf("entry %d: %v, want a CursorError with the newest", entry.Number, err)
		}
	}
}

// victimDir names the environment variable that makes this test binary a writer,
// which TestKilledWriterLosesNothingThatItAcknowledged kills.
const victimDir = "BATON_STORE_TEST_VICTIM"

// victimCallers are enough for batches to form.
const victimCallers = 8

// victim files offers until it is killed, and prints the number of each after its
// acknowledgement. It starts after the offers that the record has.
func victim(where string) int {
	ctx := context.Background()
	record, err := openWhere(ctx, where)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	filed, err := record.Replay(ctx, bob, "", 1_000_000)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	failed := make(chan error)
	for caller := range victimCallers {
		go func() { failed <- fileForever(ctx, record, len(filed)*victimCallers+caller+1) }()
	}
	fmt.Fprintln(os.Stderr, <-failed)
	return 1
}

func openWhere(ctx context.Context, where string) (*registry.Record, error) {
	if strings.HasPrefix(where, "host=") {
		return registry.OpenPostgres(ctx, where, prometheus.NewRegistry())
	}
	return registry.Open(ctx, at(where), prometheus.NewRegistry())
}

func fileForever(ctx context.Context, record *registry.Record, n int) error {
	for ; ; n += victimCallers {
		f := offer(n)
		f.Links = []string{"oftc"}
		if _, err := record.Append(ctx, f); err != nil {
			return err
		}
		if _, err := os.Stdout.WriteString(strconv.Itoa(n) + "\n"); err != nil {
			return err
		}
	}
}

func TestKilledWriterLosesNothingThatItAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := killWriters(t, dir)
	checkAcknowledged(t, open(t, dir, prometheus.NewRegistry()), acknowledged)
	if verdict := sound(t, raw(t, dir)); verdict != "ok" {
		t.Errorf("integrity: %s", verdict)
	}
}

// killWriters kills one writer after the other, and returns the acknowledged offers.
func killWriters(t *testing.T, where string) (acknowledged []int) {
	t.Helper()
	const rounds, perRound = 3, 100
	for range rounds {
		acknowledged = append(acknowledged, killAfter(t, where, perRound)...)
	}
	return acknowledged
}

func checkAcknowledged(t *testing.T, record *registry.Record, acknowledged []int) {
	t.Helper()
	inbox, err := record.Replay(t.Context(), bob, "", 1_000_000)
	if err != nil {
		t.Fatalf("Replay: %v", err)
	}
	pending, err := record.Outbox(t.Context(), "oftc", federation.Delivery{}, 1_000_000)
	if err != nil {
		t.Fatalf("Owed: %v", err)
	}
	if len(pending) != len(inbox) {
		t.Errorf("the outbox has %d rows and the inbox %d: a step was filed in part", len(pending), len(inbox))
	}
	reached := map[federation.EventID]int{}
	for i, entry := range inbox {
		reached[entry.Event.ID]++
		if entry.Number != uint64(i+1) {
			t.Fatalf("entry %d of the inbox has number %d", i+1, entry.Number)
		}
	}
	for _, n := range acknowledged {
		id := federationtest.ID(n)
		view, err := record.View(t.Context(), id)
		if err != nil || view.Version != 1 || reached[id] != 1 {
			t.Errorf("acknowledged offer %d: version %d, %v, %d times in the inbox", n, view.Version, err, reached[id])
		}
	}
}

// killAfter runs a writer, kills it in the midst of its work, and returns the numbers of all offers
// acknowledged to it.
func killAfter(t *testing.T, where string, acknowledgements int) []int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	writer := exec.CommandContext(ctx, os.Args[0])
	writer.Env = append(os.Environ(), victimDir+"="+where)
	writer.Stderr = os.Stderr
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatalf("start writer: %v", err)
	}
	if err := writer.Start(); err != nil {
		t.Fatalf("start writer: %v", err)
	}
	var numbers []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("writer prints %q", lines.Text())
		}
		if numbers = append(numbers, n); len(numbers) == acknowledgements {
			if err := writer.Process.Kill(); err != nil {
				t.Errorf("kill writer: %v", err)
			}
		}
	}
	_ = writer.Wait() // it was killed
	if len(numbers) < acknowledgements {
		t.Fatalf("the writer ended by itself after %d acknowledgements", len(numbers))
	}
	return numbers
}

// A killed gateway leaves its leases: the next one serves these destinations at once.
func TestLeasesEndWithTheProcessOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "baton.db")
	for start := range 2 {
		record, err := registry.Open(t.Context(), path, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		if start == 0 {
			destinationKinds()["peer"].fill(t, record)
		}
		taken, err := record.Rows().Take(t.Context(), federation.ToPeer, federationtest.At(100), federationtest.At(160), 10)
		if err != nil || len(taken) != 1 {
			t.Errorf("Take after start %d = %+v, %v, want one destination", start, taken, err)
		}
		if err := record.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

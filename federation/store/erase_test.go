package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// marker is in each text of the erased person.
const marker = "zebra-7f3a-quagga"

var _ *registry.Record = (*registry.Record)(nil)

// plant writes the marker wherever a record keeps text of a handoff of bob: in an ended handoff,
// with evidence, a context, pending deliveries, a dead letter, a notice, private text and messages
// of agents. Another handoff is not of bob.
func plant(t *testing.T, record *registry.Record) (mine, other federation.HandoffID) {
	t.Helper()
	ctx := t.Context()
	blob := federation.Blob{Capability: "AAAAAAAAAAAAAAAAAAAAAA", Owner: ada, Content: []byte(marker), Stored: federationtest.At(1), Expires: federationtest.At(9999)}
	ev := federationtest.Offer(1, ada, bob)
	ev.Title, ev.Note, ev.Caps = marker, marker, []string{marker}
	ev.Context = "https://gw.example" + federation.BlobPath + string(blob.Capability)
	ev.Fields["title"], ev.Arrival.MessageID = marker, marker
	ev.Signature.Document = federationtest.Document(ev.Fields)
	opened := federationtest.File(ev, federation.View{})
	opened.Links = []string{"oftc", "b.example"}
	step := federationtest.Vouch(federationtest.Step(2, ev, federation.Decline, bob), marker)
	step.Note = marker
	declined := federationtest.File(step, opened.View)
	receipt := federationtest.Confirm(3, step)
	declined.Links, declined.Receipt = []string{"oftc"}, &receipt
	private := said(5, ada, bob, "oftc", ev.Handoff)
	private.Text.Body = marker
	private.Text.Signature.Document = marker
	about := said(6, "did:web:amy.example", "did:web:ben.example", "", ev.Handoff)
	about.Text.Body = marker
	unrelated := federationtest.File(federationtest.Offer(7, ada, "did:web:ben.example"), federation.View{})
	posted := federationtest.Message(8, "scout", "judge")
	posted.Envelope, posted.Handoff = []byte(`{"body":"`+marker+`"}`), ev.Handoff
	relayed := federationtest.Message(9, "bob", "amy@peer.example")
	relayed.Envelope = []byte(`{"body":"` + marker + `"}`)
	relay := federation.PeerDelivery{Peer: "peer.example", Sender: "bob", Message: relayed.ID, Document: relayed.Envelope, Queued: federationtest.At(9)}
	hook := federation.Webhook{ID: federationtest.ID(10), DID: bob, URL: "https://bob.example/" + marker, Since: federationtest.At(1)}
	notice := federation.Notice{Kind: federation.NoticeRefused, Event: step, Why: marker, At: federationtest.At(11)}
	_, kept := record.KeepBlob(ctx, blob, ev.Handoff, 0)
	spoken := lineAt(16, "l")
	spoken.Author, spoken.Text = bob, marker
	whispered := lineAt(17, "m")
	whispered.Place, whispered.To, whispered.Text = federation.ChannelRef{Venue: federation.PrivateVenue(ada, bob)}, bob, marker
	_, line := record.KeepLine(ctx, spoken)
	_, whisper := record.KeepLine(ctx, whispered)
	_, first := record.Append(ctx, opened)
	_, second := record.Append(ctx, declined)
	_, _, third := record.FileText(ctx, private)
	_, _, fourth := record.FileText(ctx, about)
	_, fifth := record.Append(ctx, unrelated)
	_, sixth := record.Post(ctx, agents.Posting{Message: posted})
	_, seventh := record.Post(ctx, agents.Posting{Message: relayed, Relay: &relay})
	secret := record.KeepPassword(ctx, federation.Password{DID: bob, Salt: []byte(marker), Iterations: 1, StoredKey: []byte(marker), ServerKey: []byte(marker), Since: federationtest.At(18)})
	_, read := record.KeepMarker(ctx, bob, marker, federationtest.At(19))
	err := errors.Join(secret, read, kept, line, whisper, first, second, third, fourth, fifth, sixth, seventh, record.AddWebhook(ctx, hook, 10), record.Notify(ctx, notice))
	if err != nil {
		t.Fatalf("plant: %v", err)
	}
	plantWaiting(t, record, ev)
	feed, err := record.Outbox(ctx, "b.example", federation.Delivery{}, 10)
	if err != nil || len(feed) != 1 {
		t.Fatalf("the outbox of b.example: %d, %v", len(feed), err)
	}
	if err := record.Rows().Settle(ctx, "b.example", []int64{feed[0].Row}, federation.Settlement{State: federation.DeliveryDelivered, At: federationtest.At(12)}); err != nil {
		t.Fatal(err)
	}
	return ev.Handoff, unrelated.View.ID
}

// plantWaiting writes the marker into pending and dependent data of an offer to bob: a step without
// a key, one without a ruling, an answer, a declaration and a dead letter.
func plantWaiting(t *testing.T, record *registry.Record, offer federation.Event) {
	t.Helper()
	ctx := t.Context()
	unproved := federationtest.Vouch(federationtest.Step(13, federationtest.Offer(12, ada, bob), federation.Accept, bob), marker+" too")
	unproved.Note = marker
	unruled := federationtest.Step(15, federationtest.Offer(14, ada, bob), federation.Progress, bob)
	unruled.Note = marker
	request := federation.Answer{DID: bob, Key: marker, Event: federationtest.ID(2), At: federationtest.At(2)}
	_, deferred := record.Defer(ctx, federation.Deferred{Event: unproved, Origin: "airc", Since: federationtest.At(13), Next: federationtest.At(99)}, federation.DeferralLimits{})
	_, reserved := record.Reserve(ctx, request)
	request.Status, request.Body = 201, []byte(marker)
	err := errors.Join(
		deferred, reserved, record.Answered(ctx, request), record.Declare(ctx, federation.Declaration{DID: bob, Caps: []string{marker}, At: federationtest.At(1)}),
		record.KeepPending(ctx, federation.Pending{Event: unruled, Home: "b.example", Since: federationtest.At(15)}, 0),
	)
	if err != nil {
		t.Fatalf("plant what waits: %v", err)
	}
	feed, err := record.Rows().PendingOf(ctx, "oftc", offer.Handoff.String(), 1)
	if err != nil || len(feed) != 1 {
		t.Fatalf("the outbox of oftc: %d, %v", len(feed), err)
	}
	if err := record.Rows().Settle(ctx, "oftc", []int64{feed[0].Row}, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: marker, At: federationtest.At(12)}); err != nil {
		t.Fatal(err)
	}
}

// erases checks the contract of erasures. Found returns the places of the marker.
func erases(t *testing.T, record *registry.Record, found func() []string) {
	t.Helper()
	ctx, of := t.Context(), federation.ErasureQuery{DIDs: []federation.DID{bob}, Participants: []string{"bob"}}
	mine, other := plant(t, record)
	if len(found()) == 0 {
		t.Fatal("the marker is nowhere before the erasure")
	}
	planned, err := record.Erasable(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	want := federation.Erasing{
		Handoffs: 1, Documents: 3, Messages: 6, Evidence: 1, Contexts: 1, Waiting: 11, Other: 7,
		Copies: []string{"b.example", "peer.example"}, All: []federation.HandoffID{mine},
	}
	if diff := cmp.Diff(want, planned); diff != "" {
		t.Errorf("the dry run (-want +got):\n%s", diff)
	}
	if len(found()) == 0 {
		t.Error("the dry run erased")
	}
	before, err := record.View(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	done, err := record.Erase(ctx, of, federationtest.At(50))
	if diff := cmp.Diff(want, done); err != nil || diff != "" {
		t.Errorf("the erasure: %v (-want +got):\n%s", err, diff)
	}
	if err := record.Compact(ctx); err != nil {
		t.Errorf("Compact: %v", err)
	}
	if left := found(); len(left) > 0 {
		t.Errorf("the marker is left in %v", left)
	}
	checkErased(t, record, before)
	if kept, err := record.View(ctx, other); err != nil || kept.Title == "" || !kept.Erased.IsZero() {
		t.Errorf("the handoff of others: %+v, %v", kept, err)
	}
	again, err := record.Erase(ctx, of, federationtest.At(60))
	want = federation.Erasing{Copies: []string{"b.example"}, All: []federation.HandoffID{mine}}
	if diff := cmp.Diff(want, again); err != nil || diff != "" {
		t.Errorf("the second erasure: %v (-want +got):\n%s", err, diff)
	}
}

func checkErased(t *testing.T, record *registry.Record, before federation.View) {
	t.Helper()
	view, err := record.View(t.Context(), before.ID)
	want := before
	want.Title, want.Caps, want.Erased = "", nil, federationtest.At(50)
	if diff := cmp.Diff(want, view); err != nil || diff != "" {
		t.Errorf("the view: %v (-want +got):\n%s", err, diff)
	}
	var verbs []federation.Verb
	for entry, err := range record.Log(t.Context(), before.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		verbs = append(verbs, entry.Event.Verb)
		if entry.Event.Erased == nil || entry.Event.From == "" || entry.Event.Arrival.Received.IsZero() {
			t.Errorf("the step is %+v", entry.Event)
		}
	}
	if diff := cmp.Diff([]federation.Verb{federation.Offer, federation.Decline}, verbs); diff != "" {
		t.Errorf("the verbs (-want +got):\n%s", diff)
	}
	repeated := federationtest.Offer(1, ada, bob)
	if _, err := record.Known(t.Context(), ada, repeated.ID, repeated.Digest()); refusalOf(err) != federation.EventIDInUse {
		t.Errorf("other bytes under the id of an erased step: %v", err)
	}
}

func refusalOf(err error) federation.RefusalCode {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return refused.Code
	}
	return ""
}

func inFiles(t *testing.T, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(marker)) {
			found = append(found, entry.Name())
		}
	}
	return found
}

func TestEraseLeavesNoTraceInFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	erases(t, record, func() []string { return inFiles(t, dir) })
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	if left := inFiles(t, dir); len(left) > 0 {
		t.Errorf("after the end the marker is left in %v", left)
	}
	if report := examine(t, dir); len(report.Damage) > 0 || report.Erased != 5 {
		t.Errorf("the record after the erasure: %+v", report)
	}
}

func TestEraseRefusesOpenHandoffs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	plant(t, record)
	going := offer(40)
	if _, err := record.Append(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	before, err := record.View(t.Context(), federationtest.ID(1))
	if err != nil {
		t.Fatal(err)
	}
	done, err := record.Erase(t.Context(), federation.ErasureQuery{DIDs: []federation.DID{bob}}, federationtest.At(50))
	if diff := cmp.Diff([]federation.HandoffID{going.View.ID}, done.Open); err != nil || diff != "" {
		t.Errorf("Erase: %v, open handoffs (-want +got):\n%s", err, diff)
	}
	after, err := record.View(t.Context(), federationtest.ID(1))
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("the handoff that is over: %v (-want +got):\n%s", err, diff)
	}
}

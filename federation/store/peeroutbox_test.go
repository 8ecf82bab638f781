package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func relay(n int, peer string) federation.PeerDelivery {
	return federation.PeerDelivery{
		Peer: peer, Sender: "a", Message: fmt.Sprintf("message-%d", n), OrderKey: "amy", Document: fmt.Appendf(nil, `{"n":%d}`, n), Queued: federationtest.At(n),
	}
}

func documents(t *testing.T, record *registry.Record, peer, lane string) (found []federation.PeerDelivery) {
	t.Helper()
	pending, err := record.Rows().PendingOf(t.Context(), federation.PeerDestination(peer), lane, 10)
	if err != nil {
		t.Fatalf("PendingOf: %v", err)
	}
	for _, d := range pending {
		found = append(found, *d.Document)
	}
	return found
}

func settleDocuments(t *testing.T, record *registry.Record, peer string, how federation.Settlement, rows ...int64) {
	t.Helper()
	if err := record.Rows().Settle(t.Context(), federation.PeerDestination(peer), rows, how); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// refusedAt is the end of a delivery refused by its peer.
func refusedAt(n int, why string) federation.Settlement {
	return federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadRefused, Why: why, At: federationtest.At(n)}
}

// owedTo reads the pending deliveries to the peer: each message with its attempts, reason and next time.
func owedTo(t *testing.T, record *registry.Record) []string {
	t.Helper()
	all := documents(t, record, "peer.example", "amy")
	queue, unread := record.PeerQueue(t.Context(), "peer.example", time.Time{}, 10)
	if unread != nil || len(queue) != len(all) {
		t.Fatalf("PeerQueue = %+v, %v", queue, unread)
	}
	for i, row := range queue {
		if len(row.Document) > 0 {
			t.Errorf("the queue has the document of %s", row.Message)
		}
		if row.Document = all[i].Document; diff(all[i], row) != "" {
			t.Error(diff(all[i], row))
		}
	}
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s %s %d %q %q at %d", r.Message, r.Document, r.Attempt, r.Reason, r.Unsure, int(r.Next.Sub(federationtest.At(0)).Seconds())))
	}
	return got
}

func (s suite) testRelays(t *testing.T) {
	record := s.open(t)
	for n := 1; n <= 2; n++ {
		r := relay(n, "peer.example")
		post(t, record, agents.Posting{Message: federationtest.Message(n, "a", "amy@peer.example"), Relay: &r})
	}
	if err := record.Enqueue(t.Context(), relay(3, "other.example")); err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	again := relay(1, "peer.example")
	if _, err := record.Post(t.Context(), agents.Posting{Message: federationtest.Message(1, "a", "amy@peer.example"), Relay: &again}); !errors.Is(err, agents.ErrDuplicate) {
		t.Errorf("Post again: %v, want ErrDuplicate", err)
	}
	peers, err := record.PeerOutboxes(t.Context())
	if err != nil || diff([]federation.PeerOutbox{{Name: "other.example"}, {Name: "peer.example"}}, peers) != "" {
		t.Errorf("peers %v, %v", peers, err)
	}
	pending := documents(t, record, "peer.example", "amy")
	if len(pending) != 2 || pending[0].Message != "message-1" || pending[0].OrderKey != "amy" || pending[0].Sender != "a" || pending[1].Message != "message-2" {
		t.Fatalf("pending: %+v", pending)
	}
	row := pending[0].Row
	failure := federation.Failure{Reason: "away", Unsure: "x1", Counted: true, At: federationtest.At(4), Next: federationtest.At(9)}
	if err := errors.Join(record.Attempted(t.Context(), row, "x1", federationtest.At(4)), record.Rows().Failed(t.Context(), federation.PeerDestination("peer.example"), row, failure)); err != nil {
		t.Fatal(err)
	}
	want := []string{`message-1 {"n":1} 1 "away" "x1" at 9`, `message-2 {"n":2} 0 "" "" at 2`}
	if d := diff(want, owedTo(t, record)); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if first, err := record.PeerQueue(t.Context(), "peer.example", federationtest.At(1), 10); err != nil || len(first) != 1 || first[0].Row != row {
		t.Errorf("queued at first: %+v, %v", first, err)
	}
	slow, err := record.Slow(t.Context(), federationtest.At(1), 10)
	if err != nil || len(slow) != 1 || slow[0].Row != row {
		t.Errorf("slow %+v, %v", slow, err)
	}
	if err := record.Delayed(t.Context(), row, federationtest.At(5)); err != nil {
		t.Fatal(err)
	}
	if slow, err := record.Slow(t.Context(), federationtest.At(1), 10); err != nil || len(slow) != 0 {
		t.Errorf("slow after its sender was told: %+v, %v", slow, err)
	}
	for range 2 { // the second changes nothing
		settleDocuments(t, record, "peer.example", federation.Settlement{At: federationtest.At(6)}, row)
	}
	if d := diff(want[1:], owedTo(t, record)); d != "" {
		t.Errorf("pending after one was taken (-want +got):\n%s", d)
	}
}

func (s suite) testDeadRelays(t *testing.T) {
	record := s.open(t)
	for n := 1; n <= 3; n++ {
		if err := record.Enqueue(t.Context(), relay(n, "peer.example")); err != nil {
			t.Fatalf("Enqueue: %v", err)
		}
	}
	for i, r := range documents(t, record, "peer.example", "amy")[:2] {
		settleDocuments(t, record, "peer.example", refusedAt(10+i, "nobody there"), r.Row)
	}
	if got := owedTo(t, record); len(got) != 1 {
		t.Errorf("pending %v, want the third alone", got)
	}
	if slow, err := record.Slow(t.Context(), federationtest.At(9), 10); err != nil || len(slow) != 1 {
		t.Errorf("slow %+v, %v, want the third alone", slow, err)
	}
	dead, err := record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 1)
	if err != nil || len(dead) != 1 || dead[0].Message != "message-2" || dead[0].Why != "nobody there" || !dead[0].ToPeer || dead[0].To != "peer.example" {
		t.Errorf("dead %+v, %v, want the newest", dead, err)
	}
}

func (s suite) testRelayBacklogs(t *testing.T) {
	record := s.open(t)
	look := func(what string, want ...federation.PeerBacklog) {
		t.Helper()
		if got, err := record.PeerBacklogs(t.Context()); err != nil || diff(want, got) != "" {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	look("at first")
	for n, peer := range []string{"z.example", "peer.example", "peer.example", "peer.example"} {
		if err := record.Enqueue(t.Context(), relay(n, peer)); err != nil {
			t.Fatalf("Enqueue: %v", err)
		}
	}
	all := documents(t, record, "peer.example", "amy")
	if len(all) != 3 {
		t.Fatal(all)
	}
	settleDocuments(t, record, "peer.example", refusedAt(9, "nobody there"), all[0].Row)
	look("one is dead", federation.PeerBacklog{Peer: "peer.example", Rows: 2, Oldest: federationtest.At(2), Dead: 1}, federation.PeerBacklog{Peer: "z.example", Rows: 1, Oldest: federationtest.At(0)})
	settleDocuments(t, record, "peer.example", federation.Settlement{At: federationtest.At(10)}, all[1].Row, all[2].Row)
	look("nothing waits for one", federation.PeerBacklog{Peer: "peer.example", Dead: 1}, federation.PeerBacklog{Peer: "z.example", Rows: 1, Oldest: federationtest.At(0)})
}

func (s suite) testPausedPeers(t *testing.T) {
	record := s.open(t)
	if err := record.Enqueue(t.Context(), relay(1, "peer.example")); err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	for _, p := range []federation.PeerOutbox{
		{Name: "peer.example", Failures: 1, Next: federationtest.At(5)}, {Name: "peer.example", Failures: 2, Next: federationtest.At(9)}, {Name: "peer.example"},
	} {
		for _, p := range []federation.PeerOutbox{p, {Name: "z.example", Failures: 1, Next: federationtest.At(1)}} { // no delivery to z.example is pending
			if err := record.Rows().Pause(t.Context(), federation.PeerDestination(p.Name), p.Failures, p.Next); err != nil {
				t.Fatalf("Pause: %v", err)
			}
		}
		if peers, err := record.PeerOutboxes(t.Context()); err != nil || diff([]federation.PeerOutbox{p}, peers) != "" {
			t.Errorf("peers %+v, %v, want %+v", peers, err, p)
		}
	}
}

// A decision is queued once however often it is made, until it was told.
func (s suite) testDecisionsInTheQueue(t *testing.T) {
	record := s.open(t)
	decision := relay(1, "peer.example")
	decision.Kind = federation.DecisionDelivery
	other := decision
	other.Message = "message-2"
	for _, r := range []federation.PeerDelivery{decision, other, decision, decision} {
		if err := record.Enqueue(t.Context(), r); err != nil {
			t.Fatalf("Enqueue: %v", err)
		}
	}
	all := documents(t, record, "peer.example", "amy")
	if len(all) != 2 || all[0].Kind != federation.DecisionDelivery || all[1].Message != "message-2" {
		t.Fatalf("%+v", all)
	}
	if slow, err := record.Slow(t.Context(), federationtest.At(9), 10); err != nil || len(slow) != 0 {
		t.Errorf("slow: %+v, %v, want none: nobody is told of a decision", slow, err)
	}
	settleDocuments(t, record, "peer.example", federation.Settlement{At: federationtest.At(10)}, all[0].Row)
	if err := record.Enqueue(t.Context(), decision); err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	if all := documents(t, record, "peer.example", "amy"); len(all) != 2 || all[0].Message != "message-2" {
		t.Errorf("%+v, want it once more, at the end", all)
	}
}

func (s suite) testRelayIDs(t *testing.T) {
	record := s.open(t)
	r := relay(1, "peer.example")
	m := post(t, record, agents.Posting{Message: federationtest.Message(1, "a", "amy@peer.example"), Relay: &r})
	all := documents(t, record, "peer.example", "amy")
	for _, id := range []string{"try-1", "try-2"} {
		if err := record.Attempted(t.Context(), all[0].Row, id, federationtest.At(2)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"try-1", "try-2", m.ID} {
		if got, err := record.Named(t.Context(), "amy@peer.example", id); err != nil || got.ID != m.ID {
			t.Errorf("Named %s: %+v, %v", id, got, err)
		}
	}
	if _, err := record.Named(t.Context(), "bob@peer.example", "try-1"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Named by another handle: %v, want ErrNotFound", err)
	}
}

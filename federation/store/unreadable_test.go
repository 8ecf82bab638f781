package store_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func breakRows(t *testing.T, dir string) {
	t.Helper()
	db := raw(t, dir)
	for _, damage := range []string{`UPDATE event SET body = '{"verb":' WHERE seq = 2`, `UPDATE document SET handoff = 'nothing' WHERE n = 1`} {
		if _, err := db.ExecContext(t.Context(), damage); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
	}
}

func TestUnreadableRowStopsNoOther(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	record := open(t, dir, prometheus.NewRegistry())
	for n := 1; n <= 3; n++ {
		f := offer(n)
		f.Links = []string{"oftc"}
		if _, err := record.Append(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= 2; n++ {
		sent := federation.PeerDelivery{Peer: "peer.example", Sender: "scout", Message: federationtest.ID(n).String(), OrderKey: "a", Document: []byte("{}"), Handoff: federationtest.ID(n), Queued: federationtest.At(n)}
		if err := record.Enqueue(ctx, sent); err != nil {
			t.Fatal(err)
		}
	}
	breakRows(t, dir)

	pending, err := record.Outbox(ctx, "oftc", federation.Delivery{}, 10)
	if err != nil || len(pending) != 3 || pending[0].Broken != "" || pending[1].Broken == "" || pending[2].Broken != "" {
		t.Fatalf("owed are %+v, %v; want three, of which the second cannot be read", pending, err)
	}
	steps, err := record.Rows().PendingOf(ctx, "oftc", federationtest.ID(2).String(), 10)
	if err != nil || len(steps) != 1 || steps[0].Broken != pending[1].Broken {
		t.Errorf("its handoff has %+v, %v", steps, err)
	}
	relays := documents(t, record, "peer.example", "a")
	if len(relays) == 0 || !relays[0].Handoff.IsZero() || string(relays[0].Document) != "{}" {
		t.Errorf("queued are %+v; want the first as it is, about no handoff", relays)
	}
	waiting, _, err := record.WaitingFor(ctx, federation.WaitingFilter{}, "", 10)
	if err != nil || len(waiting) != 5 || !strings.HasPrefix(waiting[3].Reason, "the row cannot be read: ") {
		t.Errorf("waiting are %+v, %v; want all five, the fourth with what is wrong", waiting, err)
	}
	gone := federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadBroken, Why: pending[1].Broken, At: federationtest.At(9)}
	if err := record.Rows().Settle(ctx, "oftc", []int64{pending[1].Row}, gone); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	dead, err := record.DeadLetter(ctx, 1)
	if err != nil || dead.Broken == "" || string(dead.Raw) != `{"verb":` || dead.Reason != federation.DeadBroken {
		t.Errorf("the dead letter is %+v, %v", dead, err)
	}
	given := federation.Settlement{State: federation.DeliveryDelivered, At: federationtest.At(9)}
	if err := record.Rows().Settle(ctx, "oftc", []int64{pending[0].Row, pending[2].Row}, given); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	if _, err := raw(t, dir).ExecContext(ctx, `UPDATE event SET body = '{' WHERE seq = 1`); err != nil {
		t.Fatal(err)
	}
	done, err := record.ListCompleted(ctx, "oftc", federationtest.At(0), 10)
	var rows []int64
	for _, d := range done {
		rows = append(rows, d.Row)
	}
	if diff := cmp.Diff([]int64{pending[2].Row}, rows); err != nil || diff != "" {
		t.Errorf("given: %v (-want +got):\n%s", err, diff)
	}
}

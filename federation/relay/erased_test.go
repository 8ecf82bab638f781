package relay_test

import (
	"context"
	"iter"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

// erasedRecord is the record of a home whose operator erased the content of every handoff.
type erasedRecord struct{ relay.Record }

func (r erasedRecord) Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		for entry, err := range r.Record.Log(ctx, id, after) {
			entry.Event = entry.Event.Erase(federationtest.At(9))
			if !yield(entry, err) {
				return
			}
		}
	}
}

func TestDeliverSendsNoErasedSteps(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := acceptedAt(t, a, b)
	stop()
	older := restored(t, b, a)
	a.deps.Record = erasedRecord{a.deps.Record}
	a.peers[b.id] = relay.NewPeer(relay.PeerConfig{Home: b.id, URL: b.server.URL, Mode: relay.Allow}, a.deps)
	done, err := a.peers[b.id].CompareNow(t.Context())
	if err != nil || len(done.Lost) != 1 || done.Lost[0].Handoff != offer.ID || done.Lost[0].Why != "an operator erased its content" {
		t.Errorf("the comparison ends with %+v, %v", done, err)
	}
	if view, err := older.record.View(t.Context(), offer.ID); err != nil || view.Exists() {
		t.Errorf("the restored home has %+v, %v", view, err)
	}
}

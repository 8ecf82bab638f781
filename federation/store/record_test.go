package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/federation"
	"baton/federation/federationtest"
)

const cleo = federation.DID("did:plc:cleo00000000000000000000")

// suite has one test of a port as each of its methods.
type suite struct {
	open func(t *testing.T) federationtest.Record
}

// RunRecord holds a record to everything that [federationtest.Record] promises. Each
// call of open returns an empty record and sees to its end.
func RunRecord(t *testing.T, open func(t *testing.T) federationtest.Record) {
	t.Helper()
	t.Run("store", func(t *testing.T) { RunStore(t, open) })
	t.Run("handoffs", func(t *testing.T) { RunHandoffs(t, open) })
	t.Run("inboxes", func(t *testing.T) { RunInboxes(t, open) })
	t.Run("leases", func(t *testing.T) { RunLeases(t, open) })
	t.Run("devices", func(t *testing.T) { RunDevices(t, open) })
	t.Run("outboxes", func(t *testing.T) { RunOutbox(t, open) })
	t.Run("bindings", func(t *testing.T) { RunBindings(t, open) })
	t.Run("bound names", func(t *testing.T) { RunBoundNames(t, open) })
	t.Run("deliveries", func(t *testing.T) { RunDeliveries(t, open) })
	t.Run("keys", func(t *testing.T) { RunKeys(t, open) })
	t.Run("registry", func(t *testing.T) { RunRegistry(t, open) })
	t.Run("retention", func(t *testing.T) { RunRetention(t, open) })
	t.Run("pending rulings", func(t *testing.T) { RunPendingRulings(t, open) })
	t.Run("notices", func(t *testing.T) { RunNotices(t, open) })
	t.Run("deferrals", func(t *testing.T) { RunDeferrals(t, open) })
	t.Run("homes", func(t *testing.T) { RunHomes(t, open) })
	t.Run("blobs", func(t *testing.T) { RunBlobs(t, open) })
	t.Run("order of deliveries", func(t *testing.T) { RunOrder(t, open) })
	t.Run("dead letters", func(t *testing.T) { RunDeadLetters(t, open) })
	t.Run("waits", func(t *testing.T) { RunWaits(t, open) })
	t.Run("reroutes", func(t *testing.T) { RunReroutes(t, open) })
	t.Run("audit", func(t *testing.T) { RunAudit(t, open) })
	t.Run("tokens", func(t *testing.T) { RunTokens(t, open) })
	t.Run("answers", func(t *testing.T) { RunAnswers(t, open) })
	t.Run("replica leases", func(t *testing.T) { RunReplicaLeases(t, open) })
	t.Run("spoken", func(t *testing.T) { RunSpoken(t, open) })
	t.Run("webhooks", func(t *testing.T) { RunWebhooks(t, open) })
	t.Run("own keys", func(t *testing.T) { RunOwnKeys(t, open) })
	t.Run("newcomers", func(t *testing.T) { RunNewcomers(t, open) })
	t.Run("unread", func(t *testing.T) { RunUnread(t, open) })
	t.Run("blocks", func(t *testing.T) { RunBlocks(t, open) })
	t.Run("purges", func(t *testing.T) { RunPurges(t, open) })
	t.Run("snapshots", func(t *testing.T) { RunSnapshots(t, open) })

	t.Run("a record that can be written is ready", func(t *testing.T) {
		record := open(t)
		for range 2 {
			if err := record.Ready(t.Context()); err != nil {
				t.Errorf("Ready: %v", err)
			}
		}
	})
	t.Run("a closed record is unavailable, and may be closed again", func(t *testing.T) {
		record := open(t)
		for range 2 {
			if err := record.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		_, read := record.View(t.Context(), federationtest.ID(1))
		_, written := record.Append(t.Context(), federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
		for _, err := range []error{record.Ready(t.Context()), read, written} {
			if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
				t.Errorf("error is %v, want one wrapping *UnavailableError", err)
			}
		}
	})
	t.Run("a call whose context ended does nothing", func(t *testing.T) {
		record := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := record.Append(ctx, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})); !errors.Is(err, context.Canceled) {
			t.Errorf("Append: %v, want context.Canceled", err)
		}
		if view, err := record.View(t.Context(), federationtest.ID(1)); err != nil || view.Exists() {
			t.Errorf("View = %+v, %v, want none", view, err)
		}
	})
}

// diff compares what went in with what came out, times as moments, absent lists
// as empty ones.
func diff(want, got any) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// bare is an event as it comes out: the bytes of its evidence are kept beside it.
func withoutBytes(ev federation.Event) federation.Event {
	if ev.Evidence != nil {
		evidence := *ev.Evidence
		evidence.Bytes = nil
		ev.Evidence = &evidence
	}
	return ev
}

// mustAppend files one step, which has to succeed for the test to make sense.
func mustAppend(t *testing.T, record federationtest.Store, f federation.Filing) federation.Entry {
	t.Helper()
	entry, err := record.Append(t.Context(), f)
	if err != nil {
		t.Fatalf("Append(%s %s): %v", f.Event.Verb, f.Event.ID, err)
	}
	return entry
}

// log reads a whole log.
func log(t *testing.T, record federationtest.Store, id federation.HandoffID) []federation.Entry {
	t.Helper()
	var steps []federation.Entry
	for entry, err := range record.Log(t.Context(), id, 0) {
		if err != nil {
			t.Fatalf("Log(%s): %v", id, err)
		}
		steps = append(steps, entry)
	}
	return steps
}

// refusal returns the code of a refusal, "" for anything else.
func refusal(err error) federation.RefusalCode {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return refused.Code
	}
	return ""
}

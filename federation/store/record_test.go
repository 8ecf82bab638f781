package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const cleo = federation.DID("did:plc:cleo00000000000000000000")

// suite has one test of a subject as each of its methods.
type suite struct {
	open func(t *testing.T) *registry.Record
}

// runRecord runs all suites. Each call of open returns an empty record and sees to its end.
func runRecord(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("store", func(t *testing.T) { runStore(t, open) })
	t.Run("handoffs", func(t *testing.T) { runHandoffs(t, open) })
	t.Run("inboxes", func(t *testing.T) { runInboxes(t, open) })
	t.Run("leases", func(t *testing.T) { runLeases(t, open) })
	t.Run("devices", func(t *testing.T) { runDevices(t, open) })
	t.Run("outboxes", func(t *testing.T) { runOutbox(t, open) })
	for name, kind := range destinationKinds() {
		t.Run("deliveries to a "+name, suite{open}.testKind(kind))
	}
	t.Run("destinations are taken by one worker at a time", suite{open}.testTake)
	t.Run("the end of the first row of a lane makes its destination due", suite{open}.testEndedFirst)
	t.Run("bindings", func(t *testing.T) { runBindings(t, open) })
	t.Run("bound names", func(t *testing.T) { runBoundNames(t, open) })
	t.Run("deliveries", func(t *testing.T) { runDeliveries(t, open) })
	t.Run("keys", func(t *testing.T) { runKeys(t, open) })
	t.Run("registry", func(t *testing.T) { runRegistry(t, open) })
	t.Run("retention", func(t *testing.T) { runRetention(t, open) })
	t.Run("pending rulings", func(t *testing.T) { runPendingRulings(t, open) })
	t.Run("notices", func(t *testing.T) { runNotices(t, open) })
	t.Run("deferrals", func(t *testing.T) { runDeferrals(t, open) })
	t.Run("homes", func(t *testing.T) { runHomes(t, open) })
	t.Run("blobs", func(t *testing.T) { runBlobs(t, open) })
	t.Run("order of deliveries", func(t *testing.T) { runOrder(t, open) })
	t.Run("dead letters", func(t *testing.T) { runDeadLetters(t, open) })
	t.Run("waits", func(t *testing.T) { runWaits(t, open) })
	t.Run("reroutes", func(t *testing.T) { runReroutes(t, open) })
	t.Run("audit", func(t *testing.T) { runAudit(t, open) })
	t.Run("tokens", func(t *testing.T) { runTokens(t, open) })
	t.Run("login codes", func(t *testing.T) { runLoginCodes(t, open) })
	t.Run("answers", func(t *testing.T) { runAnswers(t, open) })
	t.Run("replica leases", func(t *testing.T) { runReplicaLeases(t, open) })
	t.Run("spoken", func(t *testing.T) { runSpoken(t, open) })
	t.Run("webhooks", func(t *testing.T) { runWebhooks(t, open) })
	t.Run("own keys", func(t *testing.T) { runOwnKeys(t, open) })
	t.Run("newcomers", func(t *testing.T) { runNewcomers(t, open) })
	t.Run("unread", func(t *testing.T) { runUnread(t, open) })
	t.Run("blocks", func(t *testing.T) { runBlocks(t, open) })
	t.Run("purges", func(t *testing.T) { runPurges(t, open) })
	t.Run("snapshots", func(t *testing.T) { runSnapshots(t, open) })

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

// diff compares input and output, times as moments, absent lists
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

func mustAppend(t *testing.T, record *registry.Record, f federation.Filing) federation.Entry {
	t.Helper()
	entry, err := record.Append(t.Context(), f)
	if err != nil {
		t.Fatalf("Append(%s %s): %v", f.Event.Verb, f.Event.ID, err)
	}
	return entry
}

func log(t *testing.T, record *registry.Record, id federation.HandoffID) []federation.Entry {
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

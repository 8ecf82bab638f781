//go:build interop

package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// filesTogether fills the inboxes of two DIDs, two outboxes and a webhook by one batch, and
// then moves all of its handoffs by another.
func filesTogether(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	const offers = 8
	eve := federation.DID("did:plc:eve000000000000000000000")
	dsn := server.Record(t)
	record := openPostgres(t, dsn)
	hook := federation.Webhook{ID: federationtest.ID(900), DID: bob, URL: "https://hooks.example/", Since: federationtest.At(1)}
	if err := record.AddWebhook(t.Context(), hook, 1); err != nil {
		t.Fatalf("AddHook: %v", err)
	}
	var opened, accepted []federation.Filing
	for n := range offers {
		to := []federation.DID{bob, eve}[n%2]
		offer := federationtest.File(federationtest.Offer(10+n, ada, to), federation.View{})
		accept := federationtest.File(federationtest.Step(30+n, offer.Event, federation.Accept, to), offer.View)
		for i, f := range []*federation.Filing{&offer, &accept} {
			receipt := federationtest.Confirm(50+offers*i+n, f.Event)
			f.Receipt, f.Links = &receipt, []string{"oftc", "libera"}
		}
		opened, accepted = append(opened, offer), append(accepted, accept)
	}
	for _, batch := range [][]federation.Filing{opened, accepted} {
		for i, err := range appendTogether(t, record, func() func() { return lockWriters(t, dsn) }, batch...) {
			if err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	}
	checkSound(t, dsn)
	for _, did := range []federation.DID{bob, eve} {
		checkInbox(t, record, did, offers/2)
	}
	checkInbox(t, record, ada, offers)
	for _, link := range []string{"oftc", "libera"} {
		checkOutbox(t, record, link, opened, accepted)
	}
	if pending, err := record.WebhookBacklog(t.Context(), hook.ID); err != nil || pending.Rows != offers/2 {
		t.Errorf("HookBacklog = %+v, %v, want %d waiting", pending, err, offers/2)
	}
	for n, state := range []federation.State{federation.Offered, federation.Assigned} {
		views, _, err := record.Handoffs(t.Context(), federation.Filter{DIDs: []federation.DID{eve}, State: state}, "", 100)
		if want := n * offers / 2; err != nil || len(views) != want {
			t.Errorf("eve has %d handoffs that are %s, %v, want %d", len(views), state, err, want)
		}
	}
}

func checkInbox(t *testing.T, record *registry.Record, did federation.DID, want int) {
	t.Helper()
	entries, err := record.Replay(t.Context(), did, "", 100)
	if err != nil || len(entries) != want {
		t.Fatalf("%s has %d entries, %v, want %d", did, len(entries), err, want)
	}
	size := int64(0)
	for i, entry := range entries {
		size += int64(len(entry.Event.Signature.Document))
		if entry.Number != uint64(i)+1 {
			t.Errorf("entry %d of %s has number %d", i+1, did, entry.Number)
		}
	}
	if waiting, bytes, err := record.Waiting(t.Context(), did); err != nil || waiting != want || bytes != size {
		t.Errorf("%s: %d wait with %d bytes, %v, want %d with %d", did, waiting, bytes, err, want, size)
	}
}

// checkOutbox checks the outbox of a link: the steps of each handoff, each before its receipt,
// and the first of them due now.
func checkOutbox(t *testing.T, record *registry.Record, link string, opened, accepted []federation.Filing) {
	t.Helper()
	due, err := record.Rows().Heads(t.Context(), link, federationtest.At(1000), 100)
	if err != nil || len(due) != len(opened) {
		t.Errorf("%d handoffs are due to %s, %v, want %d", len(due), link, err, len(opened))
	}
	for n := range opened {
		steps, err := record.Rows().PendingOf(t.Context(), link, opened[n].Event.Handoff.String(), 100)
		if err != nil {
			t.Fatalf("Lane: %v", err)
		}
		var got []federation.EventID
		for _, pending := range steps {
			got = append(got, pending.Entry.Event.ID)
		}
		want := []federation.EventID{opened[n].Event.ID, opened[n].Receipt.ID, accepted[n].Event.ID, accepted[n].Receipt.ID}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is owed of a handoff (-want +got):\n%s", link, diff)
		}
	}
}

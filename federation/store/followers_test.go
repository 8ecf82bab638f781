package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func follow(t *testing.T, record *registry.Record, n int, id federation.HandoffID) federation.Webhook {
	t.Helper()
	h := federation.Webhook{ID: federationtest.ID(9000 + n), DID: ada, Handoff: id, Label: "one", Sealed: []byte{1, 2}, URL: "https://hooks.example/1", Since: federationtest.At(n)}
	if err := record.AddWebhook(t.Context(), h, 10); err != nil {
		t.Fatalf("AddWebhook: %v", err)
	}
	return h
}

func (s suite) testFollower(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	offer, other := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}), federationtest.File(federationtest.Offer(2, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, other)
	inbox, h := addWebhook(t, record, 1, ada), follow(t, record, 2, offer.Event.ID)
	accept := federationtest.File(federationtest.Step(3, offer.Event, federation.Accept, bob), offer.View)
	mustAppend(t, record, accept)
	mustAppend(t, record, federationtest.File(federationtest.Step(4, offer.Event, federation.Cancel, ada), accept.View)) // which is in no inbox of ada
	mustAppend(t, record, federationtest.File(federationtest.Step(5, other.Event, federation.Accept, bob), other.View))
	if d := diff([]string{line(4, federation.DeliveryWaiting), line(3, federation.DeliveryWaiting)}, pushed(t, record, h)); d != "" {
		t.Errorf("deliveries to the follower (-want +got):\n%s", d)
	}
	if d := diff([]string{line(5, federation.DeliveryWaiting), line(3, federation.DeliveryWaiting)}, pushed(t, record, inbox)); d != "" {
		t.Errorf("deliveries to the webhook of the inbox (-want +got):\n%s", d)
	}
	if got := takenWebhooks(t, record, 10, 10); len(got) != 2 {
		t.Errorf("due are %v", got)
	}
	head := next(t, record, h, 10)
	if head.Entry.State != federation.Assigned || head.Entry.Version != 2 || head.Entry.Event.Verb != federation.Accept {
		t.Errorf("the first delivery has %+v", head.Entry)
	}
	if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{head.Item}, federation.Settlement{At: federationtest.At(10)}); err != nil {
		t.Fatal(err)
	}
	if got := next(t, record, h, 10); got.Ref() != federationtest.ID(4).String() {
		t.Errorf("the second delivery is %s", got.Ref())
	}
	if entries, _, err := record.Waiting(ctx, ada); entries != 1 || err != nil {
		t.Errorf("%d entries wait in the inbox, %v; want the one that no follower took", entries, err)
	}
}

func (s suite) testFollowerEnds(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	h := follow(t, record, 1, offer.Event.ID)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Cancel, ada), offer.View))
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	if n, _, err := record.Prune(ctx, federationtest.At(100), federationtest.At(100), "", 10); n != 1 || err != nil {
		t.Fatalf("Prune = %d, %v", n, err)
	}
	if _, err := record.Webhook(ctx, h.ID); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("the follower of a pruned handoff: %v", err)
	}
	if b, err := record.WebhooksBacklog(ctx); b.Rows != 0 || err != nil {
		t.Errorf("%d deliveries wait, %v", b.Rows, err)
	}
}

func (s suite) testFollowers(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	offer, other := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}), federationtest.File(federationtest.Offer(2, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, other)
	first, elsewhere := follow(t, record, 1, offer.Event.ID), follow(t, record, 2, other.Event.ID)
	second := first
	second.ID = federationtest.ID(9003)
	if err := record.AddWebhook(ctx, second, 10); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("the same address and label again: %v", err)
	}
	second.Label = "two"
	for most, want := range []error{0: federation.ErrTooManyWebhooks, 1: federation.ErrTooManyWebhooks, 2: nil} {
		if err := record.AddWebhook(ctx, second, most); !errors.Is(err, want) {
			t.Errorf("a second follower of at most %d: %v, want %v", most, err, want)
		}
	}
	got, err := record.Followers(ctx, ada, offer.Event.ID)
	if d := diff([]federation.Webhook{first, second}, got); d != "" || err != nil {
		t.Errorf("Followers: %v (-want +got):\n%s", err, d)
	}
	if got, err := record.Followers(ctx, bob, offer.Event.ID); len(got) != 0 || err != nil {
		t.Errorf("Followers of another DID: %v, %v", got, err)
	}
	if got, err := record.Webhooks(ctx, ada, federation.WebhookID{}, 10); len(got) != 0 || err != nil {
		t.Errorf("the webhooks of the DID have followers: %v, %v", got, err)
	}
	all, err := record.Webhooks(ctx, "", federation.WebhookID{}, 10)
	if d := diff([]federation.Webhook{first, elsewhere, second}, all); d != "" || err != nil {
		t.Errorf("all webhooks: %v (-want +got):\n%s", err, d)
	}
}

func (s suite) testFollowerEnabled(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	h := follow(t, record, 1, offer.Event.ID)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	mustAppend(t, record, accept)
	if err := record.DisableWebhook(ctx, h.ID, "gone", federationtest.At(5)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, record, federationtest.File(federationtest.Step(3, offer.Event, federation.Progress, bob), accept.View))
	if d := diff([]string{line(2, federation.DeliveryRefused)}, pushed(t, record, h)); d != "" {
		t.Errorf("while it is disabled (-want +got):\n%s", d)
	}
	if err := record.EnableWebhook(ctx, h); err != nil {
		t.Fatal(err)
	}
	if got := next(t, record, h, 10); got.Ref() != accept.Event.ID.String() {
		t.Errorf("due is %s", got.Ref())
	}
}

package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runWebhooks(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a webhook is there until it is removed", s.testHook)
	t.Run("a DID has so many webhooks, and each address once", s.testHooksOfDID)
	t.Run("a webhook gets the entries that wait and those that come, and no others", s.testOwedToHook)
	t.Run("what is behind another step of its handoff waits for that", s.testPushLane)
	t.Run("a webhook that is taken has one worker until it is let go, or time is over", s.testTakenHook)
	t.Run("webhooks take turns", s.testTurns)
	t.Run("the sender of each due push is known", s.testDueSenders)
	t.Run("a webhook is let go until later", s.testLetGoUntil)
	t.Run("a failure is counted and tried again in its time", s.testPushFailed)
	t.Run("what a webhook took waits in the inbox no more", s.testPushed)
	t.Run("what is given up is a dead letter, and can be put back from there", s.testPushDead)
	t.Run("what was over is made again", s.testPushAgain)
	t.Run("a disabled webhook gets nothing more", s.testDisabled)
	t.Run("an enabled webhook gets the entries that wait and those that come", s.testEnabled)
	t.Run("the webhook of an agent gets its messages once they are delivered", s.testMessagePushes)
	t.Run("a pruned step is not pushed", s.testPrunedPush)
	t.Run("a webhook that follows a handoff gets each step of it, and no others", s.testFollower)
	t.Run("a follower ends with its handoff", s.testFollowerEnds)
	t.Run("a handoff has so many followers of a DID", s.testFollowers)
	t.Run("a follower that is enabled again gets what was refused", s.testFollowerEnabled)
}

func addWebhook(t *testing.T, record *registry.Record, n int, of federation.DID) federation.Webhook {
	t.Helper()
	h := federation.Webhook{ID: federationtest.ID(9000 + n), DID: of, URL: fmt.Sprintf("https://hooks.example/%d", n), Since: federationtest.At(n)}
	if err := record.AddWebhook(t.Context(), h, 10); err != nil {
		t.Fatalf("AddHook: %v", err)
	}
	return h
}

func takenWebhooks(t *testing.T, record *registry.Record, now, limit int) (names []string) {
	t.Helper()
	taken, err := record.Rows().Take(t.Context(), federation.ToWebhook, federationtest.At(now), federationtest.At(now+60), limit)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	for _, each := range taken {
		names = append(names, each.Name)
	}
	return names
}

func (s suite) testHook(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	if _, err := record.Webhook(ctx, federationtest.ID(9001)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Webhook of an unknown id: %v", err)
	}
	first, second := addWebhook(t, record, 1, ada), addWebhook(t, record, 2, bob)
	got, err := record.Webhook(ctx, first.ID)
	if d := diff(first, got); d != "" || err != nil {
		t.Errorf("Hook: %v (-want +got):\n%s", err, d)
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, bob, ada), federation.View{}))
	for _, want := range []error{nil, federation.ErrNotFound} {
		if err := record.RemoveWebhook(ctx, first.ID); !errors.Is(err, want) {
			t.Errorf("RemoveHook: %v, want %v", err, want)
		}
	}
	left, err := record.Webhooks(ctx, "", federation.WebhookID{}, 10)
	if d := diff([]federation.Webhook{second}, left); d != "" || err != nil {
		t.Errorf("Hooks: %v (-want +got):\n%s", err, d)
	}
	if b, err := record.WebhooksBacklog(ctx); b.Rows != 0 || err != nil {
		t.Errorf("%d wait for a webhook that is gone, %v", b.Rows, err)
	}
}

func (s suite) testHooksOfDID(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	first, second := addWebhook(t, record, 1, ada), addWebhook(t, record, 2, ada)
	addWebhook(t, record, 3, bob)
	same := federation.Webhook{ID: federationtest.ID(9009), DID: ada, URL: first.URL, Since: federationtest.At(4)}
	if err := record.AddWebhook(ctx, same, 10); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("the same address again: %v", err)
	}
	same.URL = "https://hooks.example/other"
	if err := record.AddWebhook(ctx, same, 2); !errors.Is(err, federation.ErrTooManyWebhooks) {
		t.Errorf("one too many: %v", err)
	}
	for _, tt := range []struct {
		after federation.WebhookID
		limit int
		want  []federation.Webhook
	}{
		{federation.WebhookID{}, 10, []federation.Webhook{first, second}},
		{federation.WebhookID{}, 1, []federation.Webhook{first}},
		{first.ID, 10, []federation.Webhook{second}},
	} {
		got, err := record.Webhooks(ctx, ada, tt.after, tt.limit)
		if d := diff(tt.want, got); d != "" || err != nil {
			t.Errorf("Hooks after %q: %v (-want +got):\n%s", tt.after, err, d)
		}
	}
}

func (s suite) testOwedToHook(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	read, waits := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}), federationtest.File(federationtest.Offer(2, ada, bob), federation.View{})
	mustAppend(t, record, read)
	mustAppend(t, record, waits)
	if err := record.Read(ctx, bob, []federation.EventID{read.Event.ID}, federationtest.At(100)); err != nil {
		t.Fatal(err)
	}
	h := addWebhook(t, record, 1, bob)
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	mustAppend(t, record, federationtest.File(federationtest.Offer(4, ada, cleo), federation.View{}))
	if d := diff([]string{line(3, federation.DeliveryWaiting), line(2, federation.DeliveryWaiting)}, pushed(t, record, h)); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	inbox, err := record.Replay(ctx, bob, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(inbox[1], next(t, record, h, 10).Entry); d != "" {
		t.Errorf("an entry of the inbox (-want +got):\n%s", d)
	}
	all, err := record.WebhookBacklog(ctx, h.ID)
	if want := (federation.Backlog{Rows: 2, Oldest: waits.Filed}); all.Backlog != want || all.Dead != 0 || err != nil {
		t.Errorf("HookBacklog: %+v, %v, want %+v", all, err, want)
	}
	page, err := record.Pushes(ctx, h.ID, 0, 1)
	if err != nil || len(page) != 1 {
		t.Fatalf("Pushes: %d, %v", len(page), err)
	}
	rest, err := record.Pushes(ctx, h.ID, page[0].Item, 10)
	if err != nil || len(rest) != 1 || rest[0].Ref() != waits.Event.ID.String() {
		t.Errorf("the next page: %v, %v", rest, err)
	}
}

func (s suite) testTakenHook(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	if got := takenWebhooks(t, record, 1, 10); len(got) != 0 {
		t.Errorf("a webhook to which nothing is due is taken: %v", got)
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	for _, tt := range []struct {
		at   int
		want []string
	}{{2, []string{federation.WebhookName(h.ID)}}, {3, nil}, {61, nil}, {62, []string{federation.WebhookName(h.ID)}}} {
		if d := diff(tt.want, takenWebhooks(t, record, tt.at, 10)); d != "" {
			t.Errorf("taken at %d (-want +got):\n%s", tt.at, d)
		}
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(2, ada, bob), federation.View{}))
	if got := takenWebhooks(t, record, 63, 10); len(got) != 0 {
		t.Error("what comes lets a second one in")
	}
	if err := record.Rows().Unlock(ctx, federation.WebhookName(h.ID), federationtest.At(64)); err != nil {
		t.Fatal(err)
	}
	if d := diff([]string{federation.WebhookName(h.ID)}, takenWebhooks(t, record, 64, 10)); d != "" {
		t.Errorf("let go (-want +got):\n%s", d)
	}
}

func (s suite) testTurns(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	first, second := addWebhook(t, record, 1, ada), addWebhook(t, record, 2, bob)
	for n := 1; n <= 2; n++ {
		mustAppend(t, record, federationtest.File(federationtest.Offer(n, cleo, ada), federation.View{}))
		mustAppend(t, record, federationtest.File(federationtest.Offer(10+n, cleo, bob), federation.View{}))
	}
	for n, want := range []federation.Webhook{first, second, first, second} {
		if d := diff([]string{federation.WebhookName(want.ID)}, takenWebhooks(t, record, 100+n, 1)); d != "" {
			t.Errorf("turn %d (-want +got):\n%s", n, d)
		}
		if err := record.Rows().Unlock(ctx, federation.WebhookName(want.ID), federationtest.At(100+n)); err != nil {
			t.Fatal(err)
		}
	}
}

func (s suite) testLetGoUntil(t *testing.T) {
	record := s.open(t)
	h := addWebhook(t, record, 1, bob)
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	letGo := func() {
		t.Helper()
		if got := takenWebhooks(t, record, 10, 1); len(got) != 1 {
			t.Fatalf("%d webhooks are due", len(got))
		}
		if err := record.Rows().Unlock(t.Context(), federation.WebhookName(h.ID), federationtest.At(50)); err != nil {
			t.Fatal(err)
		}
		if got := takenWebhooks(t, record, 49, 1); len(got) != 0 {
			t.Error("it is due before its time")
		}
	}
	letGo()
	if due, err := record.Rows().NextDue(t.Context(), federation.ToWebhook, federationtest.At(10)); !due.Equal(federationtest.At(50)) || err != nil {
		t.Errorf("due next at %v, %v, want %v", due, err, federationtest.At(50))
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(2, ada, bob), federation.View{}))
	letGo() // new deliveries are due at once
	if got := takenWebhooks(t, record, 50, 1); len(got) != 1 {
		t.Error("it is not due at its time")
	}
}

func (s suite) testDisabled(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Cancel, ada), offer.View))
	for n := range 2 {
		if err := record.DisableWebhook(ctx, h.ID, "status 410", federationtest.At(10+n)); err != nil {
			t.Fatalf("DisableHook: %v", err)
		}
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	if d := diff([]string{line(2, federation.DeliveryRefused), line(1, federation.DeliveryRefused)}, pushed(t, record, h)); d != "" {
		t.Errorf("pushes (-want +got):\n%s", d)
	}
	nothing(t, record, h, 1000)
	if got := takenWebhooks(t, record, 1000, 1); len(got) != 0 {
		t.Error("a webhook that is disabled is due")
	}
	if n, err := record.PushAgain(ctx, h.ID, "", federationtest.At(20)); n != 0 || err != nil {
		t.Errorf("PushAgain = %d, %v", n, err)
	}
	got, err := record.Webhook(ctx, h.ID)
	h.Disabled, h.Why = federationtest.At(10), "status 410"
	if d := diff(h, got); d != "" || err != nil {
		t.Errorf("Hook: %v (-want +got):\n%s", err, d)
	}
	if n, _, err := record.Waiting(ctx, bob); n != 3 || err != nil {
		t.Errorf("%d wait in the inbox, %v, want 3", n, err)
	}
}

func (s suite) testEnabled(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	dead(t, record, h, 5)
	for n := 2; n <= 3; n++ {
		mustAppend(t, record, federationtest.File(federationtest.Offer(n, ada, bob), federation.View{}))
	}
	if err := record.Rows().Failed(ctx, federation.WebhookName(h.ID), next(t, record, h, 6).Item, federation.Failure{Reason: "status 502", At: federationtest.At(6), Next: federationtest.At(7)}); err != nil {
		t.Fatal(err)
	}
	if err := record.DisableWebhook(ctx, h.ID, "status 410", federationtest.At(10)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, record, federationtest.File(federationtest.Step(4, offer.Event, federation.Cancel, ada), offer.View))
	if err := record.Read(ctx, bob, []federation.EventID{federationtest.ID(3)}, federationtest.At(11)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := record.EnableWebhook(ctx, h); err != nil {
			t.Fatalf("EnableHook: %v", err)
		}
	}
	want := []string{line(4, federation.DeliveryWaiting), line(3, federation.DeliveryRefused), line(2, federation.DeliveryWaiting), line(1, federation.DeliveryDead)}
	if d := diff(want, pushed(t, record, h)); d != "" {
		t.Errorf("pushes (-want +got):\n%s", d)
	}
	if got, err := record.Webhook(ctx, h.ID); diff(h, got) != "" || err != nil {
		t.Errorf("Hook: %+v, %v, want %+v", got, err, h)
	}
	if got := takenWebhooks(t, record, 20, 10); len(got) != 1 {
		t.Errorf("%d webhooks are due after it was enabled", len(got))
	}
	for _, want := range []int{2, 4} {
		p := next(t, record, h, 20)
		if p.Ref() != federationtest.ID(want).String() || p.Attempt != 0 || p.Reason != "" {
			t.Errorf("due is %s after %d attempts, %q, want %s", p.Ref(), p.Attempt, p.Reason, federationtest.ID(want))
		}
		if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{p.Item}, federation.Settlement{At: federationtest.At(21)}); err != nil {
			t.Fatal(err)
		}
	}
	nothing(t, record, h, 1000)
	if err := record.EnableWebhook(ctx, federation.Webhook{ID: federationtest.ID(8888)}); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("EnableWebhook of an unknown webhook: %v", err)
	}
}

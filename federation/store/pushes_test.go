package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func next(t *testing.T, record *registry.Record, h federation.Webhook, now int) federation.Push {
	t.Helper()
	to := federation.WebhookName(h.ID)
	due, err := record.Rows().Heads(t.Context(), to, federationtest.At(now), 100)
	if err != nil || len(due) == 0 {
		t.Fatalf("Heads at %d: %v, %v", now, due, err)
	}
	pending, err := record.Rows().PendingOf(t.Context(), to, due[0], 1)
	if err != nil || len(pending) != 1 {
		t.Fatalf("PendingOf(%s) at %d: %+v, %v", due[0], now, pending, err)
	}
	return *pending[0].Push
}

// nothing fails if a delivery to a webhook is due.
func nothing(t *testing.T, record *registry.Record, h federation.Webhook, now int) {
	t.Helper()
	due, err := record.Rows().Heads(t.Context(), federation.WebhookName(h.ID), federationtest.At(now), 100)
	if len(due) != 0 || err != nil {
		t.Errorf("due at %d is %v, %v, want nothing", now, due, err)
	}
	if all := turns(t.Context(), t, record, federation.WebhookName(h.ID), now); len(all) != 0 {
		t.Errorf("at %d it is the turn of %v", now, all)
	}
}

func pushed(t *testing.T, record *registry.Record, h federation.Webhook) []string {
	t.Helper()
	all, err := record.Pushes(t.Context(), h.ID, 0, 100)
	if err != nil {
		t.Fatalf("Pushes: %v", err)
	}
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Ref()+" "+string(p.State))
	}
	return lines
}

func line(n int, state federation.DeliveryState) string {
	return federationtest.ID(n).String() + " " + string(state)
}

func (s suite) testPushLane(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	cancel := federationtest.File(federationtest.Step(2, offer.Event, federation.Cancel, ada), offer.View)
	mustAppend(t, record, cancel)
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	head := next(t, record, h, 10)
	if head.Ref() != offer.Event.ID.String() {
		t.Fatalf("the first is %s", head.Ref())
	}
	if err := record.Rows().Failed(ctx, federation.WebhookName(h.ID), head.Item, federation.Failure{Reason: "x", At: federationtest.At(10), Next: federationtest.At(70)}); err != nil {
		t.Fatal(err)
	}
	other := next(t, record, h, 11)
	if other.Ref() != federationtest.ID(3).String() {
		t.Errorf("the step behind one that failed goes before another handoff: %s", other.Ref())
	}
	if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{other.Item}, federation.Settlement{At: federationtest.At(11)}); err != nil {
		t.Fatal(err)
	}
	nothing(t, record, h, 69)
	if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{next(t, record, h, 70).Item}, federation.Settlement{At: federationtest.At(70)}); err != nil {
		t.Fatal(err)
	}
	if got := next(t, record, h, 70); got.Ref() != cancel.Event.ID.String() {
		t.Errorf("the next of the handoff is %s", got.Ref())
	}
}

func (s suite) testDueSenders(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h, hush := addWebhook(t, record, 1, bob), addWebhook(t, record, 2, bob)
	agent := federationtest.NewAgent("judge")
	if err := record.AddAgent(ctx, agent); err != nil {
		t.Fatal(err)
	}
	ofAgent := federation.Webhook{ID: federationtest.ID(9003), DID: agent.DID, Participant: agent.Handle, URL: "https://hooks.example/", Since: federationtest.At(1)}
	if err := record.AddWebhook(ctx, ofAgent, 10); err != nil {
		t.Fatal(err)
	}
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Cancel, cleo), offer.View))
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, cleo, bob), federation.View{}))
	for n, from := range []string{"system", "system", "another"} {
		if _, err := record.Post(ctx, agents.Posting{Message: federationtest.Message(4+n, from, agent.Handle)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.DisableWebhook(ctx, hush.ID, "status 410", federationtest.At(9)); err != nil {
		t.Fatal(err)
	}
	senders := func(to string) (from []federation.DID) {
		var after federation.DID
		for {
			turn, err := record.Rows().Turn(ctx, to, after, federationtest.At(10), 10)
			if err != nil {
				t.Fatalf("Turn: %v", err)
			}
			if turn.Sender == "" || slices.Contains(from, turn.Sender) {
				return from
			}
			from, after = append(from, turn.Sender), turn.Sender
		}
	}
	for _, tt := range []struct {
		name string
		hook federation.WebhookID
		want []federation.DID
	}{
		{"inbox", h.ID, []federation.DID{ada, bob, cleo}}, // as the record met them,
		{"agent", ofAgent.ID, []federation.DID{"system", "another"}},
		{"disabled", hush.ID, nil},
		{"unknown", federationtest.ID(8888), nil},
	} {
		if d := diff(tt.want, senders(federation.WebhookName(tt.hook))); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	// Both steps of the handoff are due then.
	if _, err := record.PushAgain(ctx, h.ID, "", federationtest.At(10)); err != nil {
		t.Fatal(err)
	}
	if d := diff([]federation.DID{ada, bob, cleo}, senders(federation.WebhookName(h.ID))); d != "" {
		t.Errorf("put back (-want +got):\n%s", d)
	}
}

func (s suite) testPushFailed(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	p := next(t, record, h, 10)
	for n := 1; n <= 2; n++ {
		f := federation.Failure{Reason: fmt.Sprintf("status 50%d", n), At: federationtest.At(10 * n), Next: federationtest.At(10*n + 60)}
		if err := record.Rows().Failed(ctx, federation.WebhookName(h.ID), p.Item, f); err != nil {
			t.Fatalf("Failed: %v", err)
		}
	}
	nothing(t, record, h, 79)
	got := next(t, record, h, 80)
	if got.Attempt != 2 || got.Reason != "status 502" || !got.Next.Equal(federationtest.At(80)) || got.State != federation.DeliveryWaiting {
		t.Errorf("after two attempts: %+v", got)
	}
	if err := record.Rows().Unlock(ctx, federation.WebhookName(h.ID), federationtest.At(81)); err != nil {
		t.Fatal(err)
	}
	if due, err := record.Rows().NextDue(ctx, federation.ToWebhook, federationtest.At(80)); !due.Equal(federationtest.At(81)) || err != nil {
		t.Errorf("due next at %v, %v, want %v", due, err, federationtest.At(81))
	}
	if due, err := record.Rows().NextDue(ctx, federation.ToWebhook, federationtest.At(81)); !due.IsZero() || err != nil {
		t.Errorf("due after that at %v, %v", due, err)
	}
	if got := takenWebhooks(t, record, 80, 1); len(got) != 0 {
		t.Error("a webhook is due before its push is")
	}
	if got := takenWebhooks(t, record, 81, 1); len(got) != 1 {
		t.Error("a webhook is not due when its push is")
	}
	if err := record.Rows().Failed(ctx, federation.WebhookName(federationtest.ID(8888)), p.Item, federation.Failure{At: federationtest.At(80), Next: federationtest.At(81)}); err != nil {
		t.Errorf("a failure of a webhook that is gone: %v", err)
	}
}

func (s suite) testPushed(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	p := next(t, record, h, 10)
	if n, _, err := record.Waiting(ctx, bob); n != 1 || err != nil {
		t.Fatalf("%d wait before, %v", n, err)
	}
	for range 2 {
		if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{p.Item}, federation.Settlement{At: federationtest.At(11)}); err != nil {
			t.Fatalf("Settle: %v", err)
		}
	}
	if n, _, err := record.Waiting(ctx, bob); n != 0 || err != nil {
		t.Errorf("%d wait after, %v", n, err)
	}
	nothing(t, record, h, 1000)
	if d := diff([]string{line(1, federation.DeliveryDelivered)}, pushed(t, record, h)); d != "" {
		t.Errorf("pushes (-want +got):\n%s", d)
	}
	became, err := record.Deliveries(ctx, offer.Event.Handoff, nil)
	want := []federation.Delivered{{Event: offer.Event.ID, Link: federation.WebhookLink, Participant: string(bob), State: federation.DeliveryDelivered, Ended: federationtest.At(11)}}
	if d := diff(want, became); d != "" || err != nil {
		t.Errorf("Deliveries: %v (-want +got):\n%s", err, d)
	}
}

func dead(t *testing.T, record *registry.Record, h federation.Webhook, now int) {
	t.Helper()
	how := federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: "status 500", At: federationtest.At(now)}
	if err := record.Rows().Settle(t.Context(), federation.WebhookName(h.ID), []int64{next(t, record, h, now).Item}, how); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

func (s suite) testPushDead(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	if err := record.Rows().Failed(ctx, federation.WebhookName(h.ID), next(t, record, h, 5).Item, federation.Failure{Reason: "status 502", At: federationtest.At(5), Next: federationtest.At(6)}); err != nil {
		t.Fatal(err)
	}
	dead(t, record, h, 10)
	if n, _, err := record.Waiting(ctx, bob); n != 1 || err != nil {
		t.Errorf("%d wait in the inbox, %v, want 1", n, err)
	}
	letters, err := record.DeadLetters(ctx, federation.DeadFilter{To: federation.WebhookName(h.ID)}, 0, 10)
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d letters, %v", len(letters), err)
	}
	letter, err := record.DeadLetter(ctx, letters[0].ID)
	tries := []federation.Attempt{{Number: 1, At: federationtest.At(5), Reason: "status 502"}, {Number: 2, At: federationtest.At(10), Reason: "status 500"}}
	if d := diff(tries, letter.Tries); d != "" || err != nil || letter.Event != offer.Event.ID || letter.Attempt != 2 {
		t.Errorf("letter %+v, %v (-want +got):\n%s", letter, err, d)
	}
	if kinds := kinds(t, record); len(kinds) != 0 {
		t.Errorf("the signer is told %v of a step that waits in the inbox", kinds)
	}
	for _, want := range []bool{true, false} {
		if revived, err := record.Revive(ctx, letter.ID, federationtest.At(20)); revived != want || err != nil {
			t.Errorf("Revive: %v, %v, want %v", revived, err, want)
		}
	}
	if p := next(t, record, h, 20); p.Attempt != 0 || p.Reason != "" {
		t.Errorf("put back: %+v", p)
	}
	if got := takenWebhooks(t, record, 20, 1); len(got) != 1 {
		t.Error("nothing is due after it was put back")
	}
	dead(t, record, h, 30)
	if err := record.Discard(ctx, letter.ID, federationtest.At(31)); err != nil {
		t.Errorf("Discard: %v", err)
	}
	if kinds := kinds(t, record); len(kinds) != 0 {
		t.Errorf("the signer is told %v", kinds)
	}
}

func (s suite) testPushAgain(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	for n := 1; n <= 3; n++ {
		mustAppend(t, record, federationtest.File(federationtest.Offer(n, ada, bob), federation.View{}))
	}
	if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{next(t, record, h, 10).Item}, federation.Settlement{At: federationtest.At(10)}); err != nil {
		t.Fatal(err)
	}
	dead(t, record, h, 11)
	for _, tt := range []struct {
		ref  string
		want int
	}{{federationtest.ID(1).String(), 1}, {"", 3}, {federationtest.ID(7).String(), 0}} {
		if n, err := record.PushAgain(ctx, h.ID, tt.ref, federationtest.At(20)); n != tt.want || err != nil {
			t.Errorf("PushAgain(%q) = %d, %v, want %d", tt.ref, n, err, tt.want)
		}
	}
	letters, err := record.DeadLetters(ctx, federation.DeadFilter{}, 0, 10)
	if err != nil || len(letters) != 0 {
		t.Errorf("%d letters that were not put back, %v", len(letters), err)
	}
	if _, err := record.PushAgain(ctx, federationtest.ID(8888), "", federationtest.At(20)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("PushAgain of an unknown webhook: %v", err)
	}
}

func (s suite) testMessagePushes(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	agent := federationtest.NewAgent("judge")
	if err := record.AddAgent(ctx, agent); err != nil {
		t.Fatal(err)
	}
	h := federation.Webhook{ID: federationtest.ID(9001), DID: agent.DID, Participant: agent.Handle, URL: "https://hooks.example/", Since: federationtest.At(1)}
	if err := record.AddWebhook(ctx, h, 10); err != nil {
		t.Fatal(err)
	}
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	tell(t, record, offer.Event, 2, agent.Handle)
	if _, err := record.Post(ctx, agents.Posting{Message: federationtest.Message(3, "guest", agent.Handle), Held: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := record.Post(ctx, agents.Posting{Message: federationtest.Message(4, "system", "another")}); err != nil {
		t.Fatal(err)
	}
	if d := diff([]string{line(1, federation.DeliveryWaiting)}, pushed(t, record, h)); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if _, err := record.Accept(ctx, "guest", agent.Handle, federationtest.At(9)); err != nil {
		t.Fatal(err)
	}
	messages, _, err := record.Inbox(ctx, agent.Handle, "", 10)
	if err != nil || len(messages) != 2 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	for _, want := range messages {
		p := next(t, record, h, 10)
		message, _ := p.Content.(agents.Message)
		if d := diff(want, message); d != "" {
			t.Errorf("pushed (-want +got):\n%s", d)
		}
		dead(t, record, h, 10)
	}
	letters, err := record.DeadLetters(ctx, federation.DeadFilter{}, 0, 10)
	if err != nil || len(letters) != 1 || letters[0].Event != offer.Event.ID {
		t.Fatalf("letters %+v, %v, want one of the offer", letters, err)
	}
	if revived, err := record.Revive(ctx, letters[0].ID, federationtest.At(20)); !revived || err != nil {
		t.Errorf("Revive: %v, %v", revived, err)
	}
	if p := next(t, record, h, 20); p.Ref() != offer.Event.ID.String() {
		t.Errorf("put back is %s", p.Ref())
	}
	if n, err := record.PushAgain(ctx, h.ID, messages[1].ID, federationtest.At(20)); n != 1 || err != nil {
		t.Errorf("PushAgain of a message = %d, %v", n, err)
	}
}

func (s suite) testPrunedPush(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h := addWebhook(t, record, 1, bob)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Cancel, ada), offer.View))
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	if n, _, err := record.Prune(ctx, federationtest.At(100), federationtest.At(100), "", 10); n != 1 || err != nil {
		t.Fatalf("Prune = %d, %v", n, err)
	}
	if d := diff([]string{line(3, federation.DeliveryWaiting)}, pushed(t, record, h)); d != "" {
		t.Errorf("pushes (-want +got):\n%s", d)
	}
	if got := next(t, record, h, 1000); got.Ref() != federationtest.ID(3).String() {
		t.Errorf("due is %s", got.Ref())
	}
}

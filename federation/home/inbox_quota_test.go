package home_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func (b bench) wantInboxFull(what string, ev federation.Event) {
	b.t.Helper()
	_, err := b.home.Submit(b.t.Context(), ev, b.now)
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code != federation.InboxFull || refused.Event != ev.ID || refused.Handoff != ev.Handoff {
		b.t.Errorf("%s: %v, want INBOX_FULL for %s", what, err, ev.ID)
	}
}

func TestInboxQuotaHasAShareForEachSender(t *testing.T) {
	b := newBench(t)
	b.home.Limits.Inbox = federation.InboxLimits{Events: 100, EventsPerSender: 2}
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.alice, federation.Offer))
	b.wantInboxFull("the third offer of one sender", b.step(3, b.alice, federation.Offer))
	b.file(b.step(4, b.carol, federation.Offer))
	b.file(b.step(5, b.alice, federation.Offer, func(ev *federation.Event) { ev.To = b.carol.did }))
	b.file(b.step(6, b.alice, federation.Cancel)) // a step that moves a handoff always finds room
	if err := b.record.Read(t.Context(), b.bob.did, []federation.EventID{federationtest.ID(1), federationtest.ID(6)}, b.now); err != nil {
		t.Fatal(err)
	}
	b.file(b.step(7, b.alice, federation.Offer))
}

func TestInboxQuotaHasAShareOfBytesForEachSender(t *testing.T) {
	b := newBench(t)
	first := b.step(1, b.alice, federation.Offer)
	b.home.Limits.Inbox.BytesPerSender = int64(len(first.Signature.Document)) + 1
	b.file(first)
	b.wantInboxFull("the second offer of one sender", b.step(2, b.alice, federation.Offer))
	b.file(b.step(3, b.carol, federation.Offer))
}

func TestInboxQuotaLeavesRoomBesideAHeavySender(t *testing.T) {
	b := newBench(t)
	b.home.Limits.Inbox = federation.InboxLimits{Events: 10, EventsPerSender: 9}
	for n := 1; n <= 9; n++ {
		b.file(b.step(n, b.alice, federation.Offer))
	}
	b.wantInboxFull("the tenth offer of the heaviest sender", b.step(10, b.alice, federation.Offer))
	b.file(b.step(11, b.carol, federation.Offer))
}

func TestInboxQuotaLeavesRoomBesideReports(t *testing.T) {
	b := newBench(t)
	b.home.Limits.Inbox = federation.InboxLimits{Events: 10, EventsPerSender: 3}
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept))
	b.file(b.step(3, b.bob, federation.Progress), b.step(4, b.bob, federation.Progress))
	b.wantInboxFull("one report too many", b.step(5, b.bob, federation.Progress))
	b.file(b.step(6, b.carol, federation.Offer, func(ev *federation.Event) { ev.To = b.alice.did }))
	b.file(b.step(7, b.bob, federation.Complete))
}

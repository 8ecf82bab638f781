package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func runNotices(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a notice comes back as it was, oldest first, on the link that its step came by", s.testDueNotices)
	t.Run("a signer is told each kind once of each step", s.testToldOnce)
	t.Run("a notice may wait until its signer is there", func(t *testing.T) {
		record := open(t)
		n := notice(2, federationtest.Offer(1, ada, bob), federation.NoticeDelayed)
		notify(t, record, n)
		if err := record.Rows().Failed(t.Context(), federation.NoticesOf(n.Link()), dueNotice(t, record, n).Row, federation.Failure{Next: federationtest.At(50)}); err != nil {
			t.Fatalf("Failed: %v", err)
		}
		for at, want := range map[int]int{49: 0, 50: 1} {
			if found, err := storetest.DueNotices(t.Context(), record, n.Link(), federationtest.At(at), 10); err != nil || len(found) != want {
				t.Errorf("notices due at %d: %+v, %v, want %d", at, found, err, want)
			}
		}
	})
	t.Run("the reader of a notice reads it from a cursor on, told or not", s.testNoticesTo)
	t.Run("the owner of a webhook is told each time that it is disabled", s.testNoticeDisabled)
	t.Run("notices that a DID reads from the record go to its webhooks", s.testNoticePushes)
	t.Run("old notices are forgotten, told or not", s.testPruneNotices)
}

func notice(n int, ev federation.Event, kind federation.NoticeKind) federation.Notice {
	return federation.Notice{Kind: kind, Event: ev, To: "oftc", Code: "expired", Why: "nobody took it", At: federationtest.At(n)}
}

func untold(t *testing.T, record *registry.Record, link string, limit int) []federation.Notice {
	t.Helper()
	due, err := storetest.DueNotices(t.Context(), record, link, federationtest.At(100), limit)
	if err != nil {
		t.Fatalf("notices due to %s: %v", link, err)
	}
	var found []federation.Notice
	for _, d := range due {
		found = append(found, *d.Notice)
	}
	return found
}

// dueNotice returns the delivery of a notice that is due.
func dueNotice(t *testing.T, record *registry.Record, n federation.Notice) federation.Delivery {
	t.Helper()
	due, err := storetest.DueNotices(t.Context(), record, n.Link(), federationtest.At(100), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range due {
		if d.Notice.Ref() == n.Ref() {
			return d
		}
	}
	t.Fatalf("the notice %s is not due", n.Ref())
	return federation.Delivery{}
}

// endNotice marks notices as delivered.
func endNotice(t *testing.T, record *registry.Record, link string, notices ...federation.Delivery) {
	t.Helper()
	if err := storetest.EndNotices(t.Context(), record, link, federationtest.At(100), notices...); err != nil {
		t.Fatal(err)
	}
}

func notify(t *testing.T, record *registry.Record, all ...federation.Notice) {
	t.Helper()
	for _, n := range all {
		if err := record.Notify(t.Context(), n); err != nil {
			t.Fatalf("Notify: %v", err)
		}
	}
}

func (s suite) testDueNotices(t *testing.T) {
	record := s.open(t)
	here := federationtest.Offer(1, ada, bob)
	there := federationtest.Offer(2, bob, ada)
	there.Arrival.Link = "elsewhere"
	first, second := notice(3, here, federation.NoticeUndeliverable), notice(2, here, federation.NoticeDelayed)
	other := notice(4, there, federation.NoticeDelayed)
	notify(t, record, first, second, other)
	if d := diff([]federation.Notice{first, second}, untold(t, record, here.Arrival.Link, 10)); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	if d := diff([]federation.Notice{first}, untold(t, record, here.Arrival.Link, 1)); d != "" {
		t.Errorf("the first notice (-want +got):\n%s", d)
	}
	if d := diff([]federation.Notice{other}, untold(t, record, "elsewhere", 10)); d != "" {
		t.Errorf("notices of the other link (-want +got):\n%s", d)
	}
}

func (s suite) testToldOnce(t *testing.T) {
	record := s.open(t)
	ev := federationtest.Offer(1, ada, bob)
	delayed := notice(2, ev, federation.NoticeDelayed)
	notify(t, record, delayed, notice(3, ev, federation.NoticeDelayed))
	if d := diff([]federation.Notice{delayed}, untold(t, record, ev.Arrival.Link, 10)); d != "" {
		t.Errorf("notices before (-want +got):\n%s", d)
	}
	due := dueNotice(t, record, delayed)
	for range 2 {
		endNotice(t, record, delayed.Link(), due)
		notify(t, record, notice(4, ev, federation.NoticeDelayed))
		if left := untold(t, record, ev.Arrival.Link, 10); len(left) != 0 {
			t.Errorf("notices after the signer was told: %+v", left)
		}
	}
	ended := notice(5, ev, federation.NoticeUndeliverable)
	notify(t, record, ended)
	if d := diff([]federation.Notice{ended}, untold(t, record, ev.Arrival.Link, 10)); d != "" {
		t.Errorf("notices of another kind (-want +got):\n%s", d)
	}
}

// fromInboxReader returns a step of a signer that reads its notices from the record, vouched for a
// DID.
func fromInboxReader(n int, from federation.DID) federation.Event {
	ev := federationtest.Offer(n, ada, cleo)
	ev.Arrival.ReadsInbox, ev.Provenance, ev.For = true, federation.Vouched, from
	return ev
}

func noticesTo(t *testing.T, record *registry.Record, link string, to federation.DID, after federation.Cursor, limit int) []federation.Notice {
	t.Helper()
	found, err := record.NoticesTo(t.Context(), link, to, after, limit)
	if err != nil {
		t.Fatalf("NoticesTo %s: %v", to, err)
	}
	return found
}

func refs(all []federation.Notice) (refs []string) {
	for _, n := range all {
		refs = append(refs, n.Ref())
	}
	return refs
}

func (s suite) testNoticesTo(t *testing.T) {
	record := s.open(t)
	first := notice(2, fromInboxReader(1, bob), federation.NoticeDelayed)
	second := notice(2, fromInboxReader(1, bob), federation.NoticeDelivered)
	notify(t, record, first, notice(2, fromInboxReader(2, cleo), federation.NoticeDelayed), notice(2, federationtest.Offer(3, bob, ada), federation.NoticeDelayed), second)
	endNotice(t, record, first.Link(), dueNotice(t, record, first))
	all := noticesTo(t, record, federation.InboxLink, bob, "", 10)
	if d := diff([]string{first.Ref(), second.Ref()}, refs(all)); d != "" {
		t.Fatalf("notices (-want +got):\n%s", d)
	}
	if one := noticesTo(t, record, federation.InboxLink, bob, "", 1); len(one) != 1 || one[0].Cursor != all[0].Cursor {
		t.Errorf("the first is %+v", one)
	}
	if rest := noticesTo(t, record, federation.InboxLink, bob, all[0].Cursor, 10); diff(all[1:], rest) != "" {
		t.Errorf("after the first come %+v", rest)
	}
	last := all[1].Cursor
	if n, err := record.PruneNotices(t.Context(), federationtest.At(100), 10); n != 4 || err != nil {
		t.Fatalf("PruneNotices = %d, %v", n, err)
	}
	later := notice(3, fromInboxReader(4, bob), federation.NoticeDelayed)
	notify(t, record, later)
	if d := diff([]string{later.Ref()}, refs(noticesTo(t, record, federation.InboxLink, bob, last, 10))); d != "" {
		t.Errorf("after all were forgotten (-want +got):\n%s", d)
	}
	for _, cursor := range []federation.Cursor{"elsewhere", noticesTo(t, record, federation.InboxLink, bob, "", 1)[0].Cursor} {
		if _, err := record.NoticesTo(t.Context(), federation.InboxLink, cleo, cursor, 10); !errors.Is(err, federation.ErrUnknownCursor) {
			t.Errorf("after %q: %v", cursor, err)
		}
	}
}

func disable(t *testing.T, record *registry.Record, h federation.Webhook, now int) {
	t.Helper()
	for range 2 { // the second time changes nothing
		if err := record.DisableWebhook(t.Context(), h.ID, "status 410", federationtest.At(now)); err != nil {
			t.Fatalf("DisableHook: %v", err)
		}
	}
	if err := record.EnableWebhook(t.Context(), h); err != nil {
		t.Fatalf("EnableHook: %v", err)
	}
}

func (s suite) testNoticeDisabled(t *testing.T) {
	record := s.open(t)
	agent := federationtest.NewAgent("judge")
	if err := record.AddAgent(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	for i, of := range []federation.DID{bob, agent.DID} {
		h, link := addWebhook(t, record, i+1, of), []string{federation.InboxLink, agents.Link}[i]
		var last federation.Cursor
		for _, now := range []int{10, 20} {
			disable(t, record, h, now)
			got := noticesTo(t, record, link, of, last, 10)
			h.Disabled, h.Why = federationtest.At(now), "status 410"
			want := []federation.Notice{{Kind: federation.NoticeDisabled, Webhook: h, Why: "status 410", At: federationtest.At(now)}}
			if len(got) == 1 {
				last, want[0].Cursor = got[0].Cursor, got[0].Cursor
			}
			if d := diff(want, got); d != "" {
				t.Errorf("notices at %d (-want +got):\n%s", now, d)
			}
			due, err := storetest.DueNotices(t.Context(), record, link, federationtest.At(100), 10)
			if err != nil || len(due) != 1 {
				t.Fatalf("%d notices are due at %d (%v), want 1", len(due), now, err)
			}
			endNotice(t, record, link, due[0])
		}
		if left := untold(t, record, link, 10); len(left) != 0 {
			t.Errorf("told, and still there: %+v", left)
		}
	}
}

func (s suite) testNoticePushes(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	h, other := addWebhook(t, record, 1, bob), addWebhook(t, record, 2, bob)
	mine, theirs := notice(2, fromInboxReader(1, bob), federation.NoticeDelayed), notice(2, fromInboxReader(2, cleo), federation.NoticeDelayed)
	again, elsewhere := notice(3, fromInboxReader(1, bob), federation.NoticeDelivered), notice(2, federationtest.Offer(3, bob, ada), federation.NoticeDelayed)
	notify(t, record, mine, theirs, elsewhere, again)
	mustAppend(t, record, federationtest.File(federationtest.Offer(5, ada, bob), federation.View{}))
	want := []string{again.Ref() + " waiting", mine.Ref() + " waiting", line(5, federation.DeliveryWaiting)}
	if d := diff(want, pushed(t, record, h)); d != "" {
		t.Fatalf("pending (-want +got):\n%s", d)
	}
	page, err := record.Pushes(ctx, h.ID, 0, 2)
	if err != nil || len(page) != 2 {
		t.Fatalf("Pushes: %d, %v", len(page), err)
	}
	if rest, err := record.Pushes(ctx, h.ID, page[1].Item, 2); err != nil || len(rest) != 1 || rest[0].Ref() != federationtest.ID(5).String() {
		t.Errorf("the next page: %+v, %v", rest, err)
	}
	if d := diff(noticesTo(t, record, federation.InboxLink, bob, "", 10)[0], page[1].Notice); d != "" {
		t.Errorf("a notice (-want +got):\n%s", d)
	}
	for _, ref := range []string{federationtest.ID(5).String(), mine.Ref()} {
		p := next(t, record, h, 10)
		if p.Ref() != ref {
			t.Fatalf("due is %s, want %s", p.Ref(), ref)
		}
		if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{p.Item}, federation.Settlement{At: federationtest.At(11)}); err != nil {
			t.Fatal(err)
		}
	}
	dead(t, record, h, 12)
	if letters, err := record.DeadLetters(ctx, federation.DeadFilter{}, 0, 10); err != nil || len(letters) != 0 {
		t.Errorf("%d dead letters of a notice, %v", len(letters), err)
	}
	for ref, want := range map[string]int{mine.Ref(): 1, theirs.Ref(): 0} {
		if n, err := record.PushAgain(ctx, h.ID, ref, federationtest.At(20)); n != want || err != nil {
			t.Errorf("PushAgain %q = %d, %v, want %d", ref, n, err, want)
		}
	}
	disable(t, record, other, 30)
	got, err := record.Pushes(ctx, other.ID, 0, 10)
	if err != nil || len(got) != 3 {
		t.Errorf("pending after it was enabled again: %d, %v", len(got), err)
	}
	for _, p := range got {
		if p.Notice.Kind != "" && p.State != federation.DeliveryWaiting {
			t.Errorf("%s is %s after its webhook was enabled again", p.Ref(), p.State)
		}
	}
	for _, ref := range []string{mine.Ref(), other.ID.String() + "/disabled"} { // both are due: the older one is first
		p := next(t, record, h, 40)
		if p.Ref() != ref {
			t.Errorf("due is %s, want %s", p.Ref(), ref)
		}
		if err := record.Rows().Settle(ctx, federation.WebhookName(h.ID), []int64{p.Item}, federation.Settlement{At: federationtest.At(41)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := record.PruneNotices(ctx, federationtest.At(100), 10); n != 5 || err != nil {
		t.Fatalf("PruneNotices = %d, %v", n, err)
	}
	if d := diff([]string{line(5, federation.DeliveryDelivered)}, pushed(t, record, h)); d != "" {
		t.Errorf("pending after the notice is forgotten (-want +got):\n%s", d)
	}
}

func (s suite) testPruneNotices(t *testing.T) {
	record := s.open(t)
	for n := 1; n <= 4; n++ {
		notify(t, record, notice(n, federationtest.Offer(n, ada, bob), federation.NoticeDelayed))
	}
	first := notice(1, federationtest.Offer(1, ada, bob), federation.NoticeDelayed)
	endNotice(t, record, first.Link(), dueNotice(t, record, first))
	for _, want := range []int{2, 1, 0} {
		if n, err := record.PruneNotices(t.Context(), federationtest.At(3), 2); err != nil || n != want {
			t.Errorf("PruneNotices = %d, %v, want %d", n, err, want)
		}
	}
	if left := untold(t, record, federationtest.Offer(4, ada, bob).Arrival.Link, 10); len(left) != 1 || left[0].Event.ID != federationtest.ID(4) {
		t.Errorf("left are %+v, want that of the fourth", left)
	}
}

package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// runUnread is about steps to readers of an inbox (see [federation.InboxLink]).
func runUnread(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a step reaches its DID when the inbox is read, and its signer is told once", s.testRead)
	t.Run("an entry that is read in time makes no notice", s.testReadInTime)
	t.Run("steps that are read at once are reported in order", s.testReadInOrder)
	t.Run("an unread entry is given up, and stays in the inbox", s.testLapse)
	t.Run("what is read after its handoff expired has expired", s.testReadTooLate)
	t.Run("the inbox does not report a step that has another way", s.testOtherWays)
	t.Run("the home of a handoff sees to its own people", s.testRemoteInbox)
	t.Run("a DID that was seen reading has the inbox beside a channel", s.testReader)
	t.Run("a DID that answered an offer has seen it", s.testAnswered)
	t.Run("an entry that a webhook takes is delivered, and late all the same", s.testTakenLate)
	t.Run("each entry is looked at once, however many there are", s.testLookedAt)
}

// unread files an offer of ada's, which came by the link "oftc" and is in the inbox of bob.
func unread(t *testing.T, record *registry.Record, n int, feeds ...string) federation.Filing {
	t.Helper()
	event := federationtest.Offer(n, ada, bob)
	event.Arrival.Link = "oftc"
	offer := federationtest.File(event, federation.View{})
	offer.Links = feeds
	mustAppend(t, record, offer)
	return offer
}

func inInbox(id federation.EventID, state federation.DeliveryState, ended time.Time) federation.Delivered {
	return federation.Delivered{Event: id, Link: federation.InboxLink, Participant: string(bob), State: state, Ended: ended}
}

func became(t *testing.T, record *registry.Record, id federation.HandoffID, want ...federation.Delivered) {
	t.Helper()
	got, err := record.Deliveries(t.Context(), id, []string{"oftc"})
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("Deliveries: %v (-want +got):\n%s", err, d)
	}
}

// delays reports the delays of steps filed until then.
func delays(t *testing.T, record *registry.Record, until, want int) {
	t.Helper()
	if n, err := record.Delay(t.Context(), federationtest.At(until), federationtest.At(until+300), 10); err != nil || n != want {
		t.Errorf("Delay until %d = %d, %v, want %d", until, n, err, want)
	}
}

// readings are the ways to read an inbox: bob reads the newest entry at a time.
func readings() map[string]func(ctx context.Context, record *registry.Record, newest federation.Entry, at time.Time) error {
	return map[string]func(ctx context.Context, record *registry.Record, newest federation.Entry, at time.Time) error{
		"shown": func(ctx context.Context, record *registry.Record, newest federation.Entry, at time.Time) error {
			return record.Read(ctx, bob, []federation.EventID{federationtest.ID(77), newest.Event.ID}, at)
		},
		"read up to": func(ctx context.Context, record *registry.Record, newest federation.Entry, at time.Time) error {
			return record.Advance(ctx, bob, "desk", newest.Cursor, at)
		},
		"acknowledged": func(ctx context.Context, record *registry.Record, newest federation.Entry, at time.Time) error {
			leases, err := record.Lease(ctx, bob, "desk", "", at, at.Add(time.Minute), 1)
			for _, lease := range leases { // none the second time
				err = errors.Join(record.Ack(ctx, bob, lease.LeaseToken, at), record.Ack(ctx, bob, lease.LeaseToken, at.Add(time.Second)))
			}
			return err
		},
	}
}

func (s suite) testRead(t *testing.T) {
	for name, read := range readings() {
		t.Run(name, func(t *testing.T) {
			record := s.open(t)
			offer := unread(t, record, 1)
			became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryWaiting, time.Time{}))
			delays(t, record, 0, 0)
			delays(t, record, 1, 1)
			delays(t, record, 2, 0)
			entries, err := record.Replay(t.Context(), bob, "", 10)
			if err != nil || len(entries) != 1 {
				t.Fatal(entries, err)
			}
			for i := range 2 {
				if err := read(t.Context(), record, entries[0], federationtest.At(400+i)); err != nil {
					t.Fatal(err)
				}
			}
			became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryDelivered, federationtest.At(400)))
			want := []federation.Notice{
				{Kind: federation.NoticeDelayed, Event: offer.Event, To: string(bob), Why: "it was not read", At: federationtest.At(301)},
				{Kind: federation.NoticeDelivered, Event: offer.Event, To: string(bob), At: federationtest.At(400)},
			}
			if d := diff(want, untold(t, record, "oftc", 10)); d != "" {
				t.Errorf("notices (-want +got):\n%s", d)
			}
		})
	}
}

func (s suite) testReadInTime(t *testing.T) {
	record := s.open(t)
	offer := unread(t, record, 1)
	if err := record.Read(t.Context(), bob, []federation.EventID{offer.Event.ID}, federationtest.At(2)); err != nil {
		t.Fatal(err)
	}
	delays(t, record, 5, 0)
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryDelivered, federationtest.At(2)))
	if got := kinds(t, record); len(got) > 0 {
		t.Errorf("the signer was told %v, of what took no time", got)
	}
}

func (s suite) testReadInOrder(t *testing.T) {
	record := s.open(t)
	const offers = 4
	for n := range offers {
		unread(t, record, n+1)
	}
	delays(t, record, offers, offers)
	leases, err := record.Lease(t.Context(), bob, "desk", "", federationtest.At(500), federationtest.At(501), offers/2) // a rewritten row may come last
	if err != nil || len(leases) != offers/2 {
		t.Fatal(leases, err)
	}
	entries, err := record.Replay(t.Context(), bob, "", 10)
	if err != nil || len(entries) != offers {
		t.Fatal(entries, err)
	}
	if err := record.Advance(t.Context(), bob, "desk", entries[offers-1].Cursor, federationtest.At(600)); err != nil {
		t.Fatal(err)
	}
	var order []federation.EventID
	for _, n := range untold(t, record, "oftc", 10)[offers:] { // after the notices of delay
		order = append(order, n.Event.ID)
	}
	if d := diff([]federation.EventID{federationtest.ID(1), federationtest.ID(2), federationtest.ID(3), federationtest.ID(4)}, order); d != "" {
		t.Errorf("the order of the notices (-want +got):\n%s", d)
	}
}

func (s suite) testLapse(t *testing.T) {
	record := s.open(t)
	offer := unread(t, record, 1)
	event := federationtest.Step(2, offer.Event, federation.Cancel, ada)
	event.Arrival.Link = "oftc"
	mustAppend(t, record, federationtest.File(event, offer.View))
	both := []federation.EventID{federationtest.ID(1), federationtest.ID(2)}
	for _, at := range []int{700, 701} {
		if err := record.ExpireUnread(t.Context(), bob, both, federationtest.At(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.Read(t.Context(), bob, both, federationtest.At(800)); err != nil {
		t.Fatal(err)
	}
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryExpired, federationtest.At(700)), inInbox(federationtest.ID(2), federation.DeliveryExpired, federationtest.At(700)))
	want := []federation.Notice{{
		Kind: federation.NoticeUndeliverable, Event: event, To: string(bob), Code: string(federation.DeadExpired), Why: "it was not read", At: federationtest.At(700),
	}}
	if d := diff(want, untold(t, record, "oftc", 10)); d != "" {
		t.Errorf("notices: of the offer the home tells (-want +got):\n%s", d)
	}
	checkWaiting(t, record, 0)
	if entries, err := record.Replay(t.Context(), bob, "", 10); err != nil || len(entries) != 2 {
		t.Errorf("%d entries are there to be read, %v", len(entries), err)
	}
}

func (s suite) testReadTooLate(t *testing.T) {
	record := s.open(t)
	offer := unread(t, record, 1)
	mustAppend(t, record, federationtest.File(federationtest.Step(9, offer.Event, federation.Expire, ada), offer.View))
	end := inInbox(federationtest.ID(9), federation.DeliveryWaiting, time.Time{})
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryExpired, federationtest.At(9)), end)
	if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(1), federationtest.ID(9)}, federationtest.At(20)); err != nil {
		t.Fatal(err)
	}
	end.State, end.Ended = federation.DeliveryDelivered, federationtest.At(20)
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryExpired, federationtest.At(9)), end)
}

func (s suite) testOtherWays(t *testing.T) {
	inChannel := federation.Delivered{Event: federationtest.ID(1), Link: "oftc", State: federation.DeliveryWaiting}
	for name, tt := range map[string]struct {
		prepare func(record *registry.Record) error
		reads   bool // bob was seen reading before
		feeds   []string
		want    []federation.Delivered
		delayed int // of links
	}{
		"a channel": {feeds: []string{"oftc"}, want: []federation.Delivered{inChannel}, delayed: 1},
		"an agent's own key": {reads: true, prepare: func(record *registry.Record) error {
			judge := federationtest.NewAgent("judge")
			judge.OwnDID, judge.Keys[0].DID = bob, bob
			return record.AddAgent(t.Context(), judge)
		}},
		"a handle that is bound": {reads: true, prepare: func(record *registry.Record) error {
			message := federationtest.Message(2, "system", "judge")
			message.Event, message.Handoff = federationtest.ID(1), federationtest.ID(1)
			if _, err := record.Post(t.Context(), agents.Posting{Message: message}); err != nil {
				return err
			}
			return record.BindName(t.Context(), federation.BoundName{Network: agents.Link, Name: "judge", DID: bob})
		}, delayed: 1},
		"another home": {reads: true, prepare: func(record *registry.Record) error {
			return record.KeepMailboxLocation(t.Context(), federation.MailboxLocation{DID: bob, Home: "oftc", Source: federation.LocatedByMove, Former: []federation.HomeID{"gw.example"}})
		}, feeds: []string{"oftc"}, want: []federation.Delivered{inChannel}, delayed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			record := s.open(t)
			if tt.reads {
				unread(t, record, 100)
				if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(100)}, federationtest.At(101)); err != nil {
					t.Fatal(err)
				}
			}
			unread(t, record, 1, tt.feeds...)
			if tt.prepare != nil {
				if err := tt.prepare(record); err != nil {
					t.Fatal(err)
				}
			}
			became(t, record, federationtest.ID(1), tt.want...)
			delays(t, record, 101, tt.delayed)
		})
	}
}

func (s suite) testRemoteInbox(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	offer.View.Remote = true
	mustAppend(t, record, offer)
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryWaiting, time.Time{}))
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	accept.View.Answered = 2
	mustAppend(t, record, accept) // now he was seen elsewhere
	became(t, record, federationtest.ID(1))
	delays(t, record, 2, 0)
	if err := record.ExpireUnread(t.Context(), bob, []federation.EventID{federationtest.ID(1)}, federationtest.At(700)); err != nil {
		t.Fatal(err)
	}
	became(t, record, federationtest.ID(1))
	if err := record.Read(t.Context(), ada, []federation.EventID{federationtest.ID(2)}, federationtest.At(701)); err != nil {
		t.Fatal(err)
	}
	became(t, record, federationtest.ID(1), federation.Delivered{
		Event: federationtest.ID(2), Link: federation.InboxLink, Participant: string(ada), State: federation.DeliveryDelivered, Ended: federationtest.At(701),
	})
}

func (s suite) testReader(t *testing.T) {
	record := s.open(t)
	unread(t, record, 1, "oftc")
	if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(1)}, federationtest.At(2)); err != nil {
		t.Fatal(err)
	}
	unread(t, record, 3, "oftc")
	row := outboxOf(t, record, "oftc", federation.Delivery{}, 10)[1].Row
	if err := record.Rows().Settle(t.Context(), "oftc", []int64{row}, federation.Settlement{At: federationtest.At(4)}); err != nil {
		t.Fatal(err)
	}
	channel := federation.Delivered{Event: federationtest.ID(3), Link: "oftc", State: federation.DeliveryDelivered, Ended: federationtest.At(4)}
	became(t, record, federationtest.ID(3), inInbox(federationtest.ID(3), federation.DeliveryWaiting, time.Time{}), channel)
	unread(t, record, 5, "oftc")
	accept := federationtest.File(federationtest.Step(6, federationtest.Offer(5, ada, bob), federation.Accept, bob), federationtest.File(federationtest.Offer(5, ada, bob), federation.View{}).View)
	accept.Event.Arrival.Link = "oftc" // from now on people see the steps there
	mustAppend(t, record, accept)
	row = outboxOf(t, record, "oftc", federation.Delivery{}, 10)[1].Row
	if err := record.Rows().Settle(t.Context(), "oftc", []int64{row}, federation.Settlement{Shown: true, At: federationtest.At(7)}); err != nil {
		t.Fatal(err)
	}
	became(t, record, federationtest.ID(5), federation.Delivered{Event: federationtest.ID(5), Link: "oftc", State: federation.DeliveryDelivered, Ended: federationtest.At(7)},
		federation.Delivered{Event: federationtest.ID(6), Link: federation.InboxLink, Participant: string(ada), State: federation.DeliveryWaiting})
}

func (s suite) testAnswered(t *testing.T) {
	record := s.open(t)
	offer := unread(t, record, 1)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	accept.Inboxes, accept.View.Answered = nil, 2
	mustAppend(t, record, accept)
	event := federationtest.Step(3, offer.Event, federation.Cancel, ada)
	event.Arrival.Link = "oftc"
	mustAppend(t, record, federationtest.File(event, accept.View))
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryDelivered, federationtest.At(2)), inInbox(federationtest.ID(3), federation.DeliveryWaiting, time.Time{}))
	if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(1)}, federationtest.At(9)); err != nil {
		t.Fatal(err)
	}
	became(t, record, federationtest.ID(1), inInbox(federationtest.ID(1), federation.DeliveryDelivered, federationtest.At(2)), inInbox(federationtest.ID(3), federation.DeliveryWaiting, time.Time{}))
	delays(t, record, 3, 1)
	if told := untold(t, record, "oftc", 10); len(told) != 1 || told[0].Event.ID != federationtest.ID(3) {
		t.Errorf("the signer was told %v, want that of the last step alone", told)
	}
}

func (s suite) testTakenLate(t *testing.T) {
	record := s.open(t)
	h := addWebhook(t, record, 1, bob)
	unread(t, record, 1)
	delays(t, record, 1, 1)
	pushed := federation.Delivered{Event: federationtest.ID(1), Link: federation.WebhookLink, Participant: string(bob), State: federation.DeliveryWaiting}
	became(t, record, federationtest.ID(1), pushed)
	if err := record.Rows().Settle(t.Context(), federation.WebhookName(h.ID), []int64{next(t, record, h, 400).Item}, federation.Settlement{At: federationtest.At(400)}); err != nil {
		t.Fatal(err)
	}
	pushed.State, pushed.Ended = federation.DeliveryDelivered, federationtest.At(400)
	became(t, record, federationtest.ID(1), pushed)
	if d := diff([]federation.NoticeKind{federation.NoticeDelayed, federation.NoticeDelivered}, kinds(t, record)); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
}

func (s suite) testLookedAt(t *testing.T) {
	record := s.open(t)
	const many = 70 // more than are looked at at once
	for n := range many {
		unread(t, record, 1+n, "lab")
	}
	for n := range 3 {
		unread(t, record, 1+many+n)
	}
	lab := outboxOf(t, record, "lab", federation.Delivery{}, many)
	var rows []int64
	for _, d := range lab {
		rows = append(rows, d.Row)
	}
	if err := record.Rows().Settle(t.Context(), "lab", rows, federation.Settlement{At: federationtest.At(200)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 1, 0} {
		if n, err := record.Delay(t.Context(), federationtest.At(300), federationtest.At(600), 2); err != nil || n != want {
			t.Errorf("Delay = %d, %v, want %d", n, err, want)
		}
	}
	unread(t, record, 400)
	delays(t, record, 400, 1)
}

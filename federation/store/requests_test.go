package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func decide(t *testing.T, record *registry.Record, decision, from, to string, now time.Time) agents.Consent {
	t.Helper()
	apply := map[string]func() (agents.Consent, error){
		"accept":  func() (agents.Consent, error) { return record.Accept(t.Context(), from, to, now) },
		"block":   func() (agents.Consent, error) { return record.Block(t.Context(), from, to, now) },
		"unblock": func() (agents.Consent, error) { return record.Unblock(t.Context(), from, to, now) },
	}[decision]
	c, err := apply()
	if err != nil {
		t.Fatalf("%s %s to %s: %v", decision, from, to, err)
	}
	return c
}

func request(t *testing.T, record *registry.Record, n int, from, to string, now time.Time) error {
	t.Helper()
	m := federationtest.Message(n, from, to)
	m.Received = now
	_, err := record.Post(t.Context(), agents.Posting{Message: m, Held: true})
	return err
}

func wantRateLimit(t *testing.T, err error, after time.Duration) {
	t.Helper()
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code != federation.RateLimited || refused.RetryAfter != after {
		t.Errorf("Post: %v (%+v), want RATE_LIMITED and to come again after %v", err, refused, after)
	}
}

func (s suite) testTransitions(t *testing.T) {
	const none, pending, accepted, blocked = agents.ConsentNone, agents.ConsentPending, agents.ConsentAccepted, agents.ConsentBlocked
	for _, tt := range []struct {
		before, after agents.ConsentState
		decision      string
		back          agents.ConsentState // of the way back
	}{
		{none, accepted, "accept", accepted},
		{none, blocked, "block", none},
		{none, none, "unblock", none},
		{pending, accepted, "accept", accepted},
		{pending, blocked, "block", none},
		{pending, pending, "unblock", none},
		{accepted, accepted, "accept", accepted},
		{accepted, blocked, "block", accepted},
		{accepted, accepted, "unblock", accepted},
		{blocked, accepted, "accept", accepted},
		{blocked, blocked, "block", none},
		{blocked, none, "unblock", none},
	} {
		t.Run(fmt.Sprintf("%s of one that is %s", tt.decision, tt.before), func(t *testing.T) {
			record := s.open(t)
			switch tt.before {
			case pending:
				hold(t, record, 1, "a", "b")
			case accepted:
				decide(t, record, "accept", "a", "b", federationtest.At(1))
			case blocked:
				decide(t, record, "block", "a", "b", federationtest.At(1))
			case none:
			}
			version := edgeOf(t, record, "a", "b").Version
			if tt.before != tt.after {
				version++
			}
			got := decide(t, record, tt.decision, "a", "b", federationtest.At(2))
			if got.State != tt.after || got.Version != version {
				t.Errorf("%+v, want %s in version %d", got, tt.after, version)
			}
			if back := edgeOf(t, record, "b", "a"); back.State != tt.back {
				t.Errorf("the way back is %s, want %s", back.State, tt.back)
			}
		})
	}
}

func (s suite) testRequestRate(t *testing.T) {
	record := s.open(t)
	for n := range agents.MaxRequests + 1 {
		if err := request(t, record, n, "a", fmt.Sprint("agent-", n), federationtest.At(n)); err != nil && n < agents.MaxRequests {
			t.Fatalf("request %d: %v", n, err)
		} else if n == agents.MaxRequests {
			wantRateLimit(t, err, agents.RequestWindow-time.Duration(n)*time.Second)
			wantRateLimit(t, record.MayAsk(t.Context(), "a", fmt.Sprint("agent-", n), "", federation.InboxLimits{}, federationtest.At(n)), agents.RequestWindow-time.Duration(n)*time.Second)
		}
	}
	if err := record.MayAsk(t.Context(), "a", "agent-3", "", federation.InboxLimits{}, federationtest.At(20)); err != nil {
		t.Errorf("asking about an edge that waits: %v", err)
	}
	if err := request(t, record, 20, "a", "agent-3", federationtest.At(20)); err != nil {
		t.Errorf("another message on an edge that waits: %v", err)
	}
	if err := request(t, record, 21, "c", "agent-3", federationtest.At(21)); err != nil {
		t.Errorf("the request of another sender: %v", err)
	}
	decide(t, record, "accept", "a", "agent-5", federationtest.At(22))
	if err := request(t, record, 23, "a", "agent-23", federationtest.At(23)); err != nil {
		t.Errorf("a request after one was accepted: %v", err)
	}
	if err := request(t, record, 24, "a", "agent-24", federationtest.At(0).Add(agents.RequestWindow)); err != nil {
		t.Errorf("a request an hour after the first: %v", err)
	}
}

func knock(t *testing.T, record *registry.Record, n int, from, to string, limits federation.InboxLimits) error {
	t.Helper()
	m := federationtest.Message(n, from, to)
	_, err := record.Post(t.Context(), agents.Posting{Message: m, Held: true, FirstContacts: limits})
	return err
}

func wantFull(t *testing.T, what string, err error) {
	t.Helper()
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InboxFull {
		t.Errorf("%s: %v, want INBOX_FULL", what, err)
	}
}

func (s suite) testFirstContactOutlivesFlood(t *testing.T) {
	record := s.open(t)
	limits := federation.InboxLimits{Events: 100, EventsPerSender: 10}
	for n := range 110 {
		switch err := knock(t, record, n, fmt.Sprint("agent-", n), "b", limits); {
		case n >= limits.Events:
			wantFull(t, fmt.Sprint("request ", n), err)
			wantFull(t, fmt.Sprint("MayAsk ", n), record.MayAsk(t.Context(), fmt.Sprint("agent-", n), "b", "", limits, federationtest.At(n)))
			if c := edgeOf(t, record, fmt.Sprint("agent-", n), "b"); c.State != agents.ConsentNone {
				t.Errorf("a request that was refused is %s, want none", c.State)
			}
		case err != nil:
			t.Fatalf("request %d: %v", n, err)
		}
	}
	decide(t, record, "accept", "agent-0", "b", federationtest.At(200))
	inbox, _, err := record.Inbox(t.Context(), "b", "", 10)
	if err != nil || len(inbox) != 1 || inbox[0].ID != "message-0" {
		t.Errorf("the inbox has %+v, %v, want the first message of all", inbox, err)
	}
	if err := knock(t, record, 201, "agent-201", "b", limits); err != nil {
		t.Errorf("a request after one was decided: %v", err)
	}
	if err := knock(t, record, 202, "agent-0", "b", limits); err != nil {
		t.Errorf("a message with consent to a recipient whose list is full: %v", err)
	}
}

// knockFrom is knock to "b" from a source.
func knockFrom(t *testing.T, record *registry.Record, n int, from, source string, limits federation.InboxLimits) error {
	t.Helper()
	m := federationtest.Message(n, from, "b")
	_, err := record.Post(t.Context(), agents.Posting{Message: m, Held: true, FirstContacts: limits, Source: source})
	return err
}

func requesters(t *testing.T, record *registry.Record, to string) []string {
	t.Helper()
	pending, err := record.Pending(t.Context(), to, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var senders []string
	for _, c := range pending {
		senders = append(senders, c.From)
	}
	return senders
}

func (s suite) testFirstContactSources(t *testing.T) {
	record := s.open(t)
	limits := federation.InboxLimits{Events: 12, EventsPerSender: 4}
	for n := range 12 {
		if err := knockFrom(t, record, n, fmt.Sprint("flood-", n), fmt.Sprintf("192.0.%d.0/24", n%3), limits); err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
	}
	wantFull(t, "one more of the flood", knockFrom(t, record, 12, "flood-12", "192.0.1.0/24", limits))
	if err := record.MayAsk(t.Context(), "ada", "b", "203.0.113.0/24", limits, federationtest.At(13)); err != nil {
		t.Errorf("MayAsk of another source: %v", err)
	}
	wantFull(t, "MayAsk of the flood", record.MayAsk(t.Context(), "flood-12", "b", "192.0.1.0/24", limits, federationtest.At(13)))
	if got := requesters(t, record, "b"); len(got) != 12 {
		t.Fatalf("asking dropped somebody: %v", got)
	}
	for n, sender := range []string{"ada", "bob", "cyd"} {
		if err := knockFrom(t, record, 13+n, sender, fmt.Sprintf("203.0.%d.0/24", n), limits); err != nil {
			t.Errorf("the request of %s: %v", sender, err)
		}
	}
	want := []string{"flood-0", "flood-1", "flood-2", "flood-3", "flood-4", "flood-5", "flood-6", "flood-7", "flood-8", "ada", "bob", "cyd"}
	if d := diff(want, requesters(t, record, "b")); d != "" {
		t.Errorf("who waits (-want +got):\n%s", d)
	}
	if c := edgeOf(t, record, "flood-11", "b"); c.State != agents.ConsentNone {
		t.Errorf("a request that was dropped is %s, want none", c.State)
	}
	if _, err := record.Named(t.Context(), "flood-11", "message-11"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a message that was dropped: %v, want ErrNotFound", err)
	}
	wantFull(t, "the flood again", knockFrom(t, record, 20, "flood-11", "192.0.2.0/24", limits))
	decide(t, record, "accept", "ada", "b", federationtest.At(30))
	inbox, _, err := record.Inbox(t.Context(), "b", "", 10)
	if err != nil || len(inbox) != 1 || inbox[0].ID != "message-13" {
		t.Errorf("the inbox has %+v, %v, want the message of ada", inbox, err)
	}
}

func (s suite) testFirstContactOfOneSender(t *testing.T) {
	record := s.open(t)
	limits := federation.InboxLimits{Events: 4, EventsPerSender: 10}
	for n := range 4 {
		if err := knockFrom(t, record, n, "a", "lab", limits); err != nil {
			t.Fatalf("message %d: %v", n, err)
		}
	}
	wantFull(t, "one more of the same sender, by another way", knockFrom(t, record, 4, "a", "192.0.2.0/24", limits))
	if err := knockFrom(t, record, 5, "c", "@peer.example", limits); err != nil {
		t.Errorf("a message from another source: %v", err)
	}
	if c := edgeOf(t, record, "a", "b"); c.State != agents.ConsentPending {
		t.Errorf("the sender with messages left is %s, want pending", c.State)
	}
	decide(t, record, "accept", "a", "b", federationtest.At(9))
	inbox, _, err := record.Inbox(t.Context(), "b", "", 10)
	if err != nil || len(inbox) != 3 || inbox[2].ID != "message-2" {
		t.Errorf("the inbox has %+v, %v, want the first three messages", inbox, err)
	}
}

func (s suite) testFirstContactShare(t *testing.T) {
	record := s.open(t)
	limits := federation.InboxLimits{Events: 10, EventsPerSender: 3}
	for n := range 3 {
		if err := knock(t, record, n, "a", "b", limits); err != nil {
			t.Fatalf("message %d: %v", n, err)
		}
	}
	wantFull(t, "the fourth message of one sender", knock(t, record, 4, "a", "b", limits))
	wantFull(t, "MayAsk of that", record.MayAsk(t.Context(), "a", "b", "", limits, federationtest.At(4)))
	if err := record.MayAsk(t.Context(), "a", "b", "", federation.InboxLimits{}, federationtest.At(4)); err != nil {
		t.Errorf("MayAsk without limits: %v", err)
	}
	if err := knock(t, record, 5, "a", "c", limits); err != nil {
		t.Errorf("a message to another recipient: %v", err)
	}
	if err := knock(t, record, 6, "d", "b", limits); err != nil {
		t.Errorf("a message of another sender: %v", err)
	}
	end := federationtest.Message(7, "system", "b")
	if _, err := record.Post(t.Context(), agents.Posting{Message: end, Held: true, Edge: "a", FirstContacts: limits}); err != nil {
		t.Errorf("what the registry says of a held offer: %v", err)
	}
	if err := knock(t, record, 8, "d", "b", limits); err != nil {
		t.Errorf("a message of another sender after that: %v", err)
	}
	decide(t, record, "block", "a", "b", federationtest.At(9))
	for n := range 3 {
		if err := knock(t, record, 10+n, fmt.Sprint("e-", n), "b", limits); err != nil {
			t.Errorf("message %d after a block made room: %v", n, err)
		}
	}
}

func (s suite) testBar(t *testing.T) {
	record := s.open(t)
	decide(t, record, "block", "a", "b", federationtest.At(1))
	decide(t, record, "unblock", "a", "b", federationtest.At(2))
	if err := request(t, record, 3, "a", "b", federationtest.At(3)); err != nil {
		t.Errorf("a request after a block that answered none: %v", err)
	}
	decide(t, record, "block", "a", "b", federationtest.At(4))
	barred := decide(t, record, "unblock", "a", "b", federationtest.At(5))
	if want := federationtest.At(5).Add(agents.UnblockBar); !barred.Barred.Equal(want) {
		t.Errorf("barred until %v, want %v", barred.Barred, want)
	}
	wantRateLimit(t, request(t, record, 6, "a", "b", federationtest.At(6)), agents.UnblockBar-time.Second)
	quiet := post(t, record, agents.Posting{Message: federationtest.Message(6, "a", "b"), Held: true, Quiet: true})
	if _, err := record.Named(t.Context(), "a", quiet.ID); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Named of a quiet request while barred: %v, want ErrNotFound", err)
	}
	if err := request(t, record, 7, "a", "b", federationtest.At(5).Add(agents.UnblockBar)); err != nil {
		t.Errorf("a request after the day: %v", err)
	}
	decide(t, record, "block", "c", "b", federationtest.At(8))
	decide(t, record, "unblock", "c", "b", federationtest.At(8))
	hold(t, record, 9, "c", "b")
	decide(t, record, "block", "c", "b", federationtest.At(9))
	decide(t, record, "unblock", "c", "b", federationtest.At(9))
	decide(t, record, "accept", "c", "b", federationtest.At(10))
	decide(t, record, "block", "c", "b", federationtest.At(11))
	decide(t, record, "unblock", "c", "b", federationtest.At(12))
	if err := request(t, record, 13, "c", "b", federationtest.At(13)); err != nil {
		t.Errorf("a request after consent came in between: %v", err)
	}
	if c := edgeOf(t, record, "a", "b"); c.State != agents.ConsentPending || !c.Barred.IsZero() {
		t.Errorf("the edge is %+v, want pending and no bar", c)
	}
}

func (s suite) testContacts(t *testing.T) {
	record := s.open(t)
	for _, handle := range []string{"dora", "cleo", "bob"} {
		decide(t, record, "accept", "ada", handle, federationtest.At(1))
	}
	decide(t, record, "block", "cleo", "ada", federationtest.At(2))
	hold(t, record, 3, "eve", "ada")
	for limit, want := range map[int][]string{10: {"bob", "dora"}, 1: {"bob"}} {
		got, err := record.Contacts(t.Context(), "ada", limit)
		if err != nil || diff(want, got) != "" {
			t.Errorf("Contacts up to %d = %v, %v, want %v", limit, got, err, want)
		}
	}
}

// testUnseen follows offers of one sender without consent, each without a deadline.
func (s suite) testUnseen(t *testing.T) {
	record := s.open(t)
	offer := func(n int, to string) federation.HandoffID {
		t.Helper()
		ev := federationtest.Offer(n, ada, bob)
		ev.Deadline = time.Time{}
		f := federationtest.File(ev, federation.View{})
		m := federationtest.Message(n, "ada", to)
		m.Event, m.Handoff = f.Event.ID, f.View.ID
		f.Effects = []federation.Effect{agents.Posting{Message: m, Held: true}}
		mustAppend(t, record, f)
		return f.View.ID
	}
	unseen := func(at int) []federation.HandoffID {
		t.Helper()
		views, err := record.Unseen(t.Context(), federationtest.At(at), 10)
		if err != nil {
			t.Fatalf("Unseen: %v", err)
		}
		var ids []federation.HandoffID
		for _, v := range views {
			ids = append(ids, v.ID)
		}
		return ids
	}
	decide(t, record, "accept", "ada", "friend", federationtest.At(0))
	offer(1, "friend")
	held, blocked, accepted, answered := offer(2, "held"), offer(3, "blocker"), offer(4, "late"), offer(5, "other")
	decide(t, record, "block", "ada", "blocker", federationtest.At(6))
	decide(t, record, "accept", "ada", "late", federationtest.At(6))
	again := offer(7, "blocker")
	if d := diff([]federation.HandoffID{held, blocked, answered, again}, unseen(8)); d != "" {
		t.Errorf("unseen; %s was accepted late (-want +got):\n%s", accepted, d)
	}
	view, err := record.View(t.Context(), answered)
	if err != nil {
		t.Fatal(err)
	}
	ev := federationtest.Offer(5, ada, bob)
	ev.Deadline = time.Time{}
	mustAppend(t, record, federationtest.File(federationtest.Step(9, ev, federation.Accept, bob), view))
	if d := diff([]federation.HandoffID{held, blocked}, unseen(3)); d != "" {
		t.Errorf("unseen for long (-want +got):\n%s", d)
	}
	if d := diff([]federation.HandoffID{held, blocked, again}, unseen(10)); d != "" {
		t.Errorf("unseen after one was answered (-want +got):\n%s", d)
	}
}

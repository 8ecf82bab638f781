package federationtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"baton/federation"
)

// decide applies a decision about an edge by its name.
func decide(t *testing.T, record federation.Registry, decision, from, to string, now time.Time) federation.Consent {
	t.Helper()
	apply := map[string]func() (federation.Consent, error){
		"accept":  func() (federation.Consent, error) { return record.Accept(t.Context(), from, to, now) },
		"block":   func() (federation.Consent, error) { return record.Block(t.Context(), from, to, now) },
		"unblock": func() (federation.Consent, error) { return record.Unblock(t.Context(), from, to, now) },
	}[decision]
	c, err := apply()
	if err != nil {
		t.Fatalf("%s %s to %s: %v", decision, from, to, err)
	}
	return c
}

// request asks for consent with the n-th message.
func request(t *testing.T, record federation.Registry, n int, from, to string, now time.Time) error {
	t.Helper()
	m := Message(n, from, to)
	m.Received = now
	_, err := record.Post(t.Context(), federation.Posting{Message: m, Held: true})
	return err
}

// wantRateLimit checks that a request was one too many, and when the next one may come.
func wantRateLimit(t *testing.T, err error, after time.Duration) {
	t.Helper()
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code != federation.RateLimited || refused.RetryAfter != after {
		t.Errorf("Post: %v (%+v), want RATE_LIMITED and to come again after %v", err, refused, after)
	}
}

func (s suite) testTransitions(t *testing.T) {
	const none, pending, accepted, blocked = federation.ConsentNone, federation.ConsentPending, federation.ConsentAccepted, federation.ConsentBlocked
	for _, tt := range []struct {
		before, after federation.ConsentState
		decision      string
		back          federation.ConsentState // of the way back
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
				decide(t, record, "accept", "a", "b", At(1))
			case blocked:
				decide(t, record, "block", "a", "b", At(1))
			case none:
			}
			version := edgeOf(t, record, "a", "b").Version
			if tt.before != tt.after {
				version++
			}
			got := decide(t, record, tt.decision, "a", "b", At(2))
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
	for n := range federation.MaxRequests + 1 {
		if err := request(t, record, n, "a", fmt.Sprint("agent-", n), At(n)); err != nil && n < federation.MaxRequests {
			t.Fatalf("request %d: %v", n, err)
		} else if n == federation.MaxRequests {
			wantRateLimit(t, err, federation.RequestWindow-time.Duration(n)*time.Second)
			wantRateLimit(t, record.MayAsk(t.Context(), "a", fmt.Sprint("agent-", n), At(n)), federation.RequestWindow-time.Duration(n)*time.Second)
		}
	}
	if err := record.MayAsk(t.Context(), "a", "agent-3", At(20)); err != nil {
		t.Errorf("asking about an edge that waits: %v", err)
	}
	if err := request(t, record, 20, "a", "agent-3", At(20)); err != nil {
		t.Errorf("another message on an edge that waits: %v", err)
	}
	if err := request(t, record, 21, "c", "agent-3", At(21)); err != nil {
		t.Errorf("the request of another sender: %v", err)
	}
	decide(t, record, "accept", "a", "agent-5", At(22))
	if err := request(t, record, 23, "a", "agent-23", At(23)); err != nil {
		t.Errorf("a request after one was accepted: %v", err)
	}
	if err := request(t, record, 24, "a", "agent-24", At(0).Add(federation.RequestWindow)); err != nil {
		t.Errorf("a request an hour after the first: %v", err)
	}
}

func (s suite) testPendingCap(t *testing.T) {
	record := s.open(t)
	for n := range federation.MaxPending + 1 {
		hold(t, record, n, fmt.Sprint("agent-", n), "b")
	}
	pending, err := record.Pending(t.Context(), "b", federation.MaxPending*2)
	if err != nil || len(pending) != federation.MaxPending || pending[0].From != "agent-1" {
		t.Fatalf("%d requests wait, the oldest of %+v, %v; want %d from agent-1 on", len(pending), pending[:1], err, federation.MaxPending)
	}
	if c := edgeOf(t, record, "agent-0", "b"); c.State != federation.ConsentNone || c.Version != 2 {
		t.Errorf("the edge of the oldest request is %+v, want none", c)
	}
	if _, err := record.Named(t.Context(), "agent-0", "message-0"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Named of what the dropped request held: %v, want ErrNotFound", err)
	}
	hold(t, record, 200, "agent-0", "b")
	if c := edgeOf(t, record, "agent-0", "b"); c.State != federation.ConsentPending {
		t.Errorf("a dropped request that is made again is %s, want pending", c.State)
	}
}

func (s suite) testBar(t *testing.T) {
	record := s.open(t)
	decide(t, record, "block", "a", "b", At(1))
	decide(t, record, "unblock", "a", "b", At(2))
	if err := request(t, record, 3, "a", "b", At(3)); err != nil {
		t.Errorf("a request after a block that answered none: %v", err)
	}
	decide(t, record, "block", "a", "b", At(4))
	barred := decide(t, record, "unblock", "a", "b", At(5))
	if want := At(5).Add(federation.UnblockBar); !barred.Barred.Equal(want) {
		t.Errorf("barred until %v, want %v", barred.Barred, want)
	}
	wantRateLimit(t, request(t, record, 6, "a", "b", At(6)), federation.UnblockBar-time.Second)
	quiet := post(t, record, federation.Posting{Message: Message(6, "a", "b"), Held: true, Quiet: true})
	if _, err := record.Named(t.Context(), "a", quiet.ID); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Named of a quiet request while barred: %v, want ErrNotFound", err)
	}
	if err := request(t, record, 7, "a", "b", At(5).Add(federation.UnblockBar)); err != nil {
		t.Errorf("a request after the day: %v", err)
	}
	decide(t, record, "block", "c", "b", At(8))
	decide(t, record, "unblock", "c", "b", At(8))
	hold(t, record, 9, "c", "b")
	decide(t, record, "block", "c", "b", At(9))
	decide(t, record, "unblock", "c", "b", At(9))
	decide(t, record, "accept", "c", "b", At(10))
	decide(t, record, "block", "c", "b", At(11))
	decide(t, record, "unblock", "c", "b", At(12))
	if err := request(t, record, 13, "c", "b", At(13)); err != nil {
		t.Errorf("a request after consent came in between: %v", err)
	}
	if c := edgeOf(t, record, "a", "b"); c.State != federation.ConsentPending || !c.Barred.IsZero() {
		t.Errorf("the edge is %+v, want pending and no bar", c)
	}
}

func (s suite) testContacts(t *testing.T) {
	record := s.open(t)
	for _, handle := range []string{"dora", "cleo", "bob"} {
		decide(t, record, "accept", "ada", handle, At(1))
	}
	decide(t, record, "block", "cleo", "ada", At(2))
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
		ev := Offer(n, ada, bob)
		ev.Deadline = time.Time{}
		f := File(ev, federation.View{})
		m := Message(n, "ada", to)
		m.Event, m.Handoff = f.Event.ID, f.View.ID
		f.Messages = []federation.Posting{{Message: m, Held: true}}
		mustAppend(t, record, f)
		return f.View.ID
	}
	unseen := func(at int) []federation.HandoffID {
		t.Helper()
		views, err := record.Unseen(t.Context(), At(at), 10)
		if err != nil {
			t.Fatalf("Unseen: %v", err)
		}
		var ids []federation.HandoffID
		for _, v := range views {
			ids = append(ids, v.ID)
		}
		return ids
	}
	decide(t, record, "accept", "ada", "friend", At(0))
	offer(1, "friend")
	held, blocked, accepted, answered := offer(2, "held"), offer(3, "blocker"), offer(4, "late"), offer(5, "other")
	decide(t, record, "block", "ada", "blocker", At(6))
	decide(t, record, "accept", "ada", "late", At(6))
	again := offer(7, "blocker")
	if d := diff([]federation.HandoffID{held, blocked, answered, again}, unseen(8)); d != "" {
		t.Errorf("unseen; %s was accepted late (-want +got):\n%s", accepted, d)
	}
	view, err := record.View(t.Context(), answered)
	if err != nil {
		t.Fatal(err)
	}
	ev := Offer(5, ada, bob)
	ev.Deadline = time.Time{}
	mustAppend(t, record, File(Step(9, ev, federation.Accept, bob), view))
	if d := diff([]federation.HandoffID{held, blocked}, unseen(3)); d != "" {
		t.Errorf("unseen for long (-want +got):\n%s", d)
	}
	if d := diff([]federation.HandoffID{held, blocked, again}, unseen(10)); d != "" {
		t.Errorf("unseen after one was answered (-want +got):\n%s", d)
	}
}

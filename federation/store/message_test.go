package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestMessages(t *testing.T) {
	messages(t, open(t, t.TempDir(), prometheus.NewRegistry()))
}

// A link shows a message after its reader has fetched it: when and how the waiting ended stays.
func TestMessageStaysRead(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	const amy, ben = federation.DID("did:web:amy.example"), federation.DID("did:web:ben.example")
	m := said(1, amy, ben, "lab", federation.EventID{})
	if _, _, err := record.FileText(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := record.Read(t.Context(), ben, []federation.EventID{m.Text.ID}, federationtest.At(5)); err != nil {
		t.Fatal(err)
	}
	owed, err := record.Outbox(t.Context(), "lab", federation.Delivery{}, 1)
	if err != nil || len(owed) != 1 {
		t.Fatalf("the outbox: %+v, %v", owed, err)
	}
	if err := record.Rows().Settle(t.Context(), "lab", []int64{owed[0].Row}, federation.Settlement{Shown: true, At: federationtest.At(9)}); err != nil {
		t.Fatal(err)
	}
	var ended int64
	var outcome federation.DeliveryState
	if err := raw(t, dir).QueryRowContext(t.Context(), `SELECT ended, outcome FROM inbox`).Scan(&ended, &outcome); err != nil {
		t.Fatal(err)
	}
	if at := time.Unix(0, ended); !at.Equal(federationtest.At(5)) || outcome != federation.DeliveryDelivered {
		t.Errorf("the waiting ended at %v, %s; want %v, %s", at, outcome, federationtest.At(5), federation.DeliveryDelivered)
	}
}

func TestMessagesOfChannelsAreKept(t *testing.T) {
	chat(t, open(t, t.TempDir(), prometheus.NewRegistry()))
}

func TestContactsAreBounded(t *testing.T) {
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	const ben, carl = federation.DID("did:web:ben.example"), federation.DID("did:web:carl.example")
	for _, state := range []federation.ContactState{federation.ContactIntroduced, federation.ContactBlocked} {
		_, err := raw(t, dir).ExecContext(t.Context(), `INSERT INTO contact (person, sender, state, since)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT ?, 'did:web:' || ? || i || '.example', ?, 1 FROM n`,
			federation.MaxContacts, ben, state, state)
		if err != nil {
			t.Fatal(err)
		}
	}
	contact := func(person, sender federation.DID) federation.Contact {
		return federation.Contact{Person: person, Sender: sender, State: federation.ContactAllowed}
	}
	if err := record.SetContact(t.Context(), contact(ben, "did:web:new.example"), time.Unix(1, 0)); !errors.Is(err, federation.ErrTooManyContacts) {
		t.Errorf("one decision too many: %v, want ErrTooManyContacts", err)
	}
	if err := record.SetContact(t.Context(), contact(ben, "did:web:blocked7.example"), time.Unix(1, 0)); err != nil {
		t.Errorf("another decision about one: %v", err)
	}
	if err := record.SetContact(t.Context(), contact(carl, "did:web:new.example"), time.Unix(1, 0)); err != nil {
		t.Errorf("the decision of another: %v", err)
	}
	m := said(1, "did:web:new.example", ben, "", federationtest.ID(99))
	m.Contact = federation.Contact{Person: ben, Sender: "did:web:new.example", State: federation.ContactIntroduced}
	if _, _, err := record.FileText(t.Context(), m); err != nil {
		t.Errorf("a message of one stranger more: %v", err)
	}
	if state, err := record.Contact(t.Context(), ben, "did:web:new.example"); state != federation.ContactUnknown || err != nil {
		t.Errorf("one stranger too many is %q, %v", state, err)
	}
}

func said(n int, from, to federation.DID, link string, about federation.HandoffID) federation.TextFiling {
	body := "text " + federationtest.ID(n).String()
	f := federation.TextFiling{Inboxes: []federation.DID{to}, Filed: federationtest.At(n), Text: federation.Text{
		ID: federationtest.ID(n), Order: federation.Conversation(from, to), From: from, Author: from, To: to,
		Venue: federation.PrivateVenue(from, to), Body: body, About: about, Signature: federation.Signature{Document: body},
		Arrival: federation.Arrival{Network: "rest", Link: "rest", ReadsInbox: true, Received: federationtest.At(n), Place: federation.ChannelRef{Link: link, Venue: "bob"}},
	}}
	if link != "" {
		f.Links = []string{link}
	}
	return f
}

func messages(t *testing.T, record *registry.Record) {
	t.Helper()
	ctx := t.Context()
	const amy, ben = federation.DID("did:web:amy.example"), federation.DID("did:web:ben.example")
	about := federationtest.ID(99)
	for n := 1; n <= 3; n++ {
		link := ""
		if n < 3 {
			link = "lab"
		}
		m := said(n, amy, ben, link, about)
		for _, want := range []bool{false, true} { // the second one is a repetition
			filed, known, err := record.FileText(ctx, m)
			if err != nil || known != want || filed.ID != m.Text.ID {
				t.Fatalf("FileText %d: %v, %t, %v; want known %t", n, filed.ID, known, err, want)
			}
		}
	}
	want := []string{"text " + federationtest.ID(1).String(), "text " + federationtest.ID(2).String(), "text " + federationtest.ID(3).String()}
	entries, err := record.Replay(ctx, ben, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var inbox, named []string
	for _, e := range entries {
		inbox = append(inbox, e.Text.Body)
	}
	if diff := cmp.Diff(want, inbox); diff != "" {
		t.Errorf("the inbox (-want +got):\n%s", diff)
	}
	found, err := record.TextAbout(ctx, about, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range found {
		named = append(named, text.Body)
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("the text about a handoff (-want +got):\n%s", diff)
	}
	pending, err := record.Rows().PendingOf(ctx, "lab", federation.Conversation(amy, ben).String(), 10)
	if err != nil || len(pending) != 2 || pending[0].Broken != "" || pending[0].Entry.Text.To != ben || pending[0].Entry.Text.Body != want[0] {
		t.Fatalf("the outbox: %+v, %v", pending, err)
	}
	delivered(ctx, t, record, pending[0])
	expiresAndIsPruned(ctx, t, record, ben)
	decides(ctx, t, record, amy, ben)
}

// delivered ends a delivery, which ends the waiting in the inbox too.
func delivered(ctx context.Context, t *testing.T, record *registry.Record, d federation.Delivery) {
	t.Helper()
	failure := federation.Failure{Reason: "away", At: federationtest.At(4), Next: federationtest.At(9999)}
	if err := record.Rows().Failed(ctx, "lab", d.Row, failure); err != nil {
		t.Fatal(err)
	}
	if n, err := record.HurryMessages(ctx, "lab", "did:web:other.example"); n != 0 || err != nil {
		t.Errorf("HurryMessages of another DID: %d, %v", n, err)
	}
	if n, err := record.HurryMessages(ctx, "lab", d.Entry.Text.To); n != 1 || err != nil {
		t.Errorf("HurryMessages: %d, %v", n, err)
	}
	if due, err := record.Rows().Heads(ctx, "lab", federationtest.At(5), 10); len(due) != 1 || err != nil {
		t.Errorf("due after that: %v, %v", due, err)
	}
	if err := record.Rows().Settle(ctx, "lab", []int64{d.Row}, federation.Settlement{Shown: true, At: federationtest.At(5)}); err != nil {
		t.Fatal(err)
	}
	if entries, _, err := record.Waiting(ctx, d.Entry.Text.To); entries != 2 || err != nil {
		t.Errorf("%d entries wait after one was shown, %v; want 2", entries, err)
	}
}

func expiresAndIsPruned(ctx context.Context, t *testing.T, record *registry.Record, to federation.DID) {
	t.Helper()
	if n, err := record.PruneConversations(ctx, federationtest.At(50), 10); n != 1 || err != nil { // the shown one
		t.Errorf("PruneConversations before the end: %d, %v", n, err)
	}
	if n, err := record.Expire(ctx, federationtest.At(50), federationtest.At(60), 10); n != 0 || err != nil {
		t.Errorf("Expire takes messages for steps: %d, %v", n, err)
	}
	for _, want := range []int{3, 0} { // one delivery, two entries
		if n, err := record.ExpireMessages(ctx, federationtest.At(50), federationtest.At(60), 10); n != want || err != nil {
			t.Errorf("ExpireMessages: %d, %v; want %d", n, err, want)
		}
	}
	notices, err := record.NoticesTo(ctx, federation.InboxLink, "did:web:amy.example", "", 10)
	if err != nil || len(notices) != 2 || notices[0].Kind != federation.NoticeUndeliverable || notices[0].Code != string(federation.DeadExpired) {
		t.Errorf("notices: %+v, %v", notices, err)
	}
	if entries, _, err := record.Waiting(ctx, to); entries != 0 || err != nil {
		t.Errorf("%d entries wait at the end, %v", entries, err)
	}
	if n, err := record.PruneConversations(ctx, federationtest.At(50), 10); n != 1 || err != nil { // the newest event stays
		t.Errorf("PruneConversations: %d, %v", n, err)
	}
}

func decides(ctx context.Context, t *testing.T, record *registry.Record, amy, ben federation.DID) {
	t.Helper()
	for n, step := range []struct{ state, want federation.ContactState }{
		{federation.ContactIntroduced, federation.ContactIntroduced},
		{federation.ContactBlocked, federation.ContactBlocked},
		{federation.ContactIntroduced, federation.ContactBlocked}, // an introduction lifts no block
		{federation.ContactAllowed, federation.ContactAllowed},
	} {
		c, m := federation.Contact{Person: ben, Sender: amy, State: step.state}, said(20+n, amy, ben, "", federation.HandoffID{})
		if m.Contact = c; step.state == federation.ContactIntroduced {
			if _, _, err := record.FileText(ctx, m); err != nil {
				t.Fatal(err)
			}
		} else if err := record.SetContact(ctx, c, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if got, err := record.Contact(ctx, ben, amy); got != step.want || err != nil {
			t.Errorf("after %q: %q, %v; want %q", step.state, got, err, step.want)
		}
	}
	other := federation.Contact{Person: ben, Sender: "did:web:zed.example", State: federation.ContactBlocked, Since: time.Unix(2, 0).UTC()}
	if err := record.SetContact(ctx, other, other.Since); err != nil {
		t.Fatal(err)
	}
	want := []federation.Contact{{Person: ben, Sender: amy, State: federation.ContactAllowed, Since: time.Unix(1, 0).UTC()}, other}
	for n, after := range []federation.DID{"", amy} {
		if got, err := record.ContactsOf(ctx, ben, after, 10); err != nil || !cmp.Equal(got, want[n:]) {
			t.Errorf("the contacts after %q: %+v, %v", after, got, err)
		}
	}
}

func chatLine(n int, about federation.HandoffID, links []string) federation.TextFiling {
	m := said(n, "did:web:gw.example", "", "", about)
	m.Text.Order, m.Text.Author, m.Text.Venue = federation.ChatOrder("lab", "#ops"), "did:web:amy.example", "#ops"
	m.Text.Arrival = federation.Arrival{Network: "spanningtree", Link: "lab", Name: "amy", MessageID: "1LA~" + federationtest.ID(n).String(), Received: federationtest.At(n)}
	m.Inboxes, m.Links = nil, links
	return m
}

func chat(t *testing.T, record *registry.Record) {
	t.Helper()
	ctx := t.Context()
	order := federation.ChatOrder("lab", "#ops")
	about := federationtest.ID(99)
	for n := 1; n <= 3; n++ {
		for _, want := range []bool{false, true} {
			if _, known, err := record.FileText(ctx, chatLine(n, about, []string{"lib", "client"})); err != nil || known != want {
				t.Fatalf("FileText %d: %t, %v; want known %t", n, known, err, want)
			}
		}
	}
	for most, want := range map[int]bool{0: true, 3: false, 4: true} {
		if has, err := record.HasSpace(ctx, "lib", order, most); has != want || err != nil {
			t.Errorf("HasSpace for %d: %t, %v", most, has, err)
		}
	}
	if has, err := record.HasSpace(ctx, "freeq", order, 1); !has || err != nil {
		t.Errorf("HasSpace of a link for which nothing waits: %t, %v", has, err)
	}
	second := federationtest.ID(2).String()
	for _, id := range []string{second, second + ".1", second + ".line", "1LA~" + second} {
		e, err := record.WithMessageID(ctx, id)
		if err != nil || e.Text == nil || e.Text.ID != federationtest.ID(2) || e.Text.About != about || !e.Text.InChannel() {
			t.Errorf("WithMessageID %s: %+v, %v", id, e, err)
		}
	}
	if _, err := record.WithMessageID(ctx, "1LA~9"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("WithMessageID of none: %v", err)
	}
	pending, err := record.Rows().PendingOf(ctx, "lib", order.String(), 10)
	if err != nil || len(pending) != 3 || pending[0].Entry.Text.ID != federationtest.ID(1) || pending[0].Entry.Text.Arrival.Name != "amy" {
		t.Fatalf("the outbox: %+v, %v", pending, err)
	}
	if n, err := record.Delay(ctx, federationtest.At(50), federationtest.At(60), 10); n != 6 || err != nil {
		t.Errorf("Delay: %d, %v", n, err)
	}
	if n, err := record.ExpireMessages(ctx, federationtest.At(50), federationtest.At(60), 10); n != 6 || err != nil {
		t.Errorf("ExpireMessages: %d, %v", n, err)
	}
	private := said(9, "did:web:amy.example", "did:web:ben.example", "", federation.HandoffID{})
	if _, _, err := record.FileText(ctx, private); err != nil {
		t.Fatal(err)
	}
	plain := chatLine(8, federation.HandoffID{}, nil)
	if _, _, err := record.FileText(ctx, plain); err != nil {
		t.Fatal(err)
	}
	newest := chatLine(10, federation.HandoffID{}, nil)
	if _, _, err := record.FileText(ctx, newest); err != nil {
		t.Fatal(err)
	}
	if n, err := record.PruneChat(ctx, federationtest.At(50), 10); n != 1 || err != nil { // the others name a handoff, are private or the newest
		t.Errorf("PruneChat: %d, %v; want 1", n, err)
	}
	if due, err := storetest.DueNotices(ctx, record, "lab", federationtest.At(70), 10); len(due) != 0 || err != nil {
		t.Errorf("an author gets a notice about a line of a channel: %+v, %v", due, err)
	}
}

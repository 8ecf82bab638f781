package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// A webhook and the readers of notices are listed, counted and steered like a link.
func TestFeedsListEachKindOfDestination(t *testing.T) {
	t.Parallel()
	record := storetest.Open(t)
	alice, bob := federationtest.Person("alice"), federationtest.Person("bob")
	id, now := federationtest.ID(9001), time.Now()
	hook, readers := federation.WebhookName(id), federation.NoticesOf("lab")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(record.AddWebhook(t.Context(), federation.Webhook{ID: id, DID: bob, URL: "https://bob.test", Since: now}, 5))
	step := federationtest.File(federationtest.Offer(1, alice, bob), federation.View{})
	step.Links, step.Filed = []string{"lab"}, now
	_, err := record.Append(t.Context(), step)
	must(err)
	notice := federation.Notice{Kind: federation.NoticeDelayed, Event: step.Event, At: now}
	notice.Event.Arrival.Link = "lab"
	must(record.Notify(t.Context(), notice))
	list := func(f federation.WaitingFilter) (found []string) {
		t.Helper()
		for cursor := federation.Cursor(""); ; {
			page, next, err := record.WaitingFor(t.Context(), f, cursor, 1)
			must(err)
			for _, w := range page {
				if w.Event != step.Event.ID || w.Handoff != step.Event.Handoff || w.Reason != "" {
					t.Errorf("listed is %+v", w)
				}
				found = append(found, fmt.Sprint(w.To(), " ", w.Verb))
			}
			if cursor = next; next == "" {
				return found
			}
		}
	}
	expect := func(f federation.WaitingFilter, want ...string) {
		t.Helper()
		if got := list(f); !slices.Equal(got, want) {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
	expect(federation.WaitingFilter{}, "lab offer", readers+" ", hook+" offer")
	expect(federation.WaitingFilter{ID: step.Event.ID.String()}, "lab offer", hook+" offer")
	expect(federation.WaitingFilter{Link: hook}, hook+" offer")
	expect(federation.WaitingFilter{Link: readers, Handoff: step.Event.Handoff}, readers+" ")
	expect(federation.WaitingFilter{Peer: "b.test"})
	shapes, err := record.Shapes(t.Context(), now)
	must(err)
	var to []string
	for _, s := range shapes {
		to = append(to, fmt.Sprint(s.Link, s.Peer, " ", s.Rows))
	}
	if want := []string{"lab 1", readers + " 1", hook + " 1"}; !slices.Equal(to, want) {
		t.Errorf("shapes are %q, want %q", to, want)
	}
	for _, name := range []string{hook, readers} {
		n, err := record.Retry(t.Context(), federation.WaitingFilter{Link: name}, now)
		if err != nil || n != 1 {
			t.Errorf("Retry(%s) = %d, %v", name, n, err)
		}
		must(record.Hold(t.Context(), federation.PausedQueue{To: name, Since: now}))
		if _, held, err := record.Rows().Held(t.Context(), name); !held || err != nil {
			t.Errorf("%s is held %t, %v", name, held, err)
		}
		due, err := record.Rows().Take(t.Context(), federation.ToWebhook, now.Add(time.Hour), now.Add(time.Hour), 10)
		if len(due) != 0 && name == hook || err != nil {
			t.Errorf("taken while held are %v, %v", due, err)
		}
		must(record.Release(t.Context(), name))
		n, err = record.EndWaiting(t.Context(), federation.WaitingFilter{Link: name}, false, "gone", now)
		if err != nil || n != 1 {
			t.Errorf("GiveUp(%s) = %d, %v", name, n, err)
		}
		expect(federation.WaitingFilter{Link: name})
	}
	dead, err := record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 10)
	if err != nil || len(dead) != 1 || dead[0].To != hook || dead[0].Why != "gone" {
		t.Errorf("dead letters are %+v, %v", dead, err)
	}
	if _, _, err := record.WaitingFor(t.Context(), federation.WaitingFilter{}, "nonsense", 1); !errors.Is(err, federation.ErrUnknownCursor) {
		t.Errorf("an unknown cursor is answered %v", err)
	}
}

// The only process that serves a kind takes over from a killed one at once. Other kinds keep their leases.
func TestEndLeasesFreesOnlyTheDestinationsOfAKind(t *testing.T) {
	t.Parallel()
	record, now := storetest.Open(t), time.Now()
	id, bob := federationtest.ID(9001), federationtest.Person("bob")
	step := federationtest.File(federationtest.Offer(1, federationtest.Person("alice"), bob), federation.View{})
	step.Filed = now
	_, err := record.Append(t.Context(), step)
	err = errors.Join(err, record.AddWebhook(t.Context(), federation.Webhook{ID: id, DID: bob, URL: "https://bob.test", Since: now}, 5),
		record.Enqueue(t.Context(), federation.PeerDelivery{Peer: "b.test", Sender: "ada", Message: "m", OrderKey: "ada", Document: []byte(`{}`), Queued: now}))
	if err != nil {
		t.Fatal(err)
	}
	take := func(kind federation.DestinationKind) int {
		t.Helper()
		taken, err := record.Rows().Take(t.Context(), kind, now.Add(time.Second), now.Add(time.Hour), 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(taken)
	}
	for _, kind := range []federation.DestinationKind{federation.ToPeer, federation.ToWebhook} {
		if first, second := take(kind), take(kind); first != 1 || second != 0 {
			t.Fatalf("%d and %d of %s are taken, want 1 and 0", first, second, kind)
		}
	}
	if err := record.EndLeases(t.Context(), federation.ToPeer); err != nil {
		t.Fatal(err)
	}
	if peers, hooks := take(federation.ToPeer), take(federation.ToWebhook); peers != 1 || hooks != 0 {
		t.Errorf("after the end of the leases of peers, %d peers and %d webhooks are taken, want 1 and 0", peers, hooks)
	}
}

package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func messageIDs(messages []agents.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, m.ID)
	}
	return all
}

func (s suite) testConversations(t *testing.T) {
	record := s.open(t)
	if err := record.AddAgent(t.Context(), federationtest.NewAgent("b")); err != nil {
		t.Fatalf("AddAgent: %v", err)
	}
	for n, way := range [][2]string{{"a", "b"}, {"b", "a"}, {"c", "b"}, {"a", "b"}, {"b", "b"}, {"c", "d"}} {
		post(t, record, agents.Posting{Message: federationtest.Message(n, way[0], way[1])})
	}
	hold(t, record, 8, "e", "b")
	if err := record.Delete(t.Context(), "b", "message-0"); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	check := func(what string, want []string, got []agents.Message, err error) {
		t.Helper()
		if err != nil || diff(want, messageIDs(got)) != "" {
			t.Errorf("%s: %v, %v, want %v", what, messageIDs(got), err, want)
		}
	}
	fresh, err := record.Fresh(t.Context(), "b", 10)
	check("fresh", []string{"message-2", "message-3", "message-4", "handshake-8"}, fresh, err)
	if err := record.Show(t.Context(), "b", fresh[1].Cursor); err != nil {
		t.Fatalf("Show: %v", err)
	}
	fresh, err = record.Fresh(t.Context(), "b", 1)
	check("fresh after two were shown, one at most", []string{"message-4"}, fresh, err)
	since, err := record.Since(t.Context(), "b", federationtest.At(2), 10)
	check("since", []string{"message-3", "message-4", "handshake-8"}, since, err)
	since, err = record.Since(t.Context(), "b", federationtest.At(0), 1)
	check("since, one at most", []string{"message-2"}, since, err)
	recent, err := record.Recent(t.Context(), "b", "a", 10)
	check("recent", []string{"message-1", "message-3"}, recent, err)
	recent, err = record.Recent(t.Context(), "a", "b", 2)
	check("recent of the other one, two at most", []string{"message-1", "message-3"}, recent, err)

	list := func() []string {
		t.Helper()
		all, err := record.Conversations(t.Context(), "b", 10)
		if err != nil {
			t.Fatalf("Conversations: %v", err)
		}
		var got []string
		for _, c := range all {
			got = append(got, fmt.Sprintf("%s: %d, %d unread, then %s", c.With, c.Count, c.Unread, c.Last.ID))
		}
		return got
	}
	want := []string{
		"system: 1, 1 unread, then handshake-8", "b: 1, 1 unread, then message-4",
		"a: 2, 1 unread, then message-3", "c: 1, 1 unread, then message-2",
	}
	if d := diff(want, list()); d != "" {
		t.Errorf("conversations (-want +got):\n%s", d)
	}
	for range 2 { // the second changes nothing
		if err := record.ReadConversation(t.Context(), "b", "a", federationtest.At(9)); err != nil {
			t.Fatalf("ReadConversation: %v", err)
		}
	}
	want[2] = "a: 2, 0 unread, then message-3"
	if d := diff(want, list()); d != "" {
		t.Errorf("conversations after one was read (-want +got):\n%s", d)
	}
	if all, err := record.Conversations(t.Context(), "b", 1); err != nil || len(all) != 1 || all[0].With != "system" {
		t.Errorf("one conversation: %+v, %v", all, err)
	}
}

func (s suite) testTold(t *testing.T) {
	record := s.open(t)
	at := func(m agents.Message, offset time.Duration) agents.Message {
		m.Received = federationtest.At(1).Add(offset)
		return m
	}
	var told []time.Duration
	note := func(m agents.Message) { told = append(told, m.Told.Sub(federationtest.At(1))) }
	note(post(t, record, agents.Posting{Message: at(federationtest.Message(1, "a", "b"), 0)}))
	note(post(t, record, agents.Posting{Message: at(federationtest.Message(2, "b", "a"), 300*time.Microsecond)}))
	note(post(t, record, agents.Posting{Message: at(federationtest.Message(3, "a", "b"), 5700*time.Microsecond)}))
	note(post(t, record, agents.Posting{Message: at(federationtest.Message(4, "a", "c"), 0)}))
	if d := diff([]time.Duration{0, time.Millisecond, 5 * time.Millisecond, 0}, told); d != "" {
		t.Errorf("told after the first (-want +got):\n%s", d)
	}
	hold(t, record, 5, "d", "b")
	decide(t, record, "accept", "d", "b", federationtest.At(9))
	recent, err := record.Recent(t.Context(), "d", "b", 1)
	if err != nil || len(recent) != 1 || !recent[0].Told.Equal(federationtest.At(9)) {
		t.Errorf("what was held is told at %+v, %v, want the time of the accept", recent, err)
	}
}

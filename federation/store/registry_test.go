package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runRegistry(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("an agent is found by its handle and both its DIDs", s.testAgent)
	t.Run("an agent that was looked for in vain is found once it registered", s.testLateAgent)
	t.Run("messages are filed with the step that they tell of, or not at all", s.testFiledMessages)
	t.Run("a handle is taken once", s.testTaken)
	t.Run("messages are numbered by thread and read by inbox", s.testInbox)
	t.Run("conversations are read without cursors", s.testConversations)
	t.Run("lines of chat are kept once, and read by place and time", s.testLines)
	t.Run("a password is replaced", s.testPasswords)
	t.Run("samples of the last day are kept", s.testSamples)
	t.Run("sessions are listed by page", s.testSessionPages)
	t.Run("a read marker moves forwards", s.testMarkers)
	t.Run("a relay is queued with its message, tried and taken out", s.testRelays)
	t.Run("the queues of registries are counted", s.testRelayBacklogs)
	t.Run("a registry that does not answer is remembered", s.testPausedPeers)
	t.Run("a decision for another registry is queued once", s.testDecisionsInTheQueue)
	t.Run("a relay that was given up is kept with its reason", s.testDeadRelays)
	t.Run("a message has the ids under which it was relayed", s.testRelayIDs)
	t.Run("messages are told one after the other in a thread", s.testTold)
	t.Run("an inbox is read on from its own cursors alone", s.testInboxCursors)
	t.Run("many messages at once get each its place", s.testPostRace)
	t.Run("a message id is used once in its window", s.testMessageID)
	t.Run("a step reaches its recipient once", s.testMessageEvent)
	t.Run("a message is found by its sender and its recipient", s.testNamed)
	t.Run("the offer of a handoff is found by its two sides", s.testOfferMessage)
	t.Run("a thread is read in order, from any place", s.testThread)
	t.Run("messages are read with the current state of their handoff", s.testMessageState)
	t.Run("what was not handed out yet is counted, without steps", s.testUnshown)
	t.Run("the recipient of a message may mark it read", s.testMarkRead)
	t.Run("a deleted message is gone for its recipient alone", s.testDelete)
	t.Run("the recipients of the messages of a handoff are known", s.testShown)
	t.Run("agents are found by all that they can do", s.testCapable)
	t.Run("a refresh token is good once, and its reuse ends the family", s.testSession)
	t.Run("of many uses of a refresh token at once one succeeds", s.testSessionRace)
	t.Run("a family ends with its time", s.testSessionExpiry)
	t.Run("held messages wait, with one handshake", s.testHeld)
	t.Run("a held relay of an unverified sender is delivered, dropped and expired by itself", s.testHeldRelays)
	t.Run("accept delivers what was held, both ways", s.testAccept)
	t.Run("consent one way opens one edge", s.testOneWay)
	t.Run("the edges to a handle are listed", s.testEdges)
	t.Run("block discards what was held", s.testBlock)
	t.Run("a message may wait for the consent to another one's edge", s.testAttached)
	t.Run("the owner of an edge decides about it, and decides again", s.testDecisions)
	t.Run("each state of an edge goes where each decision leads", s.testTransitions)
	t.Run("a sender may ask ten an hour, without recipients that accepted", s.testRequestRate)
	t.Run("an account registers one agent by one token", s.testAccountOnce)
	t.Run("a first contact that is held outlives a flood of later ones", s.testFirstContactOutlivesFlood)
	t.Run("a full list of first contacts drops the newest of the heaviest source", s.testFirstContactSources)
	t.Run("an entry of a sender yields like any other", s.testFirstContactOfOneSender)
	t.Run("a released handle may be registered again, with its DID, inbox and consent", s.testReleaseHandle)
	t.Run("a sender without consent has a share of what is held", s.testFirstContactShare)
	t.Run("a request that was blocked may not be repeated for a day after the unblock", s.testBar)
	t.Run("an offer that its agent never saw is known by its age", s.testUnseen)
	t.Run("contacts have consent both ways", s.testContacts)
	t.Run("what an agent shows is kept", s.testShows)
	t.Run("a rotated key takes the place of the one before, which is good until then", s.testRotateKey)
	t.Run("the ends of keys are in the history of their DIDs", s.testEndsOfKeys)
	t.Run("a revoked key ends at once", s.testRevokeKey)
	t.Run("with the last key the sessions end", s.testRevokeLastKey)
	t.Run("sessions end with their key", s.testSessionsEndWithTheirKey)
	t.Run("a key that is active again keeps its sessions", s.testSessionOfAKeyThatIsKept)
	t.Run("what a DID began with a key ends with it", s.testSessionsOfADIDEndWithItsKey)
	t.Run("sessions are ended by their participant", s.testEndSessions)
	t.Run("a participant has a bounded number of sessions", s.testManySessions)
	t.Run("an agent is revoked for good", s.testRevokeAgent)
	t.Run("of many keys the oldest that is good no more is forgotten", s.testManyKeys)
	t.Run("two rotations on the word of one key are one", s.testRotationRace)
	t.Run("a key that was only named has no DID, no owner and no end", s.testNamedKey)
	t.Run("a proved key has its DID from then on", s.testProveKey)
	t.Run("two agents never have one DID", s.testOneOwner)
	t.Run("a rotation does not reassign a DID that was proved elsewhere", s.testRotationElsewhere)
	t.Run("agents without a proved key are listed", s.testUnproved)
}

func (s suite) testAccountOnce(t *testing.T) {
	record := s.open(t)
	add := func(n int, handle, subject string, since time.Time) error {
		a := federationtest.NewAgent(handle)
		a.Registered, a.Account = federationtest.At(n), agents.Account{Issuer: "https://login.example", Subject: subject, Since: since}
		return record.AddAgent(t.Context(), a)
	}
	if err := add(10, "scout", "42", federationtest.At(10)); err != nil {
		t.Fatal(err)
	}
	if got, err := record.Agent(t.Context(), "scout"); err != nil || got.Account != (agents.Account{Issuer: "https://login.example", Subject: "42"}) {
		t.Errorf("kept %+v, %v", got.Account, err)
	}
	for _, since := range []int{0, 10} {
		if err := add(12, "judge", "42", federationtest.At(since)); !errors.Is(err, federation.ErrTokenUsed) {
			t.Errorf("a second agent of an account since %d: %v, want ErrTokenUsed", since, err)
		}
	}
	if _, err := record.Agent(t.Context(), "judge"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("the refused agent: %v, want ErrNotFound", err)
	}
	if err := errors.Join(add(12, "judge", "42", federationtest.At(11)), add(12, "planner", "43", federationtest.At(0)), add(12, "critic", "42", time.Time{})); err != nil {
		t.Error(err)
	}
}

func (s suite) testAgent(t *testing.T) {
	record := s.open(t)
	plain, full := federationtest.NewAgent("scout"), federationtest.NewAgent("judge")
	full.Capabilities, full.Metadata = json.RawMessage(`{"skills": ["go"]}`), json.RawMessage(`{"b":1,"a":2}`)
	full.Account = agents.Account{Issuer: "https://login.example", Subject: "42"}
	full.Keys = append(full.Keys, agents.Key{ID: "a_key", DID: "did:key:zOther", Public: federationtest.Key("other"), Created: federationtest.At(2), Expires: federationtest.At(99)})
	for _, want := range []agents.Agent{plain, full} {
		if err := record.AddAgent(t.Context(), want); err != nil {
			t.Fatalf("AddAgent: %v", err)
		}
		byHandle, err := record.Agent(t.Context(), want.Handle)
		byKept, keptErr := record.AgentOf(t.Context(), want.DID)
		byOwn, ownErr := record.AgentOf(t.Context(), want.OwnDID)
		if err := errors.Join(err, keptErr, ownErr); err != nil {
			t.Fatalf("look up: %v", err)
		}
		for _, got := range []agents.Agent{byHandle, byKept, byOwn} {
			if d := diff(want, got); d != "" {
				t.Errorf("agent (-want +got):\n%s", d)
			}
		}
		owners := map[string]federation.DID{federation.KeyID(want.KeptKey): want.DID}
		for _, key := range want.Keys {
			owners[federation.KeyID(key.Public)] = key.DID
		}
		for id, owner := range owners {
			if got, err := record.KeyOwner(t.Context(), id); err != nil || got != owner {
				t.Errorf("KeyOwner = %s, %v, want %s", got, err, owner)
			}
		}
	}
	_, byHandle := record.Agent(t.Context(), "nobody")
	_, byDID := record.AgentOf(t.Context(), ada)
	for _, err := range []error{byHandle, byDID} {
		if !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("error is %v, want ErrNotFound", err)
		}
	}
}

func (s suite) testTaken(t *testing.T) {
	record := s.open(t)
	first, second := federationtest.NewAgent("scout"), federationtest.NewAgent("other")
	second.Handle = first.Handle
	if err := record.AddAgent(t.Context(), first); err != nil {
		t.Fatalf("AddAgent: %v", err)
	}
	if err := record.AddAgent(t.Context(), second); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("AddAgent again: %v, want ErrTaken", err)
	}
	if got, err := record.Agent(t.Context(), "scout"); err != nil || diff(first, got) != "" {
		t.Errorf("the agent is %+v, %v, want the first", got, err)
	}
	if _, err := record.KeyOwner(t.Context(), federation.KeyID(second.KeptKey)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("KeyOwner of the second: %v, want ErrNotFound", err)
	}
}

func post(t *testing.T, record *registry.Record, p agents.Posting) agents.Message {
	t.Helper()
	message, err := record.Post(t.Context(), p)
	if err != nil {
		t.Fatalf("Post(%s): %v", p.Message.ID, err)
	}
	return message
}

func inboxOf(t *testing.T, record *registry.Record, to string) []agents.Message {
	t.Helper()
	messages, more, err := record.Inbox(t.Context(), to, "", 1000)
	if err != nil || more {
		t.Fatalf("Inbox(%s): %v, more is %t", to, err, more)
	}
	for i := range messages {
		messages[i].Cursor = ""
	}
	return messages
}

func (s suite) testInbox(t *testing.T) {
	record := s.open(t)
	seqs := map[string][]uint64{}
	want := map[string][]agents.Message{}
	for n, way := range [][2]string{{"a", "b"}, {"b", "a"}, {"c", "b"}, {"a", "b"}, {"b", "c"}, {"a", "a"}} {
		m := federationtest.Message(n, way[0], way[1])
		filed := post(t, record, agents.Posting{Message: m})
		thread := min(way[0], way[1]) + max(way[0], way[1])
		seqs[thread] = append(seqs[thread], filed.Seq)
		m.Seq, m.Told = filed.Seq, filed.Told
		if d := diff(m, filed); d != "" {
			t.Errorf("Post answers (-want +got):\n%s", d)
		}
		want[way[1]] = append(want[way[1]], m)
	}
	if d := diff(map[string][]uint64{"ab": {1, 2, 3}, "bc": {1, 2}, "aa": {1}}, seqs); d != "" {
		t.Errorf("seqs by thread (-want +got):\n%s", d)
	}
	for _, handle := range []string{"a", "b", "c", "d"} {
		if d := diff(want[handle], inboxOf(t, record, handle)); d != "" {
			t.Errorf("inbox of %s (-want +got):\n%s", handle, d)
		}
	}
}

func (s suite) testInboxCursors(t *testing.T) {
	full, record := s.open(t), s.open(t)
	for n := range 5 {
		post(t, full, agents.Posting{Message: federationtest.Message(n, "a", "b")})
	}
	var after federation.Cursor
	var read []string
	for more := true; more; {
		var page []agents.Message
		var err error
		page, more, err = full.Inbox(t.Context(), "b", after, 2)
		if err != nil || len(page) == 0 {
			t.Fatalf("Inbox = %d messages, %v", len(page), err)
		}
		for _, m := range page {
			read, after = append(read, m.ID), m.Cursor
		}
	}
	if d := diff([]string{"message-0", "message-1", "message-2", "message-3", "message-4"}, read); d != "" {
		t.Errorf("read in pages (-want +got):\n%s", d)
	}
	if page, more, err := full.Inbox(t.Context(), "b", after, 2); len(page) != 0 || more || err != nil {
		t.Errorf("Inbox after the newest = %d messages, %t, %v", len(page), more, err)
	}
	if page, more, err := full.Inbox(t.Context(), "b", "", 0); len(page) != 0 || !more || err != nil {
		t.Errorf("Inbox of none = %d messages, %t, %v", len(page), more, err)
	}

	post(t, record, agents.Posting{Message: federationtest.Message(1, "a", "b")})
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, "b"), federation.View{})) // a DID's inbox of that name
	for name, cursor := range map[string]federation.Cursor{
		"of later messages": after,
		"of a DID":          replay(t, record, "b", "", 1)[0].Cursor,
		"of nothing":        "AAAAAAAAAAAAAAAAAAAAAA",
	} {
		if _, _, err := record.Inbox(t.Context(), "b", cursor, 2); !errors.Is(err, federation.ErrUnknownCursor) {
			t.Errorf("cursor %s: %v, want ErrUnknownCursor", name, err)
		}
	}
	if _, _, err := full.Inbox(t.Context(), "a", after, 2); !errors.Is(err, federation.ErrUnknownCursor) {
		t.Errorf("cursor of another inbox: %v, want ErrUnknownCursor", err)
	}
}

func (s suite) testPostRace(t *testing.T) {
	record := s.open(t)
	for _, err := range race(t.Context(), func(ctx context.Context, n int) error {
		_, err := record.Post(ctx, agents.Posting{Message: federationtest.Message(n, "a", "b")})
		return err
	}) {
		if err != nil {
			t.Errorf("Post: %v", err)
		}
	}
	messages := inboxOf(t, record, "b")
	for i, m := range messages {
		if m.Seq != uint64(i)+1 {
			t.Errorf("message %d has seq %d", i+1, m.Seq)
		}
	}
	if len(messages) != racers {
		t.Errorf("the inbox has %d messages, want %d", len(messages), racers)
	}
}

func (s suite) testMessageID(t *testing.T) {
	record := s.open(t)
	first := post(t, record, agents.Posting{Message: federationtest.Message(1, "a", "b")})
	later := func(d time.Duration, from, to string) agents.Message {
		m := federationtest.Message(1, from, to)
		m.Received = m.Received.Add(d)
		m.Envelope = []byte("later")
		return m
	}
	for _, again := range []agents.Message{
		later(0, "a", "b"),
		later(agents.MessageIDWindow-1, "a", "c"),
		later(-time.Second, "a", "b"), // clocks are read before the record is asked
	} {
		if _, err := record.Post(t.Context(), agents.Posting{Message: again}); !errors.Is(err, agents.ErrDuplicate) {
			t.Errorf("Post of an id used %s before: %v, want ErrDuplicate", again.Received.Sub(first.Received), err)
		}
	}
	if got, err := record.Sent(t.Context(), "a", first.ID, first.Received); err != nil || diff(first, got) != "" {
		t.Errorf("Sent = %+v, %v, want the first", got, err)
	}
	if _, err := record.Sent(t.Context(), "a", first.ID, first.Received.Add(1)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Sent since a later time: %v, want ErrNotFound", err)
	}
	post(t, record, agents.Posting{Message: later(0, "c", "b")})
	second := post(t, record, agents.Posting{Message: later(agents.MessageIDWindow, "a", "b")})
	if got, err := record.Sent(t.Context(), "a", first.ID, first.Received); err != nil || diff(second, got) != "" {
		t.Errorf("Sent = %+v, %v, want the newest", got, err)
	}
}

func (s suite) testMessageEvent(t *testing.T) {
	record := s.open(t)
	m := federationtest.Message(1, "a", "b")
	m.Event, m.Handoff = federationtest.ID(2), federationtest.ID(1)
	first := post(t, record, agents.Posting{Message: m})
	if d := diff(m.Event, first.Event) + diff(m.Handoff, first.Handoff); d != "" {
		t.Errorf("the step of the message (-want +got):\n%s", d)
	}
	again := m
	again.ID, again.From, again.Envelope = "another", "c", []byte("written again")
	handshake := federationtest.Message(3, "system", "b")
	got := post(t, record, agents.Posting{Message: again, Held: true, Handshake: &handshake})
	if d := diff(first, got); d != "" {
		t.Errorf("Post of the same step (-first +again):\n%s", d)
	}
	if n := len(inboxOf(t, record, "b")); n != 1 {
		t.Errorf("the inbox has %d messages, want 1", n)
	}
	if c := edgeOf(t, record, "c", "b"); c.State != agents.ConsentNone {
		t.Errorf("the edge is %s, want none", c.State)
	}
	again.To = "d"
	if other := post(t, record, agents.Posting{Message: again}); other.To != "d" {
		t.Errorf("the step reaches %s, want d as well", other.To)
	}

	held := federationtest.Message(5, "a", "e")
	held.Event, held.Handoff = federationtest.ID(2), federationtest.ID(1)
	waiting := post(t, record, agents.Posting{Message: held, Held: true})
	held.ID = "written again"
	if got := post(t, record, agents.Posting{Message: held, Held: true}); diff(waiting, got) != "" {
		t.Errorf("Post of a held step again = %+v, want %+v", got, waiting)
	}
}

func (s suite) testNamed(t *testing.T) {
	record := s.open(t)
	open := post(t, record, agents.Posting{Message: federationtest.Message(1, "a", "b")})
	held := post(t, record, agents.Posting{Message: federationtest.Message(2, "a", "c"), Held: true})
	if got, err := record.Sent(t.Context(), "a", held.ID, federationtest.At(0)); err != nil || diff(held, got) != "" {
		t.Errorf("Sent = %+v, %v, want the held message", got, err)
	}
	for _, tt := range []struct {
		handle string
		id     string
		want   agents.Message
		err    error
	}{
		{handle: "a", id: open.ID, want: open},
		{handle: "b", id: open.ID, want: open},
		{handle: "c", id: open.ID, err: federation.ErrNotFound},
		{handle: "a", id: held.ID, want: held},
		{handle: "c", id: held.ID, err: federation.ErrNotFound},
		{handle: "a", id: "none", err: federation.ErrNotFound},
	} {
		got, err := record.Named(t.Context(), tt.handle, tt.id)
		if !errors.Is(err, tt.err) || diff(tt.want, got) != "" {
			t.Errorf("Named(%s, %s) = %+v, %v, want %+v, %v", tt.handle, tt.id, got, err, tt.want, tt.err)
		}
	}
}

//go:build interop

package main_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// asksBaton writes to the gateway's own user, and returns the first line of its answer.
func asksBaton(t *testing.T, client *bridgetest.IRCClient, text string) string {
	t.Helper()
	if err := client.Send(nil, "PRIVMSG", "Baton", text); err != nil {
		t.Fatal(err)
	}
	m := next(t, client, "an answer to "+text, func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Nick == "Baton" && m.Params[0] == client.Nick
	})
	return m.Params[1]
}

func TestChatOpsTakesStepsOfPeople(t *testing.T) {
	t.Parallel()
	eliza, scholar, stranger := newPerson(t), newPerson(t), newPerson(t)
	s := newHomeServer(t, "[[bindings]]\nnetwork = \"client\"\nname = \""+eliza.did+"\"\ndid = \""+eliza.did+"\"\nvouch = true\n",
		"[[bindings]]\nnetwork = \"client\"\nname = \""+scholar.did+"\"\ndid = \""+scholar.did+"\"\nvouch = true\n")
	voice, human := s.login(t, "eliza", eliza), s.login(t, "scholar", scholar)
	join(t, voice)
	join(t, human)
	holds := func(answer, words string) string {
		t.Helper()
		if !strings.Contains(answer, words) {
			t.Fatalf("answered %q, want %q", answer, words)
		}
		return answer
	}
	holds(asksBaton(t, voice, "help"), "offer WHO title")
	next(t, voice, "who it is", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.Contains(m.Params[1], eliza.did)
	})
	offered := holds(asksBaton(t, voice, "offer scholar Cite the 3 best sources"), "offer: it is offered now")
	id := offered[strings.Index(offered, "…")+len("…"):][:6]
	holds(asksBaton(t, human, "inbox"), "…"+id+"] offered, from eliza to ")
	holds(asksBaton(t, voice, "accept "+id), "WRONG_SENDER")
	holds(asksBaton(t, human, "accept "+strings.ToLower(id)), "accept: it is assigned now")
	room := holds(asksBaton(t, human, "room "+id), "Both are invited to #room-")
	name := strings.TrimSuffix(room[strings.Index(room, "#"):], ".")
	next(t, voice, "the invitation", func(m bridgetest.IRCMessage) bool { return m.Command == "INVITE" && m.Params[1] == name })
	if err := voice.Join(t.Context(), name); err != nil {
		t.Error(err)
	}
	holds(asksBaton(t, human, "progress "+id+" two of three"), "progress: it is assigned now")
	holds(asksBaton(t, human, "done "+id), "complete: it is completed now")
	holds(asksBaton(t, voice, "show "+id), "completed, from eliza to scholar")
	next(t, voice, "its id", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.Contains(m.Params[1], "its id is")
	})

	long := strings.TrimSpace(strings.Repeat("Cite the 3 best sources ", 14)) // 335 bytes
	offered = holds(asksBaton(t, voice, "offer scholar "+long), "offer: it is offered now")
	next(t, voice, "the cut", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.Contains(m.Params[1], "The title is cut at 300 bytes")
	})
	var shown struct{ Title string }
	id = offered[strings.Index(offered, "…")+len("…"):][:6]
	s.asks(t, &shown, "handoff", "show", id)
	if shown.Title != strings.TrimSpace(long[:300]) {
		t.Errorf("the title is %q", shown.Title)
	}
	if passport, err := s.command(t, "handoff", "export", id).Output(); err != nil || !strings.Contains(string(passport), long) {
		t.Errorf("the passport lacks the whole title, %v: %s", err, passport)
	}

	guest := s.guest(t, "guest")
	holds(asksBaton(t, guest, "offer scholar x"), "bound to a DID")
	holds(asksBaton(t, guest, "sing"), "help")
	holds(asksBaton(t, s.login(t, "stranger", stranger), "offer scholar x"), "NEED_SIGNATURE")
}

func TestChatOpsTakesStepsOfALinkedNetwork(t *testing.T) {
	t.Parallel()
	var lab *network
	scholar := newPerson(t)
	c := newCrossroads(t, func(h *house) []string {
		lab = newNetwork(t, h, "lab", "1LA")
		return []string{lab.table, bindingTable("true"), "[[bindings]]\nnetwork = \"client\"\nname = \"" + scholar.did + "\"\ndid = \"" + scholar.did + "\"\nvouch = true\n"}
	})
	agent := c.login(t, "scholar", scholar, agentCaps(rfcTags)...)
	join(t, agent)
	alice, bob := lab.join(t, "alice", "message-tags"), lab.join(t, "bob")
	lab.logIn(t, "alice", "ElizaAcct")
	await(t, "alice to be known", func() bool { return strings.HasPrefix(asksBaton(t, alice, "inbox"), "Nothing") })
	if told := asksBaton(t, bob, "offer "+scholar.did+" x"); !strings.Contains(told, "bound to a DID") {
		t.Errorf("bob is answered %q", told)
	}
	offered := asksBaton(t, alice, "offer "+scholar.did+" Cite the 3 best sources")
	if !strings.Contains(offered, "offer: it is offered now") {
		t.Fatalf("the offer is answered %q", offered)
	}
	id := offered[strings.Index(offered, "…")+len("…"):][:6]
	next(t, agent, "the offer", func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags[vendor+"handoff"] == "offer" && strings.HasSuffix(m.Tags[vendor+"handoff-id"], id)
	})
	if told := asksBaton(t, agent, "accept "+id); !strings.Contains(told, "accept: it is assigned now") {
		t.Errorf("the agent is answered %q", told)
	}
	told := asksBaton(t, alice, "room "+id)
	room := strings.TrimSuffix(told[strings.Index(told, "#"):], ".")
	next(t, alice, "the invitation", func(m bridgetest.IRCMessage) bool { return m.Command == "INVITE" && m.Params[1] == room })
	if err := alice.Join(t.Context(), room); err != nil {
		t.Error(err)
	}
	if err := bob.Send(nil, "JOIN", room); err != nil {
		t.Fatal(err)
	}
	next(t, bob, "why not", func(m bridgetest.IRCMessage) bool { return m.Command == "473" })
}

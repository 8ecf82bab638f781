//go:build interop

package main_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// tagged returns the tag of each message without text in the channel, if it has the tag, as "nick
// value of message".
func tagged(all []bridgetest.IRCMessage, tag string) (found []string) {
	for _, m := range all {
		if value := m.Tags[tag]; m.Command == "TAGMSG" && value != "" && strings.EqualFold(m.Params[0], channel) {
			nick := m.Nick
			if nick == "" {
				nick = nickOf(m)
			}
			found = append(found, strings.TrimSpace(nick+" "+value+" "+m.Tags["+draft/reply"]))
		}
	}
	return found
}

const (
	reactTag   = "+draft/react"
	unreactTag = "+draft/unreact"
	typingTag  = "+typing"
)

func TestReactionsNameTheirMessageAndWait(t *testing.T) {
	t.Parallel()
	b := newBabel(t)
	b.lab.Send("@msgid=1LA~question :" + b.lab.UUID("alice") + " PRIVMSG " + channel + " :who is there?")
	b.reads(t, "client", "who is there?")
	question := ""
	for _, m := range b.zoe.Received() {
		if m.Command == "PRIVMSG" {
			question = m.Tags["msgid"]
		}
	}
	b.reads(t, "lib", "who is there?")
	b.reads(t, "freeq", "who is there?")
	react := func(tag, emoji, to string) {
		t.Helper()
		if err := b.zoe.Send(map[string]string{tag: emoji, "+draft/reply": to}, "TAGMSG", channel); err != nil {
			t.Fatal(err)
		}
	}
	b.prints(t, "link", "down", "lib")
	react(reactTag, "👍", question)
	react(reactTag, "👎", "unknown")
	react(unreactTag, "👍", question)
	b.lab.Send("@msgid=1LA~react;+draft/react=🎉;+draft/reply=1LA~question :" + b.lab.UUID("alice") + " TAGMSG " + channel)
	await(t, "the reaction of lab", func() bool { return len(tagged(b.zoe.Received(), reactTag)) == 3 }) // with two echoes
	b.freeq.Say(b.freeq.Event(map[string]any{
		"type": "tagmsg", "from": "finn", "target": channel, "msgid": "01K0A3V9M7Q2X5R8T1W4Y6Z0AC", "tags": map[string]string{reactTag: "🚀", "+reply": question},
	}))
	await(t, "the reaction of freeq", func() bool { return len(tagged(b.zoe.Received(), reactTag)) == 4 })
	b.prints(t, "link", "up", "lib")
	await(t, "the reactions that waited", func() bool { return len(tagged(b.lib.Received(), reactTag)) == 3 })
	b.lab.Send("@msgid=1LA~end :" + b.lab.UUID("alice") + " PRIVMSG " + channel + " :the end")
	for _, place := range []string{"lib", "freeq", "client"} {
		b.reads(t, place, "the end")
	}
	await(t, "the reactions on lab", func() bool {
		return len(tagged(b.lab.Received(), reactTag)) >= 2 && len(tagged(b.lab.Received(), unreactTag)) >= 1
	})
	await(t, "the removal that waited", func() bool { return len(tagged(b.lib.Received(), unreactTag)) >= 1 })
	own := []string{"zoe 👍 " + question, "zoe 👎 unknown"}
	for place, c := range map[string]struct{ got, want []string }{ // reactions of two links come in any order
		"client": {tagged(b.zoe.Received(), reactTag), append(own, "alice 🎉 "+question, "finn 🚀 "+question)},
		"lab":    {tagged(b.lab.Received(), reactTag), []string{"zoe 👍 1LA~question", "finn 🚀 1LA~question"}},
		"undone": {tagged(b.lab.Received(), unreactTag), []string{"zoe 👍 1LA~question"}},
		"lib":    {tagged(b.lib.Received(), unreactTag), []string{"zoe 👍 " + question}},
	} {
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, slices.Sorted(slices.Values(c.got))); diff != "" {
			t.Errorf("reactions in %s (-want +got):\n%s", place, diff)
		}
	}
	if late := tagged(b.lib.Received(), reactTag); len(late) != 3 {
		t.Errorf("reactions after the link was down: %q", late)
	}
	await(t, "the reactions on freeq", func() bool {
		found := map[any]bool{}
		for _, m := range b.freeq.Said() {
			if tags, _ := m["tags"].(map[string]any); m["type"] == "tagmsg" && tags["+draft/reply"] == question {
				found[m["from"]] = true
			}
		}
		return found["zoe-gw"] && found["alice-gw"]
	})
}

func TestTypingIsShownAndNeverKept(t *testing.T) {
	t.Parallel()
	b := newBabel(t)
	typing := func(state string) {
		t.Helper()
		if err := b.zoe.Send(map[string]string{typingTag: state}, "TAGMSG", channel); err != nil {
			t.Fatal(err)
		}
	}
	typing("active") // lab has no user for her yet
	if err := b.zoe.Send(nil, "PRIVMSG", channel, "hello"); err != nil {
		t.Fatal(err)
	}
	b.reads(t, "lab", "hello")
	typing("active")
	typing("nonsense")
	typing("done")
	await(t, "her typing", func() bool { return len(tagged(b.lab.Received(), typingTag)) >= 2 })
	if diff := cmp.Diff([]string{"zoe active", "zoe done"}, tagged(b.lab.Received(), typingTag)); diff != "" {
		t.Errorf("on lab (-want +got):\n%s", diff)
	}
	b.lab.Say("alice", "PRIVMSG "+channel+" :hello zoe")
	b.reads(t, "client", "hello zoe")
	b.lab.Send("@msgid=1LA~typing;+typing=active :" + b.lab.UUID("alice") + " TAGMSG " + channel)
	await(t, "alice to type", func() bool {
		return strings.Contains(strings.Join(tagged(b.zoe.Received(), typingTag), "\n"), "alice active")
	})
	reader, err := bridgetest.DialIRC(patient(t), b.irc, "reader", "message-tags", "batch", "draft/chathistory", "draft/event-playback")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	history(t, reader)
	if kept := tagged(reader.Received(), typingTag); len(kept) > 0 {
		t.Errorf("the history has %q", kept)
	}
}

func TestPrivateReplyNamesItsMessage(t *testing.T) {
	t.Parallel()
	b := newTalkative(t, offersOverREST)
	b.send(t, "alice@lab", "hello", http.StatusCreated)
	b.lab.Send("@msgid=1LA~ask :" + b.lab.UUID("alice") + " PRIVMSG " + b.labReads(t, "alice", "hello").Source + " :which one?")
	asked := b.scoutReads(t, "which one?")
	envelope := b.scout.Envelope(asked["from"].(string), "the second", nil)
	envelope["replyTo"] = asked["id"]
	signed, err := b.scout.Sign(envelope)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := b.scout.Post(t.Context(), signed); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %v, %v", status, answer, err)
	}
	m := b.labReads(t, "alice", "the second")
	if got := m.Tags["+draft/reply"]; got != "1LA~ask" {
		t.Errorf("the answer names %q, want the ID that alice knows", got)
	}
	b.lab.Send("@msgid=1LA~thanks;+reply=" + m.Tags["msgid"] + " :" + b.lab.UUID("alice") + " PRIVMSG " + m.Source + " :thanks")
	if got := b.scoutReads(t, "thanks")["reply_to"]; got != envelope["id"] {
		t.Errorf("the agent reads an answer to %v, want %v", got, envelope["id"])
	}
}

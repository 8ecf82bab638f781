package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
)

// reread asks for a page of the history, and returns the texts and the message IDs of its lines.
func (p *peer) reread(t *testing.T, command string) (texts, ids []string) {
	t.Helper()
	p.say(t, command)
	p.until(t, "*BATCH +*")
	for {
		line := p.hear(t)
		if strings.Contains(line, " BATCH -") {
			return texts, ids
		}
		text := ""
		if parts := strings.SplitN(line, " :", 3); len(parts) == 3 { // the tags, the command, the text
			text = parts[2]
		}
		if _, after, ok := strings.Cut(line, "msgid="); ok {
			ids = append(ids, strings.FieldsFunc(after, func(r rune) bool { return r == ';' || r == ' ' })[0])
		}
		texts = append(texts, text)
	}
}

// historian is a client that reads the history of #ops.
func historian(t *testing.T, h *house, nick string) *peer {
	t.Helper()
	p := dial(t, h.addr)
	p.register(t, nick, "draft/chathistory batch message-tags server-time draft/event-playback")
	p.say(t, "JOIN #ops")
	p.until(t, "*366*")
	return p
}

const everyPage = "CHATHISTORY LATEST #ops * 100"

func TestHistoryHasTheLinesOfChannels(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	play(t, h, `
		alice joins echo-message
		alice > JOIN #ops,#room
		alice < *JOIN*
		alice < *353*
		alice < *366*
		alice < *JOIN*
		alice < *353*
		alice < *366*
		alice > PRIVMSG #ops :one
		alice < :alice!* PRIVMSG #ops :one
		alice > NOTICE #ops :two
		alice < :alice!* NOTICE #ops :two
		alice > PRIVMSG #ops :`+"\x01ACTION waves\x01"+`
		alice < :alice!* PRIVMSG #ops *waves*
		alice > PRIVMSG #room :elsewhere
		alice < *#room :elsewhere
		bob joins draft/chathistory batch message-tags server-time
		bob > JOIN #ops
		bob < *JOIN*
		alice < :bob!* JOIN #ops
		bob < *353*
		bob < *366*
		bob > CHATHISTORY LATEST #ops * 10
		bob < *BATCH +* chathistory #ops
		bob < @*time=*:alice!* PRIVMSG #ops :one
		bob < @*msgid=*:alice!* NOTICE #ops :two
		bob < @*msgid=*:alice!* PRIVMSG #ops :`+"\x01ACTION waves\x01"+`
		bob < *BATCH -*
		bob > CHATHISTORY LATEST #room * 10
		bob < *INVALID_TARGET*`)
}

func TestHistoryIsPagedWithoutALineTwiceOrLost(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	p := historian(t, h, "alice")
	var want []string
	for n := range 45 {
		text := fmt.Sprintf("line %02d", n)
		want = append(want, text)
		p.say(t, "PRIVMSG #ops :"+text)
	}
	h.say(t, federation.ChannelRef{Venue: "#ops"}, offers(bob, ada, 1)...) // a step, older than the lines
	texts, ids := p.reread(t, "CHATHISTORY LATEST #ops * 10")
	forward := func(command string) (all []string) {
		for {
			texts, ids := p.reread(t, command)
			all = append(all, texts...)
			if len(texts) == 0 {
				return all
			}
			command = "CHATHISTORY AFTER #ops msgid=" + ids[len(ids)-1] + " 7"
		}
	}
	all := texts
	for first := ids[0]; len(texts) > 0; {
		texts, ids = p.reread(t, "CHATHISTORY BEFORE #ops msgid="+first+" 7")
		if len(texts) > 0 {
			all, first = append(texts, all...), ids[0]
		}
	}
	if diff := cmp.Diff(want, all[1:]); diff != "" || !strings.Contains(all[0], "Review patch 1") {
		t.Errorf("backwards, after %q (-want +got):\n%s", all[0], diff)
	}
	if diff := cmp.Diff(all, forward("CHATHISTORY AFTER #ops timestamp=2026-01-01T00:00:00.000Z 7")); diff != "" {
		t.Errorf("forwards (-backwards +forwards):\n%s", diff)
	}
	_, ids = p.reread(t, everyPage)
	around, _ := p.reread(t, "CHATHISTORY AROUND #ops msgid="+ids[20]+" 5")
	if diff := cmp.Diff(all[18:23], around); diff != "" {
		t.Errorf("around (-want +got):\n%s", diff)
	}
	between, _ := p.reread(t, "CHATHISTORY BETWEEN #ops msgid="+ids[20]+" msgid="+ids[24]+" 10")
	if diff := cmp.Diff(all[21:24], between); diff != "" {
		t.Errorf("between (-want +got):\n%s", diff)
	}
}

func TestHistoryHasReactionsForThoseWhoPlayBackEventsAndNoTyping(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	p := historian(t, h, "alice")
	p.say(t, "PRIVMSG #ops :hello", "@+draft/react=+1;+draft/reply=x TAGMSG #ops", "@+typing=active TAGMSG #ops", everyPage)
	p.until(t, "*BATCH +*")
	p.until(t, "*PRIVMSG #ops :hello")
	if line := p.hear(t); !matches("@*+draft/react=+1*TAGMSG #ops", line) {
		t.Errorf("after the line comes %q", line)
	}
	if line := p.hear(t); !matches("*BATCH -*", line) {
		t.Errorf("after the reaction comes %q", line)
	}
	plain := dial(t, h.addr)
	plain.register(t, "bob", "draft/chathistory batch message-tags")
	plain.say(t, "JOIN #ops")
	plain.until(t, "*366*")
	if texts, _ := plain.reread(t, everyPage); len(texts) != 1 {
		t.Errorf("a client without events reads %q", texts)
	}
}

func TestHistoryPageOfTextSkipsEvents(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	p := historian(t, h, "alice")
	p.say(t, "JOIN #room", "PRIVMSG #room :one", "PRIVMSG #room :two", "TOPIC #room :work")
	for range 4 {
		p.say(t, "@+draft/react=+1;+draft/reply=x TAGMSG #room")
	}
	p.say(t, "CHATHISTORY LATEST #room * 5")
	p.until(t, "*BATCH +*")
	if line := p.until(t, "*TOPIC #room :work"); !matches("@*msgid=*", line) {
		t.Errorf("the change of topic is %q", line)
	}
	plain := dial(t, h.addr)
	plain.register(t, "bob", "draft/chathistory batch message-tags")
	plain.say(t, "JOIN #room")
	plain.until(t, "*366*")
	if texts, _ := plain.reread(t, "CHATHISTORY LATEST #room * 2"); len(texts) != 2 || texts[1] != "two" {
		t.Errorf("a page of two lines is %q", texts)
	}
}

func TestHistoryOfPrivateLinesIsForItsTwoAccounts(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig(), func(d *client.Deps) { d.Messages = relayed{} })
	scene := login + loginAs("ben", bob) + `
		ada > PRIVMSG ben :hello ben
		ben < *PRIVMSG ben :hello ben
		ben > PRIVMSG ada :hello ada
		ada < *PRIVMSG ada :hello ada
		ben > CHATHISTORY LATEST ada * 10
		ben < *BATCH +* chathistory ada
		ben < *:ada!* PRIVMSG ben :hello ben
		ben < *:ben!* PRIVMSG ada :hello ada
		ben < *BATCH -*
		ben > CHATHISTORY TARGETS timestamp=2026-01-01T00:00:00.000Z timestamp=2096-01-01T00:00:00.000Z 10
		ben < *BATCH +* draft/chathistory-targets
		ben < *CHATHISTORY TARGETS ada *
		ben < *BATCH -*
		guest joins draft/chathistory standard-replies
		guest > PRIVMSG ada :from a guest
		ada < *PRIVMSG ada :from a guest
		guest > CHATHISTORY LATEST ada * 10
		guest < *FAIL CHATHISTORY INVALID_TARGET*
		ada > CHATHISTORY LATEST guest * 10
		ada < *BATCH +* chathistory guest
		ada < *:guest!* PRIVMSG ada :from a guest
		ada < *BATCH -*`
	play(t, h, scene)
}

func TestHistoryHasALinkedLineOnceAndInOrder(t *testing.T) {
	t.Parallel()
	h, kept, _ := relaying(t)
	p := historian(t, h, "alice")
	deliver := func(n int, age time.Duration) {
		t.Helper()
		text := fromLab(n, kept.Guest("lab", "carol"), "carol")
		text.Body, text.Arrival.Received = fmt.Sprintf("line %d", n), time.Now().Add(-age)
		if err := h.link.DeliverText(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	deliver(1, time.Hour)
	p.until(t, "*PRIVMSG #ops :line 1")
	p.say(t, "PRIVMSG #ops :mine")
	<-kept.lines
	_, ids := p.reread(t, everyPage)
	deliver(2, time.Minute) // it was on its way for a minute, and is read after the last line
	p.until(t, "*PRIVMSG #ops :line 2")
	deliver(2, time.Minute) // as after a crash
	texts, _ := p.reread(t, "CHATHISTORY AFTER #ops msgid="+ids[len(ids)-1]+" 10")
	if diff := cmp.Diff([]string{"line 2"}, texts); diff != "" {
		t.Errorf("after the last line (-want +got):\n%s", diff)
	}
	unkept := fromLab(3, kept.Guest("lab", "carol"), "carol")
	unkept.Fields = map[string]string{federation.Unkept: "1"}
	if err := h.link.DeliverText(t.Context(), unkept); err != nil {
		t.Fatal(err)
	}
	p.until(t, "*PRIVMSG #ops :line of carol")
	texts, _ = p.reread(t, everyPage)
	if diff := cmp.Diff([]string{"line 1", "mine", "line 2"}, texts); diff != "" {
		t.Errorf("the history (-want +got):\n%s", diff)
	}
}

func TestHistoryCanBeDisabled(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.History = false
	h := start(t, cfg)
	p := dial(t, h.addr)
	p.say(t, "CAP LS 302")
	if line := p.hear(t); strings.Contains(line, "chathistory") || strings.Contains(line, "event-playback") {
		t.Errorf("it offers %q", line)
	}
	p.say(t, "CAP REQ draft/chathistory")
	p.until(t, "*NAK*")
	p.say(t, "NICK alice", "USER alice 0 * :alice", "CAP END")
	for line := ""; !matches("* 376 *", line); line = p.hear(t) {
		if strings.Contains(line, "CHATHISTORY") {
			t.Errorf("ISUPPORT has %q", line)
		}
	}
	p.say(t, "JOIN #ops", "PRIVMSG #ops :hello", everyPage)
	p.until(t, "*421 alice CHATHISTORY*")
	lines, err := h.record.Lines(t.Context(), federation.TimelineQuery{Place: federation.ChannelRef{Venue: "#ops"}}, 10)
	if err != nil || len(lines) > 0 {
		t.Errorf("on record: %v, %v", lines, err)
	}
}

func TestJoinSendsTheLastLinesToClientsWithoutHistory(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.ReplayOnJoin = 2
	h := start(t, cfg)
	p := historian(t, h, "alice") // which asks by itself
	for n := range 3 {
		p.say(t, fmt.Sprintf("PRIVMSG #ops :line %d", n))
	}
	if texts, _ := p.reread(t, everyPage); len(texts) != 3 {
		t.Fatalf("the history is %q", texts)
	}
	play(t, h, `
		old joins
		old > JOIN #ops
		old < *JOIN*
		old < *353*
		old < *366*
		old < :alice!* PRIVMSG #ops :(*) line 1
		old < :alice!* PRIVMSG #ops :(*) line 2
		new joins server-time
		new > JOIN #ops
		new < *JOIN*
		old < :new!* JOIN #ops
		new < *353*
		new < *366*
		new < @time=* :alice!* PRIVMSG #ops :line 1
		new < @time=* :alice!* PRIVMSG #ops :line 2`)
}

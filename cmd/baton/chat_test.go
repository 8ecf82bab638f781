//go:build interop

package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// relaying is the setting of tests about relay_chat, to be added to the table of a link.
var relaying = fmt.Sprintf("relay_chat = [%q]\n", channel)

// babel is a gateway that relays the text of a channel between two InspIRCd networks, a freeq
// server and its own listener.
type babel struct {
	*homeServer

	lab, lib *bridgetest.IRCd // each with alice
	freeq    *bridgetest.Freeq
	zoe      *bridgetest.IRCClient
}

// newIRCd starts a fake InspIRCd with a user alice, and returns it with the table of its link.
func newIRCd(t *testing.T, h *house, name, sid string) (*bridgetest.IRCd, string) {
	t.Helper()
	h.keep(t, name+".send", "planted-"+name)
	h.keep(t, name+".recv", "planted-"+name)
	d, err := bridgetest.ListenIRCd(t.Context(), bridgetest.IRCdConfig{
		Name: name + ".irc.test", SID: sid, LinkName: "gw.test", SendPassword: "planted-" + name, RecvPassword: "planted-" + name,
		Users: []string{"alice"}, Channels: []string{channel},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, linkTable(name, name+".irc.test", d.Addr()) + relaying
}

func newBabel(t *testing.T, tables ...string) *babel {
	t.Helper()
	b := &babel{homeServer: &homeServer{house: newHouse(t), irc: federationtest.FreeAddr(t)}}
	lab, labTable := newIRCd(t, b.house, "lab", "1LA")
	lib, libTable := newIRCd(t, b.house, "lib", "2LI")
	server, freeqTable := newFreeq(t, b.house, "fq", channel)
	b.lab, b.lib, b.freeq = lab, lib, server
	b.configure(t, append([]string{
		fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n", b.irc, channel) + relaying,
		labTable, libTable, strings.Replace(freeqTable, "[fetch]", relaying+"[fetch]", 1),
	}, tables...)...)
	b.start(t)
	b.ready(t)
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	server.Join("finn", didOf(seeded("finn")), seeded("finn"))
	c, err := bridgetest.DialIRC(patient(t), b.irc, "zoe", "message-tags", "echo-message")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	b.zoe = c
	return b
}

// chatIn returns the lines of a channel among messages, each as "nick COMMAND text".
func chatIn(all []bridgetest.IRCMessage) (lines []string) {
	for _, m := range all {
		if (m.Command == "PRIVMSG" || m.Command == "NOTICE") && len(m.Params) == 2 && strings.EqualFold(m.Params[0], channel) {
			nick := m.Nick
			if nick == "" {
				nick = nickOf(m)
			}
			lines = append(lines, nick+" "+m.Command+" "+m.Params[1])
		}
	}
	return lines
}

// freeqChat returns the same of the gateway's messages to a freeq server.
func freeqChat(f *bridgetest.Freeq) (lines []string) {
	for _, m := range f.Said() {
		if m["type"] == "privmsg" && m["target"] == channel {
			lines = append(lines, fmt.Sprint(m["from"], " PRIVMSG ", m["text"]))
		}
	}
	return lines
}

// views returns the channel's text at each place, by the name of the place.
func (b *babel) views() map[string]func() []string {
	return map[string]func() []string{
		"lab": func() []string { return chatIn(b.lab.Received()) }, "lib": func() []string { return chatIn(b.lib.Received()) },
		"freeq": func() []string { return freeqChat(b.freeq) }, "client": func() []string { return chatIn(b.zoe.Received()) },
	}
}

// reads waits until a place shows a line, which ends with an end.
func (b *babel) reads(t *testing.T, place, end string) {
	t.Helper()
	view := b.views()[place]
	await(t, place+" to read "+end, func() bool {
		return slices.ContainsFunc(view(), func(line string) bool { return strings.HasSuffix(line, end) })
	})
}

func TestChatLineAppearsOnceInEachPlace(t *testing.T) {
	t.Parallel()
	b := newBabel(t)
	b.lab.Say("alice", "PRIVMSG "+channel+" :from lab")
	b.reads(t, "lib", "from lab")
	b.reads(t, "freeq", "from lab")
	b.reads(t, "client", "from lab")
	b.lib.Say("alice", "PRIVMSG "+channel+" :\x01ACTION waves from lib\x01")
	b.reads(t, "lab", "waves from lib\x01")
	b.reads(t, "freeq", "waves from lib\x01")
	b.reads(t, "client", "waves from lib\x01")
	b.freeq.TellAs("finn", channel, "without a message id")
	b.freeq.Say(b.freeq.Event(map[string]any{
		"type": "privmsg", "from": "finn", "target": channel, "text": "from freeq", "msgid": "01K0A3V9M7Q2X5R8T1W4Y6Z0AB", "tags": map[string]string{},
	}))
	b.reads(t, "lab", "from freeq")
	b.reads(t, "lib", "from freeq")
	b.reads(t, "client", "from freeq")
	long := strings.Repeat("ä", 180)
	for _, m := range [][]string{{"NOTICE", "a notice of the listener"}, {"PRIVMSG", long}, {"PRIVMSG", "\x01VERSION\x01"}, {"PRIVMSG", "the end"}} {
		if err := b.zoe.Send(nil, m[0], channel, m[1]); err != nil {
			t.Fatal(err)
		}
	}
	b.reads(t, "lab", "the end")
	b.reads(t, "lib", "the end")
	b.reads(t, "freeq", "the end")
	b.reads(t, "client", "the end") // the echo
	part := strings.Repeat("ä", 160)
	rest := strings.Repeat("ä", 20)
	for place, want := range map[string][]string{
		"lab": {
			"alice_ PRIVMSG \x01ACTION waves from lib\x01", "finn PRIVMSG from freeq",
			"zoe NOTICE a notice of the listener", "zoe PRIVMSG " + part, "zoe PRIVMSG " + rest, "zoe PRIVMSG the end",
		},
		"lib": {
			"alice_ PRIVMSG from lab", "finn PRIVMSG from freeq",
			"zoe NOTICE a notice of the listener", "zoe PRIVMSG " + part, "zoe PRIVMSG " + rest, "zoe PRIVMSG the end",
		},
		"freeq": {
			"alice-gw PRIVMSG from lab", "alice-gw_ PRIVMSG \x01ACTION waves from lib\x01",
			"zoe-gw PRIVMSG [notice] a notice of the listener", "zoe-gw PRIVMSG " + part, "zoe-gw PRIVMSG " + rest, "zoe-gw PRIVMSG the end",
		},
		"client": {
			"alice PRIVMSG from lab", "alice_ PRIVMSG \x01ACTION waves from lib\x01", "finn PRIVMSG from freeq",
			"zoe NOTICE a notice of the listener", "zoe PRIVMSG " + long, "zoe PRIVMSG \x01VERSION\x01", "zoe PRIVMSG the end",
		},
	} {
		got := b.views()[place]()
		if len(got) != len(want) {
			t.Errorf("%s reads %q, want %q", place, got, want)
			continue
		}
		for i, line := range got {
			if !sameChat(line, want[i]) {
				t.Errorf("line %d of %s is %q, want %q", i, place, line, want[i])
			}
		}
	}
	if out := b.prints(t, "verify"); strings.Contains(out, "message") {
		t.Errorf("verify finds fault with a line: %s", out)
	}
	if n := b.counters(t)[`baton_bad_input_total{link="fq",network="freeq",reason="no_msgid"}`]; n != 1 {
		t.Errorf("%v lines without a message ID were counted, want 1", n)
	}
}

// sameChat compares lines. A nick that ends with "_" in want has a hash behind that.
func sameChat(got, want string) bool {
	gotNick, gotText, _ := strings.Cut(got, " ")
	wantNick, wantText, _ := strings.Cut(want, " ")
	return gotText == wantText && (gotNick == wantNick || strings.HasSuffix(wantNick, "_") && strings.HasPrefix(gotNick, wantNick))
}

// numbered returns the numbered lines that a network was sent, in order and without repeats of
// a message ID, and how many repeats there were.
func numbered(t *testing.T, d *bridgetest.IRCd) (texts []string, repeats int) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range d.Received() {
		if m.Command != "PRIVMSG" || !strings.HasPrefix(m.Params[1], "line ") {
			continue
		}
		id := m.Tags["msgid"]
		if id == "" {
			t.Fatalf("a line without a message ID: %v", m)
		}
		if seen[id] {
			repeats++
			continue
		}
		seen[id] = true
		texts = append(texts, m.Params[1])
	}
	return texts, repeats
}

func TestChatLinesSurviveOutagesAndKills(t *testing.T) {
	t.Parallel()
	const lines = 200
	b := newBabel(t)
	b.prints(t, "link", "down", "lib")
	want := make([]string, lines)
	for n := range lines {
		want[n] = fmt.Sprintf("line %d", n)
		b.lab.Say("alice", "PRIVMSG "+channel+" :"+want[n])
	}
	const filed = `baton_chat_lines_total{link="lab",network="spanningtree",outcome="relayed"}`
	await(t, "all lines to be filed", func() bool { return b.counters(t)[filed] == lines })
	b.prints(t, "link", "up", "lib")
	await(t, "a part of the lines", func() bool { got, _ := numbered(t, b.lib); return len(got) > lines/4 })
	b.kill(t)
	before, _ := numbered(t, b.lib)
	b.start(t)
	b.ready(t)
	var got []string
	repeats := 0
	await(t, "all lines", func() bool { got, repeats = numbered(t, b.lib); return len(got) == lines })
	if !slices.Equal(got, want) {
		t.Errorf("the lines came as %q", got)
	}
	if repeats > 1 {
		t.Errorf("%d lines came again, want the one at most whose delivery the kill cut off", repeats)
	}
	t.Logf("%d lines before the kill, %d repeated under its message ID", len(before), repeats)
}

func TestChatLoopOfTwoGatewaysEnds(t *testing.T) {
	t.Parallel()
	b := newBabel(t)
	// The other gateway brings the line of lab to lib too, as that line is shown there.
	b.lab.Say("alice", "PRIVMSG "+channel+" :once")
	b.reads(t, "lib", "once")
	var id string
	for _, m := range b.lib.Received() {
		if m.Command == "PRIVMSG" && m.Params[1] == "once" {
			id = m.Tags["msgid"]
		}
	}
	b.lib.Send("@msgid=" + id + " :" + b.lib.UUID("alice") + " PRIVMSG " + channel + " :once")
	b.lib.Say("alice", "PRIVMSG "+channel+" :after it")
	b.reads(t, "lab", "after it")
	for _, line := range b.views()["lab"]() {
		if strings.HasSuffix(line, "once") {
			t.Errorf("the line came back: %q", line)
		}
	}
	if n := b.counters(t)[`baton_chat_lines_total{link="lib",network="spanningtree",outcome="duplicate"}`]; n != 1 {
		t.Errorf("%v duplicates were counted, want 1", n)
	}
}

func TestChatRateLimitIsReportedOnce(t *testing.T) {
	t.Parallel()
	b := newBabel(t, "[limits]\nuser_events_per_minute = 3\n")
	for n := range 10 {
		b.lab.Say("alice", fmt.Sprintf("PRIVMSG %s :line %d", channel, n))
	}
	b.lib.Say("alice", "PRIVMSG "+channel+" :other people speak")
	b.reads(t, "lab", "other people speak")
	await(t, "three lines", func() bool { got, _ := numbered(t, b.lib); return len(got) == 3 })
	told := func() (times int) {
		for _, m := range b.lab.Received() {
			if m.Command == "NOTICE" && m.Params[0] == b.lab.UUID("alice") && strings.HasPrefix(m.Params[1], "RATE_LIMITED") {
				times++
			}
		}
		return times
	}
	await(t, "the author to be told", func() bool { return told() > 0 })
	await(t, "the lines to be counted", func() bool { return b.counters(t)[`baton_rate_limited_total{network="spanningtree"}`] >= 7 })
	if n := told(); n != 1 {
		t.Errorf("the author was told %d times, want once", n)
	}
}

func TestChatBetweenRealNetworks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lab, lib := newNetwork(t, h, "lab", "1LA"), newNetwork(t, h, "lib", "2LI")
	h.configure(t, lab.table+relaying, lib.table+relaying)
	h.start(t)
	h.ready(t)
	ann, bob := lab.join(t, "ann", "message-tags"), lib.join(t, "bob", "message-tags")
	for n := range 20 {
		text := fmt.Sprintf("line %d", n)
		if err := ann.Send(nil, "PRIVMSG", channel, text); err != nil {
			t.Fatal(err)
		}
		m := clientReads(t, bob, text)
		if nickOf(m) != "ann" {
			t.Errorf("the line comes from %s, want ann", m.Source)
		}
	}
	if err := bob.Send(nil, "PRIVMSG", channel, "\x01ACTION nods\x01"); err != nil {
		t.Fatal(err)
	}
	clientReads(t, ann, "\x01ACTION nods\x01")
	if err := bob.Send(nil, "PRIVMSG", "ann", "in private"); err != nil { // to the nick that bob sees
		t.Fatal(err)
	}
	clientReads(t, ann, "in private")
	for _, c := range []*bridgetest.IRCClient{ann, bob} {
		seen := map[string]int{}
		for _, line := range chatIn(c.Received()) {
			seen[line]++
		}
		for line, n := range seen {
			if n != 1 {
				t.Errorf("%q came %d times", line, n)
			}
		}
	}
}

func TestChatQueueIsBounded(t *testing.T) {
	t.Parallel()
	b := newBabel(t, "[limits]\ninbox_events = 5\n")
	b.prints(t, "link", "down", "lib")
	for n := range 8 {
		text := fmt.Sprintf("line %d", n)
		b.lab.Say("alice", "PRIVMSG "+channel+" :"+text)
		b.reads(t, "freeq", text) // a link that is up misses nothing, and has no waiting lines
		b.reads(t, "client", text)
	}
	told := func() (all []string) {
		for _, m := range b.lab.Received() {
			if m.Command == "NOTICE" && m.Params[0] == b.lab.UUID("alice") {
				all = append(all, m.Params[1])
			}
		}
		return all
	}
	await(t, "the author to be told", func() bool { return len(told()) > 0 })
	const full = `baton_chat_lines_total{link="lab",network="spanningtree",outcome="full"}`
	await(t, "the lines to be counted", func() bool { return b.counters(t)[full] == 3 })
	if all := told(); len(all) != 1 || !strings.HasPrefix(all[0], "INBOX_FULL") || !strings.Contains(all[0], "link lib") {
		t.Errorf("the author was told %q", all)
	}
	b.prints(t, "link", "up", "lib")
	b.reads(t, "lib", "line 4")
	b.lab.Say("alice", "PRIVMSG "+channel+" :line after it")
	b.reads(t, "lib", "line after it")
	if got, _ := numbered(t, b.lib); !slices.Equal(got, []string{"line 0", "line 1", "line 2", "line 3", "line 4", "line after it"}) {
		t.Errorf("lib reads %q", got)
	}
}

func TestChatSpeaksInAModeratedChannel(t *testing.T) {
	t.Parallel()
	b := newBabel(t)
	b.lib.Send(fmt.Sprintf(":2LI FMODE %s %d +m", channel, b.lib.Age(channel)))
	b.lib.Say("alice", "PRIVMSG "+channel+" :it is moderated")
	b.reads(t, "lab", "it is moderated")
	b.lab.Say("alice", "PRIVMSG "+channel+" :unheard")
	await(t, "the refusal", func() bool {
		return b.counters(t)[`baton_outcomes_total{network="spanningtree",outcome="refused"}`] == 1
	})
	b.lib.Send(fmt.Sprintf(":2LI FMODE %s %d +v 9GWAAAAAA", channel, b.lib.Age(channel)))
	b.lib.Say("alice", "PRIVMSG "+channel+" :but for the gateway")
	b.reads(t, "lab", "but for the gateway")
	b.lab.Say("alice", "PRIVMSG "+channel+" :\x01ACTION waves\x01")
	b.reads(t, "lib", "\x01ACTION <alice@lab> waves\x01")
	if got := chatIn(b.lib.Received()); len(got) != 1 || !strings.HasPrefix(got[0], "Baton ") {
		t.Errorf("lib reads %q", got)
	}
}

func TestChatLoopOfTwoRealGatewaysEnds(t *testing.T) {
	t.Parallel()
	first, second := newHouse(t), newHouse(t)
	lab, lib := newNetwork(t, first, "lab", "1LA"), newNetwork(t, first, "lib", "2LI")
	for _, n := range []*network{lab, lib} {
		second.keep(t, n.name+".send", "planted-send-"+n.name)
		second.keep(t, n.name+".recv", "planted-recv-"+n.name)
	}
	first.configure(t, lab.table+relaying, lib.table+relaying)
	second.configure(t, strings.ReplaceAll(lab.table+relaying+lib.table+relaying, "9GW", "8GW"))
	second.rewrite(t, `"gw.test"`, fmt.Sprintf("%q", servicesName))
	for _, h := range []*house{first, second} {
		h.start(t)
		h.ready(t)
	}
	ann, bob := lab.join(t, "ann", "message-tags"), lib.join(t, "bob", "message-tags")
	const lines = 10
	for n := range lines {
		if err := ann.Send(nil, "PRIVMSG", channel, fmt.Sprintf("from ann %d", n)); err != nil {
			t.Fatal(err)
		}
		if err := bob.Send(nil, "PRIVMSG", channel, fmt.Sprintf("from bob %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	// Each gateway hears each line and each line that the other gateway relays. It relays a line
	// that it does not know, so that all is over when as many are known as there were lines to hear.
	const duplicate = `outcome="duplicate"}`
	await(t, "the end of the loop", func() bool {
		known := 0.0
		for _, h := range []*house{first, second} {
			for name, n := range h.counters(t) {
				if strings.HasPrefix(name, "baton_chat_lines_total{") && strings.HasSuffix(name, duplicate) {
					known += n
				}
			}
		}
		return known == 4*lines
	})
	count := func(c *bridgetest.IRCClient, text string) (times int) {
		for _, m := range c.Received() {
			if m.Command == "PRIVMSG" && strings.EqualFold(m.Params[0], channel) && m.Params[1] == text {
				times++
			}
		}
		return times
	}
	for name, other := range map[string]*bridgetest.IRCClient{"ann": bob, "bob": ann} {
		own := map[string]*bridgetest.IRCClient{"ann": ann, "bob": bob}[name]
		for n := range lines {
			text := fmt.Sprintf("from %s %d", name, n)
			await(t, text, func() bool { return count(other, text) > 0 })
			if here, back := count(other, text), count(own, text); here > 2 || back > 1 || here+back > 2 {
				t.Errorf("%q came %d times, and %d times back", text, here, back)
			}
		}
	}
}

func TestChatReplyNamesItsHandoff(t *testing.T) {
	t.Parallel()
	b := newTalkative(t, offersOverREST)
	id := b.http.offer(t, map[string]any{"to": b.scout.DID, "title": "cite three sources", "channel": channel})
	line, err := b.lab.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.EqualFold(m.Params[0], channel) && m.Tags["+freeq.at/ref"] == id
	})
	if err != nil {
		t.Fatal(err)
	}
	// On IRC: to the readable line, to the tags and to a message.
	b.send(t, "alice@lab", "which of them?", http.StatusCreated)
	m := b.labReads(t, "alice", "which of them?")
	say := func(reply, text string) {
		b.lab.Send("@msgid=1LA~" + strings.ReplaceAll(text, " ", "_") + ";+draft/reply=" + reply + " :" + b.lab.UUID("alice") + " PRIVMSG " + m.Source + " :" + text)
	}
	say(line.Tags["msgid"], "to the line")
	say(id, "to the tags")
	say("1LA~to_the_line", "to the answer")
	say("1LA~unknown", "to nothing")
	beside, err := b.freeq.AwaitLine(patient(t), "the line beside the offer", func(m map[string]any) bool {
		tags, _ := m["tags"].(map[string]any)
		return m["type"] == "privmsg" && m["target"] == channel && tags["+freeq.at/ref"] == id
	})
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, "finn@fq", "and you?", http.StatusCreated)
	b.freeq.Say(b.freeq.Event(map[string]any{
		"type": "privmsg", "from": "finn", "target": b.freeqReads(t, "and you?")["from"], "text": "to the line on freeq", "tags": map[string]any{"+reply": beside["msgid"]},
	}))
	b.scoutReads(t, "to the line on freeq")
	got := b.scoutReads(t, "to nothing")
	if _, has := got["payload"]; has {
		t.Errorf("text about no handoff has a payload: %v", got)
	}
	answer := b.scoutReads(t, "to the answer")
	// On AIRC: replyTo of the message, and of its payload.
	for _, c := range []struct {
		text    string
		members map[string]any
	}{
		{"in the message", map[string]any{"replyTo": answer["id"]}},
		{"in the payload", map[string]any{"payload": map[string]any{"type": "at.freeq:message", "replyTo": answer["id"]}}},
	} {
		envelope := b.scout.Envelope(answer["from"].(string), c.text, nil)
		maps.Copy(envelope, c.members)
		signed, err := b.scout.Sign(envelope)
		if err != nil {
			t.Fatal(err)
		}
		if status, answer, err := b.scout.Post(t.Context(), signed); err != nil || status != http.StatusCreated {
			t.Fatalf("%s: %d %v, %v", c.text, status, answer, err)
		}
		b.labReads(t, "alice", c.text)
	}
	shown := b.prints(t, "handoff", "show", id)
	for _, text := range []string{"to the line", "to the tags", "to the answer", "to the line on freeq", "in the message", "in the payload"} {
		if !strings.Contains(shown, text) {
			t.Errorf("handoff show lacks %q:\n%s", text, shown)
		}
	}
	if strings.Contains(shown, "to nothing") {
		t.Errorf("handoff show has an answer to nothing:\n%s", shown)
	}
}

// history reads all lines of the channel from the history of the listener, page after page.
func history(t *testing.T, c *bridgetest.IRCClient) (texts []string) {
	t.Helper()
	from := "timestamp=2026-01-01T00:00:00.000Z"
	for {
		if err := c.Send(nil, "CHATHISTORY", "AFTER", channel, from, "50"); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ended := false; !ended; {
			m, err := c.Next(patient(t), func(bridgetest.IRCMessage) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			if ended = m.Command == "BATCH" && strings.HasPrefix(m.Params[0], "-"); m.Command == "PRIVMSG" && m.Tags["batch"] != "" {
				n++
				texts, from = append(texts, m.Params[1]), "msgid="+m.Tags["msgid"]
			}
		}
		if n == 0 {
			return texts
		}
	}
}

func TestChatHistoryHasEachLineOnceOverKills(t *testing.T) {
	t.Parallel()
	const lines = 60
	b := newBabel(t)
	var want []string
	say := func(d *bridgetest.IRCd, part string) {
		for n := range lines {
			text := fmt.Sprintf("%s %d", part, n)
			want = append(want, text)
			d.Say("alice", "PRIVMSG "+channel+" :"+text)
		}
	}
	filed := func(link string, n float64) {
		t.Helper()
		name := fmt.Sprintf(`baton_chat_lines_total{link=%q,network="spanningtree",outcome="relayed"}`, link)
		await(t, "the lines to be filed", func() bool { return b.counters(t)[name] == n })
	}
	say(b.lab, "before")
	filed("lab", lines)
	b.kill(t) // some lines wait for the listener
	b.start(t)
	b.ready(t)
	b.prints(t, "link", "down", "lib") // a split
	say(b.lab, "during")
	filed("lab", lines)
	b.prints(t, "link", "up", "lib")
	await(t, "lib to be back", func() bool { return strings.Contains(b.prints(t, "link", "list"), "up") })
	b.reads(t, "lib", fmt.Sprintf("during %d", lines-1))
	say(b.lib, "after")
	filed("lib", lines)
	b.kill(t)
	b.start(t)
	b.ready(t)
	reader, err := bridgetest.DialIRC(patient(t), b.irc, "reader", "message-tags", "batch", "draft/chathistory")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	var got []string
	await(t, "all lines", func() bool { got = history(t, reader); return len(got) >= len(want) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the history (-want +got):\n%s", diff)
	}
}

func TestChatReplyNamesItsMessage(t *testing.T) {
	t.Parallel()
	b := newBabel(t)
	say := func(d *bridgetest.IRCd, tags, text string) {
		d.Send("@" + tags + " :" + d.UUID("alice") + " PRIVMSG " + channel + " :" + text)
	}
	tagsOf := func(place string, all func() []bridgetest.IRCMessage, text string) (tags map[string]string) {
		t.Helper()
		b.reads(t, place, text)
		for _, m := range all() {
			if m.Command == "PRIVMSG" && len(m.Params) == 2 && m.Params[1] == text {
				tags = m.Tags
			}
		}
		return tags
	}
	say(b.lab, "msgid=1LA~question", "who is there?")
	question := tagsOf("client", b.zoe.Received, "who is there?")["msgid"]
	if err := b.zoe.Send(map[string]string{"+draft/reply": question}, "PRIVMSG", channel, "zoe is"); err != nil {
		t.Fatal(err)
	}
	say(b.lib, "msgid=2LI~answer;+draft/reply="+question, "alice is")
	say(b.lib, "msgid=2LI~other;+draft/reply=2LI~unknown", "nobody asked")
	for _, c := range []struct {
		place string
		all   func() []bridgetest.IRCMessage
		text  string
		want  string
	}{
		{"lab", b.lab.Received, "zoe is", "1LA~question"},
		{"lib", b.lib.Received, "zoe is", question},
		{"lab", b.lab.Received, "alice is", "1LA~question"},
		{"client", b.zoe.Received, "alice is", question},
		{"client", b.zoe.Received, "nobody asked", ""},
	} {
		if got := tagsOf(c.place, c.all, c.text)["+draft/reply"]; got != c.want {
			t.Errorf("on %s %q answers %q, want %q", c.place, c.text, got, c.want)
		}
	}
	line, err := b.freeq.AwaitLine(patient(t), "zoe is", func(m map[string]any) bool { return m["type"] == "privmsg" && m["text"] == "zoe is" })
	if err != nil {
		t.Fatal(err)
	}
	if tags, _ := line["tags"].(map[string]any); tags["+draft/reply"] != question {
		t.Errorf("on freeq the answer has %v, want %s", line["tags"], question)
	}
}

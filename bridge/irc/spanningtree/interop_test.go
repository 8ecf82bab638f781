//go:build interop && linux

package spanningtree_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/bridge/bridgetest"
	"baton/federation"
)

// realServer is a running InspIRCd with a link to it and two clients in #ops: one
// that reads tags and one that does not.
type realServer struct {
	house
	ircd          *bridgetest.InspIRCd
	tagged, plain *bridgetest.IRCClient
}

func startReal(t *testing.T) realServer {
	t.Helper()
	ircd, err := bridgetest.StartInspIRCd(waiting(t), t.TempDir(), bridgetest.InspIRCdConfig{
		Name: "irc.lab.example", SID: "1AA", LinkName: string(home), SendPassword: "out-secret", RecvPassword: "in-secret",
	})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(ircd.Stop)
	r := realServer{house: newHouse(t, testConfig(ircd.LinkAddr)), ircd: ircd}
	r.tagged = r.client(t, "alice", "message-tags", "server-time", "echo-message")
	r.plain = r.client(t, "bob")
	up := make(chan struct{}, 10)
	t.Cleanup(keepRunning(r.house, func() { up <- struct{}{} }))
	select {
	case <-up:
	case <-waiting(t).Done():
		t.Fatalf("the link did not come up:\n%s", r.log)
	}
	await(t, r.tagged, "JOIN", from("Baton"))
	return r
}

func (r realServer) client(t *testing.T, nick string, caps ...string) *bridgetest.IRCClient {
	t.Helper()
	c, err := bridgetest.DialIRC(waiting(t), r.ircd.ClientAddr, nick, caps...)
	if err != nil {
		t.Fatalf("client %s: %v", nick, err)
	}
	t.Cleanup(c.Close)
	if err := c.Join(waiting(t), "#ops"); err != nil {
		t.Fatalf("client %s: %v", nick, err)
	}
	return c
}

// from holds for messages of one nick.
func from(nick string) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool { return m.Nick == nick }
}

func TestInspIRCd(t *testing.T) {
	t.Run("shows a step to a client that reads tags, and one line to a client that does not", func(t *testing.T) {
		r := startReal(t)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		step := await(t, r.tagged, "TAGMSG", from("scholar"))
		delete(step.Tags, "time")
		want := map[string]string{
			"msgid": acceptID, "+freeq.at/handoff": "accept", "+freeq.at/handoff-id": offerID,
			"+freeq.at/handoff-from": string(scholar), "+freeq.at/handoff-reply-to": offerID,
			"+freeq.at/handoff-src": "https://gw.example/evidence/ab", "+freeq.at/handoff-x-odd": "a;b c\\d",
			"+freeq.at/sig": "ed25519:kid:BBBB", "+freeq.at/eventid": acceptID,
		}
		if diff := cmp.Diff(want, step.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		if ref := await(t, r.tagged, "NOTICE", from("scholar")).Tags["+freeq.at/ref"]; ref != offerID {
			t.Errorf("the line refers to %q", ref)
		}
		line := await(t, r.plain, "NOTICE", from("scholar"))
		if len(line.Tags) != 0 || line.Params[1] != "[handoff …00000H] scholar accepts: Cite the 3 best sources; on X" {
			t.Errorf("line %q with %v", line.Params, line.Tags)
		}
		for _, m := range r.plain.Received() {
			if m.Command == "TAGMSG" || m.Command == "NOTICE" && m.Nick == "scholar" {
				t.Errorf("the plain client got %q too", m.Params)
			}
		}
	})

	t.Run("carries a client's step with its tags and the id that all clients see", func(t *testing.T) {
		r := startReal(t)
		if err := r.tagged.Send(offerTags(), "TAGMSG", "#ops"); err != nil {
			t.Fatal(err)
		}
		ev := r.gateway.next(t)
		echo := await(t, r.tagged, "TAGMSG", from("alice"))
		if ev.Arrival.MessageID == "" || ev.Arrival.MessageID != echo.Tags["msgid"] || ev.Arrival.Name != "alice" {
			t.Errorf("arrival %+v, echo %v", ev.Arrival, echo.Tags)
		}
		if ev.Fields["handoff-task"] != offerTags()["+freeq.at/handoff-task"] {
			t.Errorf("fields %v", ev.Fields)
		}
	})

	t.Run("tells a client what was refused, and a client whose tags were unreadable", func(t *testing.T) {
		r := startReal(t)
		r.gateway.answer = func(_ context.Context, ev federation.Event) error {
			return federation.Refuse(ev, federation.SignatureInvalid, "")
		}
		if err := r.tagged.Send(offerTags(), "TAGMSG", "#ops"); err != nil {
			t.Fatal(err)
		}
		notice := await(t, r.tagged, "NOTICE", from("Baton"))
		want := "SIGNATURE_INVALID " + offerID + " " + federation.SignatureInvalid.Sentence()
		if notice.Params[0] != "alice" || notice.Params[1] != want || notice.Tags["+freeq.at/ref"] != offerID {
			t.Errorf("notice %q with %v", notice.Params, notice.Tags)
		}
		if err := r.tagged.SendRaw([]byte("@+freeq.at/handoff=\xff TAGMSG #ops\r\n")); err != nil {
			t.Fatal(err)
		}
		if got := await(t, r.tagged, "NOTICE", from("Baton")).Params[1]; got != "INVALID_TAG * the tags could not be read" {
			t.Errorf("notice %q", got)
		}
		if err := r.tagged.Send(offerTags(), "TAGMSG", "Baton"); err != nil {
			t.Fatal(err)
		}
		if got := await(t, r.tagged, "NOTICE", from("Baton")).Params[1]; !strings.HasPrefix(got, "INVALID_TARGET "+offerID) {
			t.Errorf("notice %q", got)
		}
	})

	t.Run("takes the largest step that fits, and lines of people", func(t *testing.T) {
		r := startReal(t)
		d := acceptRow(t)
		d.Entry.Event.Fields["handoff-context"] = `["` + strings.Repeat("x", 3300) + `"]`
		d.View.Title = strings.Repeat("ü", 600)
		if err := r.link.Deliver(waiting(t), d); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		step := await(t, r.tagged, "TAGMSG", from("scholar"))
		if got := step.Tags["+freeq.at/handoff-context"]; got != d.Entry.Event.Fields["handoff-context"] {
			t.Errorf("context of %d bytes", len(got))
		}
		if line := await(t, r.plain, "NOTICE", from("scholar")).Params[1]; !strings.HasSuffix(line, "ü…") {
			t.Errorf("line %q", line)
		}
	})

	t.Run("yields nicks, comes back from KICK and answers WHOIS", func(t *testing.T) {
		r := startReal(t)
		r.client(t, "scholar")
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		fallback := "scholar_" + scholar.Hash()[:4]
		await(t, r.tagged, "TAGMSG", from(fallback))
		if err := r.tagged.Send(nil, "KICK", "#ops", "Baton", "out"); err != nil { // as the first in the channel, alice is an operator
			t.Fatal(err)
		}
		await(t, r.tagged, "JOIN", from("Baton"))
		if err := r.tagged.Send(nil, "WHOIS", fallback, fallback); err != nil {
			t.Fatal(err)
		}
		if m := await(t, r.tagged, "311"); m.Params[5] != "scholar via Baton gw.example" {
			t.Errorf("WHOIS %q", m.Params)
		}
		await(t, r.tagged, "318")
	})

	t.Run("links again after the server was restarted, and delivers what was owed", func(t *testing.T) {
		r := startReal(t)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		if err := r.ircd.Restart(waiting(t)); err != nil {
			t.Fatalf("restart: %v", err)
		}
		again := r.client(t, "carol", "message-tags")
		d := acceptRow(t)
		d.Attempt = 1
		for ctx := waiting(t); r.link.Deliver(ctx, d) != nil; {
			if ctx.Err() != nil {
				t.Fatalf("not delivered:\n%s", r.log)
			}
		}
		if step := await(t, again, "TAGMSG", from("scholar")); step.Tags["msgid"] != acceptID {
			t.Errorf("id %q", step.Tags["msgid"])
		}
	})
}

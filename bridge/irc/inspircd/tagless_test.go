package inspircd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// tagless makes the peer one without message tags, and the link one without lines beside tags.
func tagless(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
	peer.Tagless, cfg.Summaries = true, false
}

func TestTaglessPeerGetsReadableLines(t *testing.T) {
	const line = "[handoff …00000H] scholar accepts: Cite the 3 best sources; on X"
	t.Run("in a channel, with each attempt, and operators read of it", func(t *testing.T) {
		h, peer := linked(t, tagless)
		for attempt := range 2 {
			d := acceptRow(t)
			d.Attempt = attempt
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatal(err)
			}
			if got := await(t, peer, "NOTICE", from("scholar")).Params; !slices.Equal(got, []string{"#ops", line}) {
				t.Errorf("line %q", got)
			}
		}
		if n := countOf(peer, "TAGMSG"); n != 0 {
			t.Errorf("%d TAGMSG", n)
		}
		if n := strings.Count(h.log.String(), "peer does not support message tags"); n != 1 {
			t.Errorf("told the log %d times", n)
		}
		d := h.link.Describe()
		if d.Negotiated["tagmsg"] != "false" || !strings.Contains(strings.Join(d.NotCarried, ";"), "has no message tags") {
			t.Errorf("described as %+v", d)
		}
	})
	t.Run("in private, with the answers to type", func(t *testing.T) {
		h, peer := linked(t, tagless)
		d := privateRow(t)
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		if got := await(t, peer, "NOTICE", from("scholar")).Params; got[0] != peer.UUID("alice") || !strings.HasPrefix(got[1], "[handoff ") {
			t.Errorf("line %q", got)
		}
	})
	t.Run("and nothing of a receipt, which has no line", func(t *testing.T) {
		h, peer := linked(t, tagless)
		d := acceptRow(t)
		d.Entry.Version = 0
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		if n := countOf(peer, "NOTICE"); n != 0 {
			t.Errorf("%d lines", n)
		}
	})
	t.Run("after it unloaded the module, until it is back", func(t *testing.T) {
		h, peer := linked(t, nil)
		for _, change := range []struct{ sign, want string }{{"-", "NOTICE"}, {"+", "TAGMSG"}} {
			peer.Send(":1AA METADATA * modules :" + change.sign + "m_ircv3_ctctags.so")
			settle(t, peer)
			before := countOf(peer, "TAGMSG")
			if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
				t.Fatal(err)
			}
			await(t, peer, change.want, from("scholar"))
			if n := countOf(peer, "TAGMSG"); n != before {
				t.Errorf("%d TAGMSG after %s", n, change.sign)
			}
		}
	})
}

package main_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate"
)

// dialIn links a server with alice on it to the gateway, until the end of the test or of
// the gateway.
func dialIn(t *testing.T, address string) *bridgetest.IRCd {
	t.Helper()
	ircd := bridgetest.NewIRCd(bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-secret", RecvPassword: "planted-secret",
		Users: []string{"alice"}, Channels: []string{"#ops"},
	})
	t.Cleanup(ircd.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	await(t, "the gateway to listen for links", func() bool { return ircd.Dial(ctx, address) == nil })
	if err := ircd.Linked(ctx); err != nil {
		t.Fatal(err)
	}
	return ircd
}

// waitsFor reports whether a step waits for a link.
func (h *house) waitsFor(t *testing.T, link string, id federation.EventID) bool {
	t.Helper()
	var list struct{ Items []struct{ ID string } }
	h.asks(t, &list, "feed", "list", "--link", link)
	return slices.ContainsFunc(list.Items, func(item struct{ ID string }) bool { return item.ID == id.String() })
}

// newHouseWithALinkAway starts a gateway with the link lab, which listens at address, and the link away,
// whose server does not answer.
func newHouseWithALinkAway(t *testing.T) (h *house, address string) {
	t.Helper()
	h, address = newHouse(t), federationtest.FreeAddr(t)
	h.keep(t, "lab.secret", "planted-secret")
	h.configure(t, lineTo("lab", "irc.test", "listen", address, "9GW"), lineTo("away", "irc.away", "address", "127.0.0.1:1", "9GX"))
	h.start(t)
	return h, address
}

func TestNoticesReachTheSignerOnceOverKills(t *testing.T) {
	t.Parallel()
	h, address := newHouseWithALinkAway(t)
	ircd, alice := dialIn(t, address), newKey(t)
	var offers []federation.Event
	for range 3 {
		offers = append(offers, sealOffer(t, alice, ""))
		ev := offers[len(offers)-1]
		ircd.Tagmsg("alice", "#ops", translate.Wire(ev, map[string]string{"from": string(ev.From)}))
		await(t, "the offer to wait for the other link", func() bool { return h.waitsFor(t, "away", ev.ID) })
	}
	for _, ev := range offers {
		h.stop(t)
		ircd.Close()
		h.start(t)
		h.asks(t, &struct{}{}, "feed", "fail", ev.ID.String(), "--link", "away", "--reason", "it is gone for good")
		h.kill(t)
		h.start(t)
		ircd = dialIn(t, address)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		isNotice := func(m bridgetest.IRCMessage) bool {
			return m.Command == "NOTICE" && strings.Contains(m.Params[1], "cannot be delivered to away")
		}
		m, err := ircd.Next(ctx, isNotice)
		cancel()
		if err != nil {
			t.Fatalf("nobody is told: %v", err)
		}
		if !strings.Contains(m.Params[1], ev.Handoff.Short()) {
			t.Errorf("told first is %q, want the end of %s", m.Params[1], ev.Handoff)
		}
		await(t, "the proof", func() bool { return !h.waits(t, "--link=notices/lab") })
	}
}

package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate"
)

// destination is the only destination of a kind that a gateway delivers to.
type destination struct {
	to string // its flag and name for feed list
	// back connects the destination to the gateway, which has started again; nil if the gateway calls it.
	back func(t *testing.T)
	// owe has the gateway deliver something that contains a mark. The gateway may end meanwhile.
	owe func(t *testing.T, mark string)
	// got returns how many times the destination got it.
	got func(t *testing.T, mark string) int
	// once says that the destination counts a repeated delivery once.
	once bool
}

// lineTo is a link of a gateway in a configuration.
func lineTo(name, server, key, address, sid string) string {
	return fmt.Sprintf("[[irc.spanningtree]]\nname = %q\nserver_name = %q\n%s = %q\nsid = %q\nsend_password_file = \"lab.secret\"\nrecv_password_file = \"lab.secret\"\nchannels = [\"#ops\"]\n",
		name, server, key, address, sid)
}

// newLab configures and starts a gateway with a link to a server of the test, which gets a delivery as
// a command.
func newLab(t *testing.T, h *house, command string, tables ...string) (d *destination, ircd func() *bridgetest.IRCd) {
	t.Helper()
	h.keep(t, "lab.secret", "planted-secret")
	address := federationtest.FreeAddr(t)
	h.configure(t, append(tables, lineTo("lab", "irc.test", "listen", address, "9GW"))...)
	h.start(t)
	all := []*bridgetest.IRCd{dialIn(t, address)}
	d = &destination{to: "--link=lab", back: func(t *testing.T) { t.Helper(); all = append(all, dialIn(t, address)) }}
	d.got = func(_ *testing.T, mark string) (n int) {
		for _, each := range all {
			for _, m := range each.Received() {
				if m.Command == command && strings.Contains(fmt.Sprint(m.Tags, m.Params), mark) {
					n++
				}
			}
		}
		return n
	}
	return d, func() *bridgetest.IRCd { return all[len(all)-1] }
}

// destinations returns the kinds of destinations. Each configures and starts a gateway.
func destinations() map[string]func(t *testing.T, n neighbour) *destination {
	offer := func(n neighbour, to ...string) func(t *testing.T, mark string) {
		return func(t *testing.T, mark string) {
			t.Helper()
			seed, _ := n.key(t, 1)
			_, _ = n.baton(t, append([]string{"handoff", "offer", "--key-file", seed, "--title", mark}, to...)...) // the gateway may end first
		}
	}
	return map[string]func(t *testing.T, n neighbour) *destination{
		"link": func(t *testing.T, n neighbour) *destination {
			t.Helper()
			d, _ := newLab(t, n.house, "TAGMSG")
			d.owe = offer(n, "--to", string(newKey(t).DID), "--channel", "#ops")
			return d
		},
		"home": func(t *testing.T, n neighbour) *destination {
			t.Helper()
			n.name = "a.test"
			other := neighbour{newHouse(t), "b.test"}
			for _, each := range []neighbour{n, other} {
				each.settle(t, []neighbour{n, other})
				each.start(t)
			}
			_, scout := other.key(t, 2)
			resident(t, other.house, "scout_7", 2)
			return &destination{to: "--link=b.test", once: true, owe: offer(n, "--to", scout), got: func(t *testing.T, mark string) int {
				t.Helper()
				return strings.Count(other.must(t, "handoff", "list", "--json"), mark)
			}}
		},
		"registry": func(t *testing.T, n neighbour) *destination {
			t.Helper()
			far := newHouse(t)
			registryOf(t, n.house, "a.test", far, "b.test")
			registryOf(t, far, "b.test", n.house, "a.test")
			n.start(t)
			far.start(t)
			scout, amy := resident(t, n.house, "scout_7", 1), resident(t, far, "amy_1", 2)
			if status, answer, err := amy.Send(t.Context(), "scout_7@a.test", "hello", nil); err != nil || status != http.StatusAccepted {
				t.Fatal(status, answer, err)
			}
			await(t, "first contact", func() bool { raws, _, err := scout.Inbox(t.Context(), ""); return err == nil && len(raws) == 1 })
			if status, answer, err := scout.Consent(t.Context(), "amy_1@b.test", "accept"); err != nil || status != http.StatusOK {
				t.Fatal(status, answer, err)
			}
			return &destination{to: "--peer=b.test", once: true, owe: func(t *testing.T, mark string) {
				t.Helper()
				_, _, _ = scout.Send(t.Context(), "amy_1@b.test", mark, nil) // the gateway may end first
			}, got: func(t *testing.T, mark string) int {
				t.Helper()
				return strings.Count(strings.Join(texts(t, amy), "\n"), mark)
			}}
		},
		"webhook": func(t *testing.T, n neighbour) *destination {
			t.Helper()
			n.configure(t, "[fetch]\nallow_private = true")
			n.start(t)
			scholar, server := logIn(t, n.url()), newReceiver(t)
			var hook struct{ ID string }
			scholar.must(t, http.StatusCreated, http.MethodPost, "webhooks", map[string]any{"url": server.URL + "/hook"}, &hook)
			return &destination{to: "--link=webhook/" + hook.ID, owe: offer(n, "--to", string(scholar.did)), got: func(_ *testing.T, mark string) (n int) {
				server.mu.Lock()
				defer server.mu.Unlock()
				for _, p := range server.got {
					if strings.Contains(string(p.body), mark) {
						n++
					}
				}
				return n
			}}
		},
		"readers of notices": func(t *testing.T, n neighbour) *destination {
			t.Helper()
			d, ircd := newLab(t, n.house, "NOTICE", lineTo("away", "irc.away", "address", "127.0.0.1:1", "9GX"))
			offers := make(chan federation.EventID, 2) // one for each debt
			for range cap(offers) {
				ev := sealOffer(t, newKey(t), "")
				ircd().Tagmsg("alice", "#ops", translate.Wire(ev, map[string]string{"from": string(ev.From)}))
				await(t, "the offer to wait for the other link", func() bool { return n.waitsFor(t, "away", ev.ID) })
				offers <- ev.ID
			}
			await(t, "the receipts", func() bool { return !n.waits(t, "--link=lab") })
			d.to = "--link=notices/lab"
			d.owe = func(t *testing.T, mark string) {
				t.Helper()
				_, _ = n.baton(t, "feed", "fail", (<-offers).String(), "--link", "away", "--reason", mark) // the gateway may end first
			}
			return d
		},
	}
}

// waits reports whether anything waits for a destination, given by its flag of feed list.
func (h *house) waits(t *testing.T, to string) bool {
	t.Helper()
	var list struct{ Items []struct{ ID string } }
	h.asks(t, &list, "feed", "list", to)
	return len(list.Items) > 0
}

// The gateway dies by kill -9 while it commits the proof of a delivery.
func TestDeliveryIsRepeatedAfterAKill(t *testing.T) {
	t.Parallel()
	for name, begin := range destinations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := neighbour{newHouse(t), "gw.test"}
			d := begin(t, n)
			await(t, "nothing to wait", func() bool { return !n.waits(t, d.to) })
			again := func(death string) {
				t.Helper()
				n.death = death
				n.start(t)
				if d.back != nil {
					d.back(t)
				}
			}
			_, to, _ := strings.Cut(d.to, "=")
			n.must(t, "feed", "hold", to)
			if shape := n.must(t, "feed", "shape"); !strings.Contains(shape, to+" ") {
				t.Errorf("feed shape prints %q, want %s", shape, to)
			}
			n.must(t, "feed", "release", to)
			n.stop(t)
			again(whileSettling)
			const mark = "Offer-seventeen"
			d.owe(t, mark)
			await(t, "the death of the gateway", n.gone)
			if got := d.got(t, mark); got != 1 {
				t.Errorf("before the death it was delivered %d times, want once", got)
			}
			again("")
			want := 2
			if d.once {
				want = 1
			}
			await(t, "the proof", func() bool { return !n.waits(t, d.to) })
			await(t, "the delivery", func() bool { return d.got(t, mark) >= want })
			if got := d.got(t, mark); got != want {
				t.Errorf("it was delivered %d times, want %d", got, want)
			}
			if code := n.stop(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}

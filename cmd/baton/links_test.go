//go:build interop

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// wiring is how a gateway and a network reach each other.
type wiring struct {
	accepts bool // the network dials
	secure  bool // with certificates, each pinned by the other side
	wrong   bool // the gateway pins another certificate
}

// newLink starts an InspIRCd and a gateway wired to each other.
func newLink(t *testing.T, wires wiring) *world {
	t.Helper()
	h := newHouse(t)
	h.keep(t, "lab.send", "planted-send-lab")
	h.keep(t, "lab.recv", "planted-recv-lab")
	cfg := bridgetest.InspIRCdConfig{
		Name: "lab.irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-recv-lab", RecvPassword: "planted-send-lab",
	}
	tables, keys := "", ""
	if wires.secure {
		ours, theirs := certify(t, h, "gw.test"), certify(t, h, cfg.Name)
		tables = fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n", ours.certFile, ours.keyFile)
		pinned := bridgetest.Fingerprint(theirs.certificate)
		if wires.wrong {
			pinned = strings.Repeat("ab", 32)
		}
		keys = fmt.Sprintf("tls = true\ntls_fingerprint = %q\n", pinned)
		cfg.TLS = &bridgetest.InspIRCdTLS{CertFile: theirs.certFile, KeyFile: theirs.keyFile, Fingerprint: bridgetest.Fingerprint(ours.certificate)}
	}
	if wires.accepts {
		cfg.Gateway = federationtest.FreeAddr(t)
	}
	dir := filepath.Join(h.dir, "lab")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ircd, err := bridgetest.StartInspIRCd(t.Context(), dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ircd.Stop)
	table := linkTable("lab", cfg.Name, ircd.LinkAddr)
	if wires.accepts {
		table = strings.Replace(table, fmt.Sprintf("address = %q", ircd.LinkAddr), fmt.Sprintf("listen = %q", cfg.Gateway), 1)
	}
	w := &world{house: h, net: &network{InspIRCd: ircd, name: "lab", table: table + keys}, key: newPerson(t)}
	h.configure(t, tables, w.net.table)
	h.start(t)
	return w
}

func TestLinkCarriesHandoffsOverEachTransport(t *testing.T) {
	for name, wires := range map[string]wiring{
		"dialled over TLS":  {secure: true},
		"accepted":          {accepts: true},
		"accepted over TLS": {accepts: true, secure: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLink(t, wires)
			w.ready(t)
			w.carries(t)
			if err := w.net.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.carries(t)
		})
	}
}

// carries brings two people onto the network and an agent to the gateway, and lets a
// handoff cross.
func (w *world) carries(t *testing.T) {
	t.Helper()
	w.alice = w.net.join(t, "alice", "message-tags")
	await(t, "the gateway to join", func() bool {
		return slices.ContainsFunc(w.alice.Received(), func(m bridgetest.IRCMessage) bool {
			return m.Nick == "Baton" && m.Command == "JOIN" || m.Command == "353" && strings.Contains(m.Params[len(m.Params)-1], "Baton")
		})
	})
	agent := w.hire(t, fmt.Sprintf("agent_%d", len(w.secrets)))
	offer := rfcTags.offer(w.key, channel, extras{"to": agent.DID, "title": title})
	send(t, w.alice, offer.tags)
	agent.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	got, _ := printError(t, agent, handleOf(w.key.did), answerPayload("accept", offer.handoff))
	if got.Handoff.State != "assigned" {
		t.Fatalf("the accept is answered %+v", got)
	}
	if err := verify(rfcTags.await(t, w.alice, "accept", offer.handoff).Tags, channel); err != nil {
		t.Error(err)
	}
}

// The next try is some time after, so that one try is one line.
func TestLinkRefusesAnotherCertificate(t *testing.T) {
	for name, wires := range map[string]wiring{
		"dialled":  {secure: true, wrong: true},
		"accepted": {accepts: true, secure: true, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLink(t, wires)
			await(t, "the link to fail", func() bool { return w.tries(t) > 1 })
			for _, line := range w.logged(t) {
				if line["link"] == "lab" && line["msg"] != "link starts" && !strings.Contains(fmt.Sprint(line["err"]), "does not match tls_fingerprint") {
					t.Errorf("logged %v", line)
				}
			}
			if up := w.counters(t)[`baton_link_up{link="lab",network="spanningtree"}`]; up != 0 {
				t.Errorf("baton_link_up is %v, want 0", up)
			}
		})
	}
}

// tries counts the lines about a certificate other than the pinned one.
func (w *world) tries(t *testing.T) (n int) {
	t.Helper()
	for _, line := range w.logged(t) {
		if strings.Contains(fmt.Sprint(line["err"]), "does not match tls_fingerprint") {
			n++
		}
	}
	return n
}

//go:build interop && linux

package inspircd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// realServer is a running InspIRCd with a link to it and two clients in #ops: one
// that reads tags and one that does not.
type realServer struct {
	house
	ircd          *bridgetest.InspIRCd
	tagged, plain *bridgetest.IRCClient
}

func startReal(t *testing.T, tweak ...func(*setup)) realServer {
	t.Helper()
	r := openReal(t, tweak...)
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

// setup is how both sides of a real link are configured.
type setup struct {
	cfg  inspircd.Config
	cert tls.Certificate // the gateway's
	ircd bridgetest.InspIRCdConfig
}

// openReal is startReal before a client is connected.
func openReal(t *testing.T, tweak ...func(*setup)) realServer {
	t.Helper()
	s := setup{cert: certificate(t, string(home)), cfg: testConfig(""), ircd: bridgetest.InspIRCdConfig{
		Name: "irc.lab.example", SID: "1AA", LinkName: string(home), SendPassword: "out-secret", RecvPassword: "in-secret",
	}}
	for _, change := range tweak {
		change(&s)
	}
	s.cfg.ServerName = s.ircd.Name
	ircd, err := bridgetest.StartInspIRCd(waiting(t), t.TempDir(), s.ircd)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(ircd.Stop)
	if s.cfg.Listen == "" {
		s.cfg.Address = ircd.LinkAddr
	}
	return realServer{house: newHouseWith(t, s.cfg, s.cert), ircd: ircd}
}

// dials makes the server dial the gateway.
func dials(t *testing.T) func(*setup) {
	t.Helper()
	addr := federationtest.FreeAddr(t)
	return func(s *setup) { s.cfg.Listen, s.ircd.Gateway = addr, addr }
}

// securely makes both sides speak TLS and pin each other's certificate.
func securely(t *testing.T) func(*setup) {
	t.Helper()
	theirs := certificate(t, "irc.lab.example")
	certFile, keyFile, err := bridgetest.WriteCertificate(t.TempDir(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	return func(s *setup) {
		s.cfg.TLS, s.cfg.TLSFingerprint = true, bridgetest.Fingerprint(theirs)
		s.ircd.TLS = &bridgetest.InspIRCdTLS{CertFile: certFile, KeyFile: keyFile, Fingerprint: bridgetest.Fingerprint(s.cert)}
	}
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

// TestInspIRCdMakesTheFirstUserAnOperator links before any client is there.
func TestInspIRCdMakesTheFirstUserAnOperator(t *testing.T) {
	eachInspIRCd(t, testInspIRCdGivesTheFirstUserOfAChannelItsOperator)
}

func testInspIRCdGivesTheFirstUserOfAChannelItsOperator(t *testing.T, server func(*setup)) {
	t.Helper()
	r := openReal(t, server)
	up := make(chan struct{}, 10)
	t.Cleanup(keepRunning(r.house, func() { up <- struct{}{} }))
	select {
	case <-up:
	case <-waiting(t).Done():
		t.Fatalf("the link did not come up:\n%s", r.log)
	}
	operator := func(c *bridgetest.IRCClient, nick string) {
		t.Helper()
		await(t, c, "MODE", func(m bridgetest.IRCMessage) bool { return cmp.Equal(m.Params, []string{"#ops", "+o", nick}) })
	}
	alice := r.client(t, "alice")
	operator(alice, "alice")
	if err := alice.Send(nil, "MODE", "#ops", "+k", "secret"); err != nil {
		t.Fatal(err)
	}
	await(t, alice, "MODE", func(m bridgetest.IRCMessage) bool { return m.Params[1] == "+k" })
	alice.Close()
	bob := r.client(t, "bob") // the key went with the channel
	operator(bob, "bob")
}

func TestInspIRCdCarriesHandoffs(t *testing.T) { eachInspIRCd(t, testInspIRCd) }

func testInspIRCd(t *testing.T, server func(*setup)) {
	t.Helper()
	t.Run("shows a step to a client that reads tags, and one line to a client that does not", func(t *testing.T) {
		r := startReal(t, server)
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
		r := startReal(t, server)
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
		r := startReal(t, server)
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
	})

	t.Run("takes the largest step that fits, and lines of people", func(t *testing.T) {
		r := startReal(t, server)
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
		r := startReal(t, server)
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
		r := startReal(t, server)
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

func TestInspIRCdBothDialects(t *testing.T) { eachInspIRCd(t, testInspIRCdBothDialects) }

func testInspIRCdBothDialects(t *testing.T, server func(*setup)) {
	t.Helper()
	for name, tags := range map[string]map[string]string{"handoff": offerTags(), "act": actTags()} {
		t.Run("carries a client's step in "+name+" tags to the gateway and to others exactly as it was signed", func(t *testing.T) {
			r := startReal(t, server)
			other := r.client(t, "carol", "message-tags")
			if err := r.tagged.Send(tags, "TAGMSG", "#ops"); err != nil {
				t.Fatal(err)
			}
			if ev := r.gateway.next(t); string(ev.Dialect) != name || ev.From != alice {
				t.Errorf("event %+v", ev)
			}
			got := await(t, other, "TAGMSG", from("alice")).Tags
			delete(got, "msgid")
			if diff := cmp.Diff(tags, got); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInspIRCdPrivate(t *testing.T) { eachInspIRCd(t, testInspIRCdPrivate) }

func testInspIRCdPrivate(t *testing.T, server func(*setup)) {
	t.Helper()
	t.Run("a client's step to the gateway and to an agent comes in, its answer goes to that client alone", func(t *testing.T) {
		r := startReal(t, server)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil { // brings the agent here
			t.Fatalf("deliver: %v", err)
		}
		await(t, r.tagged, "TAGMSG", from("scholar"))
		for _, target := range []string{"Baton", "scholar"} {
			if err := r.tagged.Send(offerTags(), "TAGMSG", target); err != nil {
				t.Fatal(err)
			}
			if got := r.gateway.next(t).Venue; got != federation.PrivateVenue(alice, scholar) {
				t.Errorf("venue %q", got)
			}
		}
		if err := r.tagged.Send(nil, "NICK", "alicia"); err != nil {
			t.Fatal(err)
		}
		await(t, r.tagged, "NICK", from("alice"))
		if err := r.link.Deliver(waiting(t), privateRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		if step := await(t, r.tagged, "TAGMSG", from("scholar")); step.Params[0] != "alicia" || step.Tags["msgid"] != acceptID {
			t.Errorf("%q with %v", step.Params, step.Tags)
		}
		for _, m := range r.plain.Received() {
			if m.Command == "NOTICE" && m.Params[0] == "bob" {
				t.Errorf("bob was told %q", m.Params)
			}
		}
	})
	t.Run("an answer waits while the client is away, and is delivered when it is back", func(t *testing.T) {
		r := startReal(t, server)
		r.tagged.Close()
		awaitOnline(t, r.house, federation.Binding{DID: alice, Name: "alice"}, false)
		if err := r.link.Deliver(waiting(t), privateRow(t)); err == nil {
			t.Fatal("delivered to nobody")
		}
		again := r.client(t, "alice", "message-tags")
		awaitOnline(t, r.house, federation.Binding{DID: alice, Name: "alice"}, true)
		if err := r.link.Deliver(waiting(t), privateRow(t)); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		await(t, again, "TAGMSG", from("scholar"))
	})
	t.Run("a step of a channel reaches a client that left the channel, and one that left the network at its return", func(t *testing.T) {
		r := startReal(t, server)
		r.gateway.links = map[federation.DID]string{alice: linkName}
		if err := r.tagged.Send(nil, "PART", "#ops"); err != nil {
			t.Fatal(err)
		}
		await(t, r.plain, "PART", from("alice"))
		step := acceptRow(t)
		err := r.link.Deliver(waiting(t), step)
		if _, left := errors.AsType[*delivery.AbsentError](err); left { // the link read the PART after it wrote the step
			step.Attempt, step.Personal = 1, true
			err = r.link.Deliver(waiting(t), step)
		}
		if err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		inPrivate := func(m bridgetest.IRCMessage) bool { return m.Nick == "scholar" && m.Params[0] == "alice" }
		if step := await(t, r.tagged, "TAGMSG", inPrivate); step.Tags["msgid"] != acceptID {
			t.Errorf("step %v", step.Tags)
		}
		await(t, r.tagged, "NOTICE", inPrivate)
		r.tagged.Close()
		awaitOnline(t, r.house, federation.Binding{DID: alice, Name: "alice"}, false)
		d := acceptRow(t)
		d.Entry.Event.ID = mustID(t, offerID[:25]+"K")
		again := absent(t, r.house, d)
		back := r.client(t, "alice", "message-tags")
		awaitOnline(t, r.house, federation.Binding{DID: alice, Name: "alice"}, true)
		if err := r.link.Deliver(waiting(t), again); err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		await(t, back, "TAGMSG", inPrivate)
		await(t, back, "NOTICE", inPrivate)
	})
}

func TestInspIRCdLinks(t *testing.T) { eachInspIRCd(t, testInspIRCdLinks) }

func testInspIRCdLinks(t *testing.T, server func(*setup)) {
	t.Helper()
	carries := func(t *testing.T, r realServer) {
		t.Helper()
		if err := r.tagged.Send(offerTags(), "TAGMSG", "#ops"); err != nil {
			t.Fatal(err)
		}
		r.gateway.next(t)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		await(t, r.tagged, "TAGMSG", from("scholar"))
	}
	t.Run("over TLS", func(t *testing.T) { carries(t, startReal(t, server, securely(t))) })
	t.Run("as the one that is dialled", func(t *testing.T) { carries(t, startReal(t, server, dials(t))) })
	t.Run("as the one that is dialled, over TLS", func(t *testing.T) { carries(t, startReal(t, server, dials(t), securely(t))) })
	t.Run("as the one that is dialled, again after the server was restarted", func(t *testing.T) {
		r := startReal(t, server, dials(t))
		if err := r.ircd.Restart(waiting(t)); err != nil {
			t.Fatalf("restart: %v", err)
		}
		r.tagged = r.client(t, "alice", "message-tags")
		await(t, r.tagged, "JOIN", from("Baton"))
		carries(t, r)
	})

	wrongOfTheirs := func(s *setup) { s.cfg.TLSFingerprint = strings.Repeat("ab", 32) }
	wrongOfOurs := func(s *setup) { s.ircd.TLS.Fingerprint = strings.Repeat("ab", 32) }
	t.Run("never to a server with another certificate than the pinned one", func(t *testing.T) {
		r := openReal(t, server, securely(t), wrongOfTheirs)
		if err := runOnce(t, r); !strings.Contains(err.Error(), "does not match tls_fingerprint") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("never to a server that pins another certificate", func(t *testing.T) {
		r := openReal(t, server, securely(t), wrongOfOurs)
		if err := runOnce(t, r); !strings.Contains(err.Error(), "Invalid SSL certificate fingerprint") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("never, being dialled, with a server that has another certificate than the pinned one", func(t *testing.T) {
		r := openReal(t, server, dials(t), securely(t), wrongOfTheirs)
		stop := keepRunning(r.house, func() { t.Error("the link came up") })
		awaitLog(t, r.house, "does not match tls_fingerprint")
		stop()
	})
	t.Run("never, being dialled, with a server that pins another certificate", func(t *testing.T) {
		r := openReal(t, server, dials(t), securely(t), wrongOfOurs)
		if err := runOnce(t, r); !strings.Contains(err.Error(), "Invalid SSL certificate fingerprint") {
			t.Errorf("error %v", err)
		}
		if err := r.link.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// runOnce runs a link that does not come up, and returns why.
func runOnce(t *testing.T, r realServer) error {
	t.Helper()
	err := r.link.Run(waiting(t), func() { t.Error("the link came up") })
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

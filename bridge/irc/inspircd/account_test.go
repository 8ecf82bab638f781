package inspircd_test

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// person is the DID that an account of the tests stands for.
const person = federation.DID("did:plc:bbbbbbbbbbbbbbbbbbbbbbbb")

// logIn says that a user is logged in to an account; "" is a logout.
func logIn(peer *bridgetest.IRCd, nick, account string) {
	peer.Send(":1AA METADATA " + peer.UUID(nick) + " accountname :" + account)
}

// unsigned returns the tags of an offer without a signature and a signer.
func unsigned() map[string]string {
	tags := offerTags()
	for _, name := range []string{"sig", "handoff-from", "eventid"} {
		delete(tags, "+freeq.at/"+name)
	}
	return tags
}

func TestAccountSignsStepsOfItsBinding(t *testing.T) {
	t.Run("is vouched for, with its line as evidence", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.bind("AliceAcct", person, true)
		logIn(peer, "alice", "AliceAcct")
		tags := unsigned()
		tags["+freeq.at/handoff-x-colour"] = "blue"
		msgid := peer.Tagmsg("alice", "#ops", tags)
		ev := h.gateway.next(t)
		key := keptKey("person:" + string(person))
		if ev.Provenance != federation.Vouched || ev.From != key.DID || ev.For != person || ev.Actor() != person {
			t.Errorf("it is %s, from %s for %s", ev.Provenance, ev.From, ev.For)
		}
		if got := ev.Fields["handoff-x-colour"]; got != "blue" || ev.ID != ev.Handoff || ev.To != scholar {
			t.Errorf("it is %+v", ev)
		}
		if document, err := signing.Document(ev); err != nil || !ed25519.Verify(key.Public, []byte(document), ev.Signature.Bytes) {
			t.Errorf("its signature does not hold: %v", err)
		}
		var original struct{ Network, Document string }
		if err := json.Unmarshal(ev.Evidence.Bytes, &original); err != nil {
			t.Fatal(err)
		}
		if line := original.Document; original.Network != "spanningtree" || !strings.HasPrefix(line, "@") ||
			!strings.Contains(line, "msgid="+msgid) || !strings.Contains(line, ":"+peer.UUID("alice")+" TAGMSG #ops") {
			t.Errorf("the evidence is %+v", original)
		}
	})
	t.Run("is its own where it is signed", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.bind("AliceAcct", person, true)
		logIn(peer, "alice", "AliceAcct")
		tags := offerTags()
		delete(tags, "+freeq.at/handoff-from")
		peer.Tagmsg("alice", "#ops", tags)
		if ev := h.gateway.next(t); ev.From != person || ev.Provenance != federation.Signed || ev.Evidence != nil {
			t.Errorf("it is %s, from %s", ev.Provenance, ev.From)
		}
	})
	t.Run("is not signed for without vouch", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.bind("AliceAcct", person, false)
		logIn(peer, "alice", "AliceAcct")
		peer.Tagmsg("alice", "#ops", unsigned())
		if ev := h.gateway.next(t); ev.From != person || ev.Provenance != federation.Signed || len(ev.Signature.Bytes) > 0 {
			t.Errorf("it is %s, from %s", ev.Provenance, ev.From)
		}
	})
	for name, test := range map[string]struct {
		account, from string
		want          string
	}{
		"is of nobody else":              {"AliceAcct", string(alice), "ACTOR_MISMATCH"},
		"is of somebody":                 {"", "", "MISSING_REQUIREMENT"},
		"is spelled as its network does": {"aliceacct", "", "MISSING_REQUIREMENT"},
	} {
		t.Run(name, func(t *testing.T) {
			h, peer := linked(t, nil)
			h.gateway.bind("AliceAcct", person, true)
			logIn(peer, "alice", "AliceAcct")
			logIn(peer, "alice", test.account)
			tags := offerTags()
			if tags["+freeq.at/handoff-from"] = test.from; test.from == "" {
				delete(tags, "+freeq.at/handoff-from")
			}
			peer.Tagmsg("alice", "#ops", tags)
			if notice := await(t, peer, "NOTICE"); !strings.HasPrefix(notice.Params[1], test.want+" ") {
				t.Errorf("told %q, want %s", notice.Params[1], test.want)
			}
		})
	}
}

func TestAccountIsOnlineWhileLoggedIn(t *testing.T) {
	h, peer := linked(t, nil)
	h.gateway.bind("AliceAcct", person, true)
	account := federation.Binding{DID: person, Name: "bob"}
	awaitOnline(t, h, account, false) // the user with the nick now
	logIn(peer, "alice", "AliceAcct")
	awaitOnline(t, h, account, true)
	peer.Tagmsg("alice", "#ops", unsigned())
	h.gateway.next(t)
	logIn(peer, "alice", "")
	awaitOnline(t, h, account, false)
	logIn(peer, "alice", "AliceAcct")
	awaitOnline(t, h, account, true)
	peer.Quit("alice")
	awaitOnline(t, h, account, false)
}

// woken keeps the woken topics.
type woken chan string

// Wake implements [bridge.PubSub].
func (w woken) Wake(topics ...string) {
	for _, topic := range topics {
		w <- topic
	}
}

// Subscribe implements [bridge.PubSub].
func (woken) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

func TestAccountLoginWakesItsDeliveries(t *testing.T) {
	topics := make(woken, 10)
	_, peer := linked(t, nil, func(p *bridge.Ports) { p.PubSub = topics })
	peer.Send(":1AA METADATA " + peer.UUID("bob") + " accountname :al")
	select {
	case got := <-topics:
		if want := bridge.OutboxTopic(linkName); got != want {
			t.Errorf("woken: %q, want %q", got, want)
		}
	case <-waiting(t).Done():
		t.Error("no delivery is woken")
	}
}

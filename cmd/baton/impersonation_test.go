package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/handofftag"
)

// newPretender starts a home that takes nothing, and says of everybody that it has their
// mailbox. It returns the table by which it is a peer.
func newPretender(t *testing.T, name federation.HomeID) (table string) {
	t.Helper()
	key := benchKey(name)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /.well-known/did.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(identity.DIDDocument(federation.SigningKey{DID: name.DID(), Public: key.Public}, server.URL))
	})
	mux.HandleFunc("GET "+string(relay.ResidentPath)+"/{did}", func(w http.ResponseWriter, r *http.Request) {
		said, err := json.Marshal(map[string]any{"type": "resident", "v": 1, "home": name, "did": r.PathValue("did"), "here": true})
		if err != nil {
			t.Error(err)
		}
		signature, err := signing.SignHome(r.Context(), key, said)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(federation.SignatureHeader, signature)
		_, _ = w.Write(said)
	})
	return fmt.Sprintf("[[peers]]\nname = %q\ndid = %q\nurl = %q\n", name, name.DID(), server.URL)
}

// newDisputed starts two homes, a.test and b.test. The first has one more peer, c.test, that
// says of everybody that it has their mailbox.
func newDisputed(t *testing.T) []neighbour {
	t.Helper()
	all := newNeighbours(t, "a.test", "b.test")
	all[0].settle(t, all, newPretender(t, "c.test"))
	for _, each := range all {
		each.start(t)
	}
	return all
}

// Two homes say that they have a mailbox: neither is believed before a step of its owner
// comes from one of them, and then the offer that waited goes there.
func TestImpersonatedMailboxStaysWithItsOwner(t *testing.T) {
	t.Parallel()
	all := newDisputed(t)
	a, b := all[0], all[1]
	alice, _ := a.key(t, 1)
	bob, did := b.key(t, 2)
	resident(t, b.house, "scout_7", 2) // bob's own key
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", did, "--title", "Whose is it")
	await(t, "neither home to be believed", func() bool {
		return strings.Contains(a.must(t, "explain", id), did+"  nowhere yet")
	})
	if got := b.show(t, id).verbs(); got != "" {
		t.Errorf("b has %q", got)
	}
	other := b.must(t, "handoff", "offer", "--key-file", bob, "--open", "--title", "Here I am")
	agree(t, other, "offer", all...)
	agree(t, id, "offer", all...)
	if out := a.must(t, "explain", id); !strings.Contains(out, did+"  at b.test, by step  since ") {
		t.Errorf("it is explained as\n%s", out)
	}
}

// A home that claims a mailbox is believed, if no other does, until a step of its owner
// comes from elsewhere.
func TestImpersonatingHomeIsOverruled(t *testing.T) {
	t.Parallel()
	all := newDisputed(t)
	a, b := all[0], all[1]
	alice, _ := a.key(t, 1)
	bob, did := b.key(t, 2) // b does not know this DID yet
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", did, "--title", "Whose is it")
	await(t, "the home that says so to be believed", func() bool {
		return strings.Contains(a.must(t, "explain", id), did+"  at c.test, by answer  since ")
	})
	other := b.must(t, "handoff", "offer", "--key-file", bob, "--open", "--title", "Here I am")
	agree(t, other, "offer", all...)
	await(t, "the home of its steps to be believed", func() bool {
		return strings.Contains(a.must(t, "explain", other), did+"  at b.test, by step  since ")
	})
	for _, name := range []string{"b.test", "c.test"} { // the mailbox may have moved from the one to the other
		if out := a.must(t, "peer", "show", name); strings.Contains(out, "not believed") {
			t.Errorf("%s has offences:\n%s", name, out)
		}
	}
	again := a.must(t, "handoff", "offer", "--key-file", alice, "--to", did, "--title", "Now I know")
	agree(t, again, "offer", all...)
}

func TestUnroutedOfferIsReportedAfterFiveMinutes(t *testing.T) {
	gateway := assemble(t, 1)
	begun := time.Now()
	ev, err := handofftag.Codec{}.Decode(signedOffers(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	ev.Arrival = federation.Arrival{Network: "spanningtree", Link: "lab", Name: "alice", Received: begun}
	if err := gateway.Submit(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	for _, look := range []struct {
		at   time.Time
		told int
	}{{begun.Add(5*time.Minute - time.Millisecond), 0}, {ended.Add(5 * time.Minute), 1}, {ended.Add(time.Hour), 1}} {
		if err := gateway.Watch(t.Context(), look.at); err != nil {
			t.Fatal(err)
		}
		notices, err := gateway.DueNotices(t.Context(), "lab", look.at)
		if err != nil || len(notices) != look.told {
			t.Fatalf("%s after the offer %d notices wait for the offerer (%v), want %d", look.at.Sub(begun), len(notices), err, look.told)
		}
		for _, d := range notices {
			if n := d.Notice; n.Kind != federation.NoticeDelayed || n.Event.ID != ev.ID || n.To != "homes" {
				t.Errorf("notice %+v", n)
			}
		}
	}
}

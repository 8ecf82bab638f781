package airc_test

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

// proof signs a step and writes it as a payload has it.
func proof(t *testing.T, key federation.SigningKey, ev federation.Event) map[string]any {
	t.Helper()
	if ev.ID.IsZero() {
		id, err := federation.NewEventID(time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		ev.ID = id
	}
	if ev.Verb == federation.Offer {
		ev.Handoff = ev.ID
	}
	ev.From = key.DID
	ev.Fields, _ = dialect.Write(ev)
	sealed, err := signing.Seal(t.Context(), key, ev)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"scheme": string(ev.Dialect), "document": sealed.Signature.Document, "signature": sealed.Signature.Text,
		"publicKey": base64.RawURLEncoding.EncodeToString(key.Public),
	}
}

func TestProofOfAStepIsFiledAsSigned(t *testing.T) {
	t.Parallel()
	for _, tags := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		t.Run(string(tags), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
			scout := w.agent(t, "scout_7", 0x01)
			own := signingKey(0x01)
			id := w.offer(t, alice, string(own.DID))
			signed := proof(t, own, federation.Event{Handoff: id, Verb: federation.Accept, Venue: "#ops", Dialect: tags})
			p := ack(inbox(t, scout)[0].ID, "received")
			p["data"].(map[string]any)["handoff"] = map[string]any{"proof": signed}
			status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", p)
			if err != nil || status != http.StatusCreated {
				t.Fatal(status, answer, err)
			}
			accept := w.steps(t, id)[1]
			want := [4]any{federation.Signed, own.DID, signed["document"], signed["signature"]}
			if diff := cmp.Diff(want, [4]any{accept.Provenance, accept.From, accept.Signature.Document, accept.Signature.Text}); diff != "" {
				t.Error(diff)
			}
			if accept.Evidence != nil || accept.Dialect != tags {
				t.Errorf("filed %+v", accept)
			}
		})
	}
}

func TestProofOfAnOfferIsForItsPair(t *testing.T) {
	t.Parallel()
	own := signingKey(0x01)
	for name, test := range map[string]struct {
		to     string
		did    federation.DID
		online bool
		want   federation.View
	}{
		"it is rendered in a channel":        {wire.Handle(alice.DID), alice.DID, false, federation.View{Venue: "#ops", Signed: federation.PrivateVenue(own.DID, alice.DID)}},
		"it is as it was signed in private":  {wire.Handle(alice.DID), alice.DID, true, federation.View{Venue: federation.PrivateVenue(own.DID, alice.DID), Link: "lab"}},
		"an open one is signed for the home": {"anyone", "", false, federation.View{Venue: "#ops", Signed: federation.PrivateVenue(own.DID, "did:web:gw.example")}},
		"one to an agent stays with the two": {"planner", kept("planner").DID, false, federation.View{Venue: federation.PrivateVenue(own.DID, kept("planner").DID), Link: "airc"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.gateway.online = test.online
			scout := w.agent(t, "scout_7", 0x01)
			w.agent(t, "planner", 0x04)
			w.meet(t)
			with := test.did
			if with == "" {
				with = "did:web:gw.example"
			}
			signed := proof(t, own, federation.Event{
				Verb: federation.Offer, To: test.did, Title: "Cite X", Venue: federation.PrivateVenue(own.DID, with), Dialect: federation.HandoffTags,
			})
			id, _ := start(t, scout, test.to, request("Cite X", "handoff", map[string]any{"proof": signed}))
			if !strings.Contains(signed["document"].(string), id.String()) {
				t.Errorf("the handoff is %s, want that of %s", id, signed["document"])
			}
			view, err := w.record.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			got := federation.View{Venue: view.Venue, Signed: view.Signed, Link: view.Link}
			if diff := cmp.Diff(test.want, got); diff != "" || view.Offerer != own.DID {
				t.Errorf("%s offers, %s", view.Offerer, diff)
			}
		})
	}
}

func TestProofRefuses(t *testing.T) {
	t.Parallel()
	own, thief := signingKey(0x01), signingKey(0x55)
	pair := federation.PrivateVenue(own.DID, alice.DID)
	for name, test := range map[string]struct {
		payload string // of which the proof is said to be
		by      federation.SigningKey
		ev      federation.Event
		spoil   func(p map[string]any)
		status  int
		code    string
	}{
		"a step of another DID":             {"accept", thief, federation.Event{Verb: federation.Accept, Venue: "#ops"}, nil, 401, "invalid_signature"},
		"another public key":                {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["publicKey"] = "" }, 401, "invalid_signature"},
		"no signature":                      {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["signature"] = "" }, 401, "invalid_signature"},
		"a signature of something else":     {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["document"] = strings.Replace(p["document"].(string), "#ops", "#hop", 1) }, 401, "invalid_signature"},
		"a document that is not canonical":  {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["document"] = " " + p["document"].(string) }, 401, "invalid_signature"},
		"no document":                       {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["document"] = "x" }, 400, "bad_request"},
		"a document of something else":      {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["document"] = `{"from":"` + string(own.DID) + `","target":"#ops"}` }, 400, "bad_request"},
		"the tags of another scheme":        {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, func(p map[string]any) { p["scheme"] = "act" }, 400, "bad_request"},
		"another verb than the payload":     {"decline", own, federation.Event{Verb: federation.Accept, Venue: "#ops"}, nil, 400, "bad_request"},
		"another handoff than the payload":  {"accept", own, federation.Event{Handoff: federation.HandoffID{1}, Verb: federation.Accept, Venue: "#ops"}, nil, 400, "bad_request"},
		"a step for another channel":        {"accept", own, federation.Event{Verb: federation.Accept, Venue: "#side"}, nil, 403, "wrong_venue"},
		"an offer for a channel":            {"offer", own, federation.Event{Verb: federation.Offer, To: alice.DID, Title: "x", Venue: "#ops"}, nil, 400, "bad_request"},
		"an offer to another than the mail": {"offer", own, federation.Event{Verb: federation.Offer, To: thief.DID, Title: "x", Venue: pair}, nil, 400, "bad_request"},
		"an accept in an offer":             {"offer", own, federation.Event{Verb: federation.Accept, Venue: pair}, nil, 400, "bad_request"},
		"an offer without title":            {"offer", own, federation.Event{Verb: federation.Offer, To: alice.DID, Venue: pair}, nil, 400, "bad_request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
			scout := w.agent(t, "scout_7", 0x01)
			id := w.offer(t, alice, string(own.DID))
			test.ev.Dialect = federation.HandoffTags
			if test.ev.Handoff.IsZero() {
				test.ev.Handoff = id
			}
			signed := proof(t, test.by, test.ev)
			if test.spoil != nil {
				test.spoil(signed)
			}
			p := native(id.String(), test.payload)
			p["data"].(map[string]any)["handoff"].(map[string]any)["proof"] = signed
			if test.payload == "offer" {
				p = request("x", "handoff", map[string]any{"proof": signed})
			}
			status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", p)
			if err != nil || status != test.status || answer["error"] != test.code {
				t.Errorf("answered %d %v %v, want %d %s", status, answer, err, test.status, test.code)
			}
			if got := w.verbs(t, id); got != "offer" {
				t.Errorf("filed %s", got)
			}
		})
	}
}

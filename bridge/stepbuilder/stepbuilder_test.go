package stepbuilder_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// keyOf returns the key of a person with a name.
func keyOf(name string) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte(name), ed25519.SeedSize)[:ed25519.SeedSize])
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		Public: public, DID: identity.KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}
}

func kept(name string) federation.SigningKey { return keyOf("kept " + federation.DID(name).Hash()) }

// gateway knows one user on IRC, dora, which is online there.
type gateway struct{ bridge.Gateway }

func (gateway) Name(_ context.Context, did federation.DID) string { return did.Short() }

func (gateway) Place(_ context.Context, _, to federation.DID, _ string) (federation.ChannelRef, federation.Dialect, error) {
	if to == keyOf("dora").DID {
		return federation.ChannelRef{Venue: "#ops"}, federation.ActTags, nil
	}
	return federation.ChannelRef{}, federation.HandoffTags, nil
}

// placer is a link with one channel.
type placer struct{ bridge.ChannelLink }

func (placer) Channels() []string          { return []string{"#act"} }
func (placer) Dialect() federation.Dialect { return federation.ActTags }

// desk is a builder on an empty record with an agent, and with a name that an operator bound
// with vouch.
type desk struct {
	stepbuilder.Builder

	agent, bound federation.DID
}

func newDesk(t *testing.T) desk {
	t.Helper()
	record, now := storetest.Open(t), federationtest.At(0)
	d := desk{agent: kept("airc:scout_7").DID, bound: "did:web:bound.example"}
	own := keyOf("scout")
	err := record.AddAgent(t.Context(), agents.Agent{
		Handle: "scout_7", DID: d.agent, OwnDID: own.DID, Registered: now,
		Keys: []agents.Key{{ID: "k", DID: own.DID, Public: own.Public, Created: now}},
	})
	if err == nil {
		err = record.BindName(t.Context(), federation.BoundName{Network: "lab", Name: "bound", DID: d.bound, Vouch: true, Since: now})
	}
	if err != nil {
		t.Fatal(err)
	}
	contexts := bridgetest.Contexts(record, 1<<20, 0)
	d.Builder = stepbuilder.Builder{
		Network: "rest", Home: "gw.example", Gateway: gateway{}, Record: storetest.Bound(record), Signer: bridgetest.Signer(kept), Bindings: bridgetest.KeptNames{Record: record},
		PublicURL: "https://gw.example", ChannelLinks: func() []bridge.ChannelLink { return []bridge.ChannelLink{placer{}} },
		Evidence: contexts,
	}
	return d
}

// keys finds the key in each did:key.
type keys struct{}

func (keys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	key, err := identity.ParseKeyDID(q.DID)
	return []ed25519.PublicKey{key}, err
}

func (keys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// why returns the client's text of an error.
func why(err error) string {
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	problem, isProblem := errors.AsType[*bridge.ProblemError](err)
	switch {
	case isRefusal:
		return string(refused.Code)
	case isProblem:
		return problem.Code + ": " + problem.Detail
	}
	return fmt.Sprint(err)
}

func TestVouchSignsForPermittedDIDs(t *testing.T) {
	t.Parallel()
	d, now := newDesk(t), federationtest.At(5)
	eliza, scholar := keyOf("eliza").DID, keyOf("scholar").DID
	for _, tt := range []struct {
		name    string
		from    federation.DID
		proved  bool
		signer  federation.DID
		forWhom federation.DID
		want    string
	}{
		{"who proved a DID", eliza, true, kept("person:" + string(eliza)).DID, eliza, "<nil>"},
		{"who proved nothing", eliza, false, "", "", "need-signature"},
		{"who is bound with vouch", d.bound, false, kept("person:" + string(d.bound)).DID, d.bound, "<nil>"},
		{"an agent", d.agent, false, d.agent, "", "<nil>"},
		{"an agent by a key of its own", keyOf("scout").DID, true, d.agent, "", "<nil>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev, losses, err := d.Vouch(t.Context(), stepbuilder.Draft{
				ID: federationtest.ID(5), From: tt.from, Proved: tt.proved, Verb: federation.Offer, Original: `{"title":"Cite"}`,
				To: scholar, Title: "Cite", Context: `{"topic":"X"}`, Caps: []string{"go"}, Deadline: now.Add(time.Hour), Priority: "high",
			}, federation.View{}, now)
			if got := why(err); got != tt.want || len(losses) > 0 {
				t.Fatalf("%s, lost %v; want %s", got, losses, tt.want)
			}
			if err != nil {
				return
			}
			if ev.From != tt.signer || ev.For != tt.forWhom || ev.Provenance != federation.Vouched {
				t.Errorf("signed by %s for %s, %s", ev.From, ev.For, ev.Provenance)
			}
			read, verdict, err := signing.Verify(t.Context(), keys{}, ev)
			if verdict != federation.Valid {
				t.Errorf("it is %s: %v", verdict, err)
			}
			if ev.Evidence == nil || !strings.Contains(read.Signature.Document, ev.Evidence.URL) {
				t.Errorf("its evidence %v is not in what was signed: %s", ev.Evidence, read.Signature.Document)
			}
			named := tt.from != d.bound // its account on a network is its name already
			if ev.ID != federationtest.ID(5) || ev.Handoff != ev.ID || ev.Venue != federation.PrivateVenue(ev.From, scholar) || (ev.Arrival.Name != "") != named {
				t.Errorf("it is %+v", ev)
			}
		})
	}
}

func TestPlaceOfAnOffer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	eliza := keyOf("eliza").DID
	type place struct{ Venue, Dialect, Why string }
	got := map[string]place{}
	for name, draft := range map[string]stepbuilder.Draft{
		"where its recipient is":         {To: keyOf("dora").DID},
		"in the inbox of who is nowhere": {To: keyOf("scholar").DID},
		"for anyone":                     {},
		"in a channel of a link":         {Channel: "#ACT"},
		"in a channel of no link":        {Channel: "#elsewhere"},
		"in what is none":                {Channel: "ops"},
		"with a title that is cut":       {Title: strings.Repeat("x", 9000)},
	} {
		draft.From, draft.Verb, draft.Proved = eliza, federation.Offer, true
		draft.Title += "x"
		ev, _, err := d.Vouch(t.Context(), draft, federation.View{}, federationtest.At(0))
		got[name] = place{ev.Venue, string(ev.Dialect), why(err)}
		if err != nil {
			got[name] = place{Why: why(err)}
		}
	}
	signer := kept("person:" + string(eliza)).DID
	if diff := cmp.Diff(map[string]place{
		"where its recipient is":         {"#ops", "act", "<nil>"},
		"in the inbox of who is nowhere": {federation.PrivateVenue(signer, keyOf("scholar").DID), "handoff", "<nil>"},
		"for anyone":                     {federation.PrivateVenue(signer, "did:web:gw.example"), "handoff", "<nil>"},
		"in a channel of a link":         {"#act", "act", "<nil>"},
		"in a channel of no link":        {Why: "invalid-target"},
		"in what is none":                {Why: `usage: channel: "ops" is not a channel`},
		"with a title that is cut":       {federation.PrivateVenue(signer, "did:web:gw.example"), "handoff", "<nil>"},
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestVouchStoresALongContext(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ev, losses, err := d.Vouch(t.Context(), stepbuilder.Draft{
		From: keyOf("eliza").DID, Proved: true, Verb: federation.Offer, Title: "Cite", Context: `{"text":"` + strings.Repeat("x", 5000) + `"}`,
	}, federation.View{}, federationtest.At(0))
	if err != nil || len(losses) > 0 || !strings.HasPrefix(ev.Context, "https://gw.example/blob/") || !strings.HasPrefix(ev.ContextHash, "sha256:") {
		t.Errorf("context %.40q with hash %q, lost %v: %v", ev.Context, ev.ContextHash, losses, err)
	}
}

func TestVouchRefusesALargeContextWithARemedy(t *testing.T) {
	t.Parallel()
	const is = "invalid-context: a context is JSON of at most 4096 bytes, an https URL or an at URI"
	for text, want := range map[string]string{
		"no JSON": is + ": the text is not a context",
		"https://e.example/" + strings.Repeat("a", 4070): is + ": the tags would be longer than 4094 bytes: shorten the context, the title, the note or the caps",
	} {
		_, _, err := newDesk(t).Vouch(t.Context(), stepbuilder.Draft{
			From: keyOf("eliza").DID, Proved: true, Verb: federation.Offer, Title: "Cite", Context: text,
		}, federation.View{}, federationtest.At(0))
		if err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// offered is a handoff that eliza opened.
func offered() federation.View {
	return federation.View{
		ID: federationtest.ID(1), Kind: federation.Handoff, Venue: "#ops", Dialect: federation.HandoffTags, State: federation.Offered,
		Offerer: keyOf("eliza").DID, Offeree: keyOf("scholar").DID,
	}
}

// signed returns a step with the signature of its author.
func signed(t *testing.T, by string, ev federation.Event) stepbuilder.Proof {
	t.Helper()
	ev.Kind, ev.Venue, ev.Dialect, ev.Provenance = federation.Handoff, "#ops", federation.HandoffTags, federation.Signed
	key := keyOf(by)
	ev.From = key.DID
	ev.Fields = map[string]string{"handoff": string(ev.Verb), "handoff-id": ev.Handoff.String(), "handoff-from": string(ev.From)}
	if ev.Verb == federation.Offer {
		ev.Fields["handoff-to"], ev.Fields["handoff-task"] = string(keyOf("scholar").DID), "Cite"
	}
	sealed, err := signing.Seal(t.Context(), key, ev)
	if err != nil {
		t.Fatal(err)
	}
	return stepbuilder.Proof{Document: sealed.Signature.Document, Signature: sealed.Signature.Text}
}

func TestAttestKeepsTheSignedStep(t *testing.T) {
	t.Parallel()
	d, now := newDesk(t), federationtest.At(9)
	view := offered()
	attest := func(p stepbuilder.Proof, verb federation.Verb, v federation.View, channel string) (federation.Event, error) {
		return d.Attest(t.Context(), p, verb, v, channel, now)
	}
	offer := signed(t, "eliza", federation.Event{ID: federationtest.ID(2), Handoff: federationtest.ID(2), Verb: federation.Offer})
	ev, err := attest(offer, federation.Offer, federation.View{}, "#act")
	if err != nil || ev.Arrival.Place.Venue != "#act" || ev.Venue != "#ops" || ev.Title != "Cite" || ev.To != keyOf("scholar").DID {
		t.Errorf("the offer is %+v, %v", ev, err)
	}
	if _, verdict, err := signing.Verify(t.Context(), keys{}, ev); verdict != federation.Valid || ev.Provenance != federation.Signed {
		t.Errorf("it is %s and %s: %v", verdict, ev.Provenance, err)
	}
	accept := signed(t, "scholar", federation.Event{ID: federationtest.ID(3), Handoff: view.ID, Verb: federation.Accept})
	if ev, err := attest(accept, federation.Accept, view, ""); err != nil || ev.Handoff != view.ID || ev.From != keyOf("scholar").DID {
		t.Errorf("the accept is %+v, %v", ev, err)
	}
	other := view
	other.ID = federationtest.ID(7)
	inTheNameOf := stepbuilder.Proof{Document: strings.Replace(accept.Document, `"handoff-from":"`+string(keyOf("scholar").DID), `"handoff-from":"`+string(keyOf("eliza").DID), 1), Signature: accept.Signature}
	for name, tt := range map[string]struct {
		proof stepbuilder.Proof
		verb  federation.Verb
		view  federation.View
		want  string
	}{
		"another verb than asked for": {accept, federation.Decline, view, "usage: the signed document differs from the request"},
		"a step of another handoff":   {accept, federation.Accept, other, "usage: the signed document differs from the request"},
		"in the name of another":      {inTheNameOf, federation.Accept, view, "signature-invalid"},
		"no document":                 {stepbuilder.Proof{Document: "{}", Signature: "x"}, federation.Accept, view, "usage: the signed document is not a step"},
		"no JSON":                     {stepbuilder.Proof{Document: "accept", Signature: "x"}, federation.Accept, view, "usage: the signed document is not a step"},
	} {
		if _, err := attest(tt.proof, tt.verb, tt.view, ""); why(err) != tt.want {
			t.Errorf("%s: %s, want %s", name, why(err), tt.want)
		}
	}
	if _, err := attest(offer, federation.Offer, federation.View{}, "#elsewhere"); why(err) != "invalid-target" {
		t.Errorf("an offer for a channel of no link: %v", err)
	}
}

// A step that answers is written in the place of its handoff, in its dialect,
// about its offer.
func TestPlaceOfAStepIsThatOfItsHandoff(t *testing.T) {
	t.Parallel()
	d, view := newDesk(t), offered()
	view.Dialect = federation.ActTags
	ev, losses, err := d.Vouch(t.Context(), stepbuilder.Draft{
		From: view.Offeree, Proved: true, Verb: federation.Progress, Note: strings.Repeat("é", 500),
	}, view, federationtest.At(0))
	if err != nil || ev.Handoff != view.ID || ev.Venue != view.Venue || ev.Dialect != federation.ActTags || ev.ReplyTo != view.ID.String() || ev.ID.IsZero() {
		t.Errorf("it is %+v, %v", ev, err)
	}
	signed, err := dialect.Read(ev.Signature.Document)
	if err != nil || !federation.Loses(losses, "note") || signed.Note != strings.Repeat("é", 400) {
		t.Errorf("of a note of 500 characters %q is signed (%v), lost %v", signed.Note, err, losses)
	}
}

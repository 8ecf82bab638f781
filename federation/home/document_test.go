package home_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

// drawn is a step of any verb with members of any content that its dialect can hold.
func drawn(t *rapid.T, d federation.Dialect, signer person, id federation.EventID) federation.Event {
	text := rapid.StringMatching(`[a-zA-Z0-9é][a-zA-Z0-9é ,;:"\\]{0,40}[a-z]`)
	maybe := func(name string, g *rapid.Generator[string]) string {
		return rapid.OneOf(rapid.Just(""), g).Draw(t, name)
	}
	ev := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: signer.did, Venue: "#ops", Dialect: d, Stamped: true,
		Provenance: rapid.SampledFrom([]federation.Provenance{federation.Signed, federation.Vouched}).Draw(t, "provenance"),
		To:         federation.DID(maybe("to", rapid.SampledFrom([]string{"did:plc:bob", "did:web:b.test:eve"}))),
		Title:      text.Draw(t, "title"), Context: maybe("context", rapid.SampledFrom([]string{`{"q":"X"}`, "https://gw.example/blob/cap/x"})),
		Note: maybe("note", text), Priority: maybe("priority", rapid.StringMatching(`[a-z]{1,8}`)),
		Caps: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,6}`), 0, 3, rapid.ID[string]).Draw(t, "caps"),
	}
	if rapid.Bool().Draw(t, "with a deadline") {
		ev.Deadline = federationtest.At(rapid.IntRange(1, 1000).Draw(t, "deadline")).Truncate(time.Second)
	}
	if ev.Provenance == federation.Vouched {
		ev.For = "did:plc:alice"
		ev.Evidence = &federation.Evidence{URL: "https://gw.example/evidence/x"}
	}
	ev.Fields, _ = dialect.Write(ev)
	return ev
}

// Regardless of the members that a codec, a link or a bug sets beside the signed document, a filed
// step has the members of the document, and its passport verifies.
func TestSubmitFilesWhatIsSigned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		b.home.Read = dialect.Read
		d := rapid.SampledFrom([]federation.Dialect{federation.HandoffTags, federation.ActTags}).Draw(rt, "dialect")
		sealed, err := signing.Seal(t.Context(), b.alice.key, drawn(rt, d, b.alice, federationtest.ID(1)))
		if err != nil {
			rt.Fatal(err)
		}
		sealed.Arrival = federation.Arrival{Network: "spanningtree", Link: "lab", Received: b.now}
		want, err := dialect.FromDocument(sealed.Signature.Document)
		if err != nil {
			rt.Fatalf("%s: %v", sealed.Signature.Document, err)
		}
		given := sealed
		for member, change := range map[string]func(){
			"title": func() { given.Title = "Send money" }, "to": func() { given.To = "did:plc:mallory" }, "for": func() { given.For = "did:plc:mallory" },
			"context": func() { given.Context = `{"q":"Y"}` }, "hash": func() { given.ContextHash = "sha256:00" }, "note": func() { given.Note = "forged" },
			"caps": func() { given.Caps = []string{"root"} }, "deadline": func() { given.Deadline = b.now.Add(time.Hour) }, "kind": func() { given.Kind = "bounty" },
			"priority": func() { given.Priority = "high" }, "reply": func() { given.ReplyTo = "another" }, "replaces": func() { given.Replaces = federationtest.ID(9999) },
		} {
			if rapid.Bool().Draw(rt, "change "+member) {
				change()
			}
		}
		given.Fields = maps.Clone(given.Fields)
		judged, err := b.home.Submit(t.Context(), given, b.now)
		if err != nil && given.Kind == federation.Handoff {
			rt.Fatalf("%s: %v", sealed.Signature.Document, err)
		}
		if err != nil {
			return // an unknown kind is rejected before the signature is verified
		}
		got := judged.Entry.Event
		got.Provenance, got.Signature, got.Evidence, got.Arrival = want.Provenance, want.Signature, want.Evidence, want.Arrival
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("filed is another step than was signed (-signed +filed):\n%s", diff)
		}
		if judged.View.Title != want.Title || judged.View.Offeree != want.To {
			rt.Fatalf("the handoff is %q to %s, signed was %q to %s", judged.View.Title, judged.View.Offeree, want.Title, want.To)
		}
	})
}

// For each signature scheme of a step, Open reads the same members as the codec. For all other
// schemes it reads nothing.
func TestOpenReadsEveryScheme(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		for _, verb := range []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Complete, federation.Confirm} {
			ev := federation.Event{
				ID: federationtest.ID(1), Handoff: federationtest.ID(1), Kind: federation.Handoff, Verb: verb, From: b.alice.did, Venue: "#ops", Dialect: d,
				Title: "Review it", Note: "soon", Subject: federationtest.ID(3), Stamped: true, Provenance: federation.Signed,
			}
			if verb != federation.Offer {
				ev.ID, ev.Title = federationtest.ID(2), ""
			}
			ev.Fields, _ = dialect.Write(ev)
			sealed, err := signing.Seal(t.Context(), b.alice.key, ev)
			if err != nil {
				t.Fatal(err)
			}
			if verb != federation.Confirm {
				sealed.Subject = federation.EventID{}
			}
			bare := federation.Event{
				ID: sealed.ID, Handoff: sealed.Handoff, Verb: verb, From: sealed.From, Venue: sealed.Venue, Dialect: d, Stamped: true,
				Fields: sealed.Fields, Provenance: sealed.Provenance, Signature: federation.Signature{Text: sealed.Signature.Text},
			}
			got, verdict, err := signing.Open(t.Context(), b.home.Keys, dialect.Read, bare)
			if verdict != federation.Valid || err != nil {
				t.Errorf("%s of %s: %s, %v", verb, d, verdict, err)
			}
			if diff := cmp.Diff(sealed, got); diff != "" {
				t.Errorf("%s of %s (-signed +opened):\n%s", verb, d, diff)
			}
			bare.Fields = maps.Clone(bare.Fields)
			bare.Fields[fmt.Sprint(d, "-note")] = "changed"
			if _, verdict, _ := signing.Open(t.Context(), b.home.Keys, dialect.Read, bare); verdict != federation.Invalid {
				t.Errorf("a changed %s of %s is %s", verb, d, verdict)
			}
		}
	}
	unreadable := federation.Event{
		ID: federationtest.ID(1), Handoff: federationtest.ID(1), Verb: federation.Offer, From: b.alice.did, Venue: "#ops", Dialect: federation.HandoffTags,
		Fields: map[string]string{"handoff": "offer", "handoff-id": federationtest.ID(1).String(), "handoff-task": "a\tb"}, Provenance: federation.Signed,
	}
	sealed, err := signing.Seal(t.Context(), b.alice.key, unreadable)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = signing.Open(t.Context(), b.home.Keys, dialect.Read, sealed)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTag {
		t.Errorf("a document that no codec reads is answered %v", err)
	}
}

package irc_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

const home = federation.HomeID("gw.example")

// directory is the parts of a gateway that shared code asks.
type directory struct {
	bridge.Gateway
	views map[federation.HandoffID]federation.View
	same  map[federation.DID]federation.DID
	err   error
}

func (d directory) View(_ context.Context, id federation.HandoffID) (federation.View, error) {
	return d.views[id], d.err
}

// Owner implements [bridge.Gateway]. No keys are kept.
func (directory) Owner(_ context.Context, did federation.DID) (federation.DID, error) {
	return did, nil
}

func (d directory) Same(_ context.Context, a, b federation.DID) (bool, error) {
	return a == b || d.same[a] == b || d.same[b] == a, nil
}

// key is a signing key made from a name.
func key(name string) federation.SigningKey {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		Public: public, DID: federation.DID("did:example:" + federation.KeyID(public)),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}
}

// keySource is the keys of some people.
type keySource []federation.SigningKey

func (s keySource) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	for _, k := range s {
		if k.DID == q.DID {
			return []ed25519.PublicKey{k.Public}, nil
		}
	}
	return nil, errors.New("unknown DID")
}

func (s keySource) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// archive is the kept evidence.
type archive struct {
	kept     []federation.Evidence
	contexts bridge.Contexts
	err      error
}

func (a *archive) ports() bridge.Ports {
	if a.contexts.Limits == nil { // there is no room for any
		a.contexts = bridgetest.Contexts(nil, 0, 0)
	}
	return bridge.Ports{
		Home: home, PublicURL: "https://gw.example", Signer: bridgetest.Signer(key), Evidence: a,
	}
}

// Keep implements [bridge.Evidence].
func (a *archive) Keep(_ context.Context, _ federation.HandoffID, e federation.Evidence) error {
	a.kept = append(a.kept, e)
	return a.err
}

// Refer implements [bridge.Evidence].
func (a *archive) Refer(ctx context.Context, ev federation.Event) (federation.Event, error) {
	return a.contexts.Refer(ctx, ev)
}

// Store implements [bridge.Evidence].
func (a *archive) Store(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error) {
	return a.contexts.Store(ctx, owner, content)
}

// delivery is a complete of bob's with all that a step has, signed in a dialect for
// a venue.
func delivery(t *testing.T, d federation.Dialect, venue string) federation.Delivery {
	t.Helper()
	bob := key("bob")
	id, err := federation.ParseEventID("01K9ZQ00000000000000Y6Z0AB")
	if err != nil {
		t.Fatal(err)
	}
	handoff, err := federation.ParseEventID("01K9ZQ0000000000000000000H")
	if err != nil {
		t.Fatal(err)
	}
	ev := federation.Event{
		ID: id, Handoff: handoff, Kind: federation.Handoff, Verb: federation.Complete, From: bob.DID, Venue: venue, Dialect: d,
		Note: "done; it is \"good\"", Context: `{"a":"b c"}`, ReplyTo: handoff.String(), Provenance: federation.Signed,
		Arrival: federation.Arrival{Network: "freeq", Link: "freeq", Received: time.Unix(1788000000, 123456789)},
	}
	ev.Fields, _ = dialect.Write(ev)
	if ev, err = signing.Seal(t.Context(), bob, ev); err != nil {
		t.Fatal(err)
	}
	return federation.Delivery{Entry: federation.Entry{Event: ev, Version: 3}}
}

func TestRender(t *testing.T) {
	both := []federation.Dialect{federation.HandoffTags, federation.ActTags}
	for _, signed := range both {
		for _, written := range both {
			for venue, reason := range map[string]string{"#ops": "the same place", "#dev": "another place"} {
				t.Run("a step signed in "+string(signed)+" tags for "+reason+", where they are "+string(written), func(t *testing.T) {
					d := delivery(t, signed, "#ops")
					d.View = federation.View{Dialect: written, Venue: venue}
					checkRendering(t, d)
				})
			}
		}
	}
}

// checkRendering renders a delivery and holds the result to the rule of dialects.
func checkRendering(t *testing.T, d federation.Delivery) {
	t.Helper()
	var kept archive
	got, losses, err := irc.Render(t.Context(), kept.ports(), d)
	if err != nil || len(losses) != 0 {
		t.Fatalf("losses %v, error %v", losses, err)
	}
	original := d.Entry.Event
	if original.Dialect == d.View.Dialect && original.Venue == d.View.Venue {
		if diff := cmp.Diff(original, got); diff != "" || len(kept.kept) != 0 {
			t.Errorf("with evidence %v, step (-signed +written):\n%s", kept.kept, diff)
		}
		return
	}
	again, _, err := irc.Render(t.Context(), kept.ports(), d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	if len(kept.kept) != 2 || !cmp.Equal(kept.kept[0], kept.kept[1]) || !strings.Contains(string(kept.kept[0].Bytes), original.Signature.Text) {
		t.Errorf("evidence %v", kept.kept)
	}
	checkSigned(t, got, d)
}

// checkSigned sends a rendition over the wire and verifies the result.
func checkSigned(t *testing.T, rendered federation.Event, d federation.Delivery) {
	t.Helper()
	original := d.Entry.Event
	m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: rendered}, View: d.View})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := dialect.Decode(m)
	if err != nil {
		t.Fatalf("%v of %v", err, m.Tags)
	}
	persons := key("person:" + string(original.From))
	if _, verdict, err := signing.Verify(t.Context(), keySource{persons}, ev); verdict != federation.Valid {
		t.Errorf("verdict %v, error %v", verdict, err)
	}
	if ev.ID != original.ID || ev.Handoff != original.Handoff || ev.From != persons.DID || ev.For != original.From ||
		ev.Dialect != d.View.Dialect || m.Target != d.View.Venue {
		t.Errorf("rendered as %+v", ev)
	}
	if ev.Note != original.Note || ev.Context != original.Context || ev.ReplyTo != original.ReplyTo {
		t.Errorf("says %q, %q, %q", ev.Note, ev.Context, ev.ReplyTo)
	}
	if rendered.Provenance != federation.Vouched || rendered.Actor() != original.From {
		t.Errorf("%s step of %s", rendered.Provenance, rendered.Actor())
	}
}

func TestRenderKeepsTheVouchingOfAnother(t *testing.T) {
	var kept archive
	d := delivery(t, federation.HandoffTags, "#ops")
	d.Entry.Event.Provenance, d.Entry.Event.For = federation.Vouched, eliza
	d.View = federation.View{Dialect: federation.ActTags, Venue: "#ops"}
	got, _, err := irc.Render(t.Context(), kept.ports(), d)
	if err != nil || got.For != eliza || got.From != key("person:"+string(eliza)).DID {
		t.Errorf("from %s for %s, error %v", got.From, got.For, err)
	}
}

func TestRenderReportsContentOnlyInTheEvidence(t *testing.T) {
	var kept archive
	d := delivery(t, federation.HandoffTags, "#ops")
	d.Entry.Event.Context = `["` + strings.Repeat("x", 4000) + `"]`
	d.View = federation.View{Dialect: federation.ActTags, Venue: "#ops"}
	_, losses, err := irc.Render(t.Context(), kept.ports(), d)
	if err != nil || len(losses) != 1 || losses[0].Field != "context" {
		t.Errorf("losses %v, error %v", losses, err)
	}
}

func TestRenderFailsWithoutEvidence(t *testing.T) {
	kept := archive{err: &federation.UnavailableError{What: "record", Err: errors.New("disk full")}}
	d := delivery(t, federation.HandoffTags, "#ops")
	d.View = federation.View{Dialect: federation.ActTags, Venue: "#ops"}
	_, _, err := irc.Render(t.Context(), kept.ports(), d)
	if _, notNow := errors.AsType[*federation.UnavailableError](err); !notNow {
		t.Errorf("error %v", err)
	}
}

func TestRenderShowsStepsOfTheHomeAsItsOwn(t *testing.T) {
	server := key("server")
	server.DID = home.DID()
	var kept archive
	ports := kept.ports()
	ports.Signer = bridgetest.Signer(func(string) federation.SigningKey { return server })
	d := delivery(t, federation.HandoffTags, "#ops")
	d.Entry.Event.Verb, d.Entry.Event.From, d.Entry.Event.Note = federation.Expire, home.DID(), ""
	d.View = federation.View{Dialect: federation.ActTags, Venue: "#dev"}
	got, _, err := irc.Render(t.Context(), ports, d)
	if err != nil {
		t.Fatal(err)
	}
	if got.From != home.DID() || got.For != "" || got.Provenance != federation.Signed || got.ID != d.Entry.Event.ID || len(kept.kept) != 0 {
		t.Errorf("%s step of %s for %q, with evidence %v", got.Provenance, got.From, got.For, kept.kept)
	}
	if _, verdict, err := signing.Verify(t.Context(), keySource{server}, got); verdict != federation.Valid {
		t.Errorf("verdict %v, error %v", verdict, err)
	}
}

// A rendition has a context whole or by reference, whatever its size and in either dialect, and is
// the same each time.
func TestRenderRefersToALargeContext(t *testing.T) {
	for _, tags := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		references := 0
		for size := 5; size < 4000; size += 97 {
			record := storetest.Open(t)
			kept := archive{contexts: bridgetest.Contexts(record, 1<<20, 0)}
			d := delivery(t, tags, "#ops")
			content := `["` + strings.Repeat(" ", size-4) + `"]`
			ev := d.Entry.Event
			ev.Context = content
			ev.Fields[contextTag(tags)] = content
			ev, err := signing.Seal(t.Context(), key("bob"), ev)
			if err != nil {
				t.Fatal(err)
			}
			opened := federationtest.Offer(1, ev.From, eliza)
			opened.ID, opened.Handoff = ev.Handoff, ev.Handoff
			if _, err := record.Append(t.Context(), federationtest.File(opened, federation.View{})); err != nil {
				t.Fatal(err)
			}
			d.Entry.Event = ev
			for _, view := range []federation.View{{Dialect: tags, Venue: "#ops"}, {Dialect: tags, Venue: "#dev"}} {
				d.View = view
				got, losses, err := irc.Render(t.Context(), kept.ports(), d)
				again, _, _ := irc.Render(t.Context(), kept.ports(), d)
				if err != nil || len(losses) > 0 || translate.TagBytes(got.Fields) > irc.MaxTagBytes || !cmp.Equal(got, again) {
					t.Fatalf("%s, %d bytes for %s: %d bytes of tags, losses %v, error %v", tags, size, view.Venue, translate.TagBytes(got.Fields), losses, err)
				}
				if got.Context == content {
					continue
				}
				references++
				blob, err := record.Blob(t.Context(), federation.CapabilityIn(got.Context), time.Now())
				if err != nil || string(blob.Content) != content || blob.Hash() != got.ContextHash || got.Fields[contextTag(tags)] != got.Context {
					t.Fatalf("%s, %d bytes for %s: refers to %q, %v", tags, size, view.Venue, got.Context, err)
				}
			}
		}
		if references == 0 {
			t.Errorf("%s: nothing is referred to", tags)
		}
	}
}

func contextTag(d federation.Dialect) string {
	if d == federation.ActTags {
		return "act-ctx"
	}
	return "handoff-context"
}

// A title of 300 characters has up to 1,200 bytes, and IRC has space for 300: the context has the rest.
func TestRenderCutsATitleThatIRCHasNoSpaceFor(t *testing.T) {
	title := strings.Repeat("語", translate.MaxTitleChars)
	record := storetest.Open(t)
	kept := archive{contexts: bridgetest.Contexts(record, 1<<20, 0)}
	d := delivery(t, federation.HandoffTags, "#ops")
	ev := d.Entry.Event
	ev.Verb, ev.ID, ev.Title, ev.Context, ev.Note = federation.Offer, ev.Handoff, title, `{"a":1}`, ""
	ev.Fields, _ = dialect.Write(ev)
	ev, err := signing.Seal(t.Context(), key("bob"), ev)
	if err != nil {
		t.Fatal(err)
	}
	d.Entry.Event, d.View = ev, federation.View{Dialect: federation.HandoffTags, Venue: "#ops"}
	got, losses, err := irc.Render(t.Context(), kept.ports(), d)
	want := strings.Repeat("語", 100)
	if err != nil || got.Title != want || got.Fields["handoff-task"] != want || got.Context != `{"a":1,"description":"`+title+`"}` || !federation.Loses(losses, "title") {
		t.Errorf("title %q, context %s, losses %v, %v", got.Title, got.Context, losses, err)
	}
	m := translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: translate.Wire(got, nil)}
	if read, err := irc.Decode(m); err != nil || read.Title != want {
		t.Errorf("a link reads %q, %v", read.Title, err)
	}
	m.Tags = translate.Wire(ev, nil)
	if _, err := irc.Decode(m); err == nil || !strings.Contains(err.Error(), "300 bytes") {
		t.Errorf("a title of 900 bytes is read: %v", err)
	}
}

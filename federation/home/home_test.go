package home_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// person is a signer: a DID and its one key.
type person struct {
	did federation.DID
	key federation.SigningKey
}

func newPerson(name string) person {
	did := federation.DID("did:example:" + name)
	return person{did: did, key: federationtest.Signer(did)}
}

// keys has the keys of all signers but strangers.
type keys map[federation.DID]ed25519.PublicKey

func (k keys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, ok := k[q.DID]; ok {
		return []ed25519.PublicKey{key}, nil
	}
	return nil, &federation.UnavailableError{What: "directory", Err: context.DeadlineExceeded}
}

func (k keys) KeyOwner(_ context.Context, id string) (federation.DID, error) {
	for did, key := range k {
		if federation.KeyID(key) == id {
			return did, nil
		}
	}
	return "", federation.ErrNotFound
}

type routes []string

func (r routes) Route(context.Context, federation.Event, federation.View) (federation.Fanout, error) {
	return federation.Fanout{Links: r}, nil
}

type declared map[federation.DID][]string

func (d declared) Declared(_ context.Context, did federation.DID) ([]string, error) {
	return d[did], nil
}

// bench is a home over a record, with three people.
type bench struct {
	t                 *testing.T
	home              *home.Home
	record            *registry.Record
	dir               string // of the record
	alice, bob, carol person
	now               time.Time
}

func newBench(t *testing.T) bench {
	t.Helper()
	dir := storetest.TempDir(t)
	b := bench{
		t: t, dir: dir,
		record: storetest.OpenIn(t, dir), now: federationtest.At(0),
		alice: newPerson("alice"), bob: newPerson("bob"), carol: newPerson("carol"),
	}
	known := keys{}
	for _, p := range []person{b.alice, b.bob, b.carol} {
		known[p.did] = p.key.Public
	}
	server := newPerson("server")
	known["did:web:gw.example"] = server.key.Public
	b.home = &home.Home{
		Rules: home.Rules{
			ID: "gw.example", Kinds: lifecycle.Shipped(), TagPrefix: "+freeq.at/",
			Limits: home.Limits{ClockSkew: 2 * time.Minute, MaxDeadline: 24 * time.Hour, Unanswered: 168 * time.Hour, Abandoned: 72 * time.Hour},
		},
		Key: server.key, Record: b.record, Keys: known,
		Same:  func(_ context.Context, a, b federation.DID) (bool, error) { return a == b+":own" || b == a+":own", nil },
		Route: routes{"lab", "airc"}.Route, Declared: declared{b.bob.did: {"go", "review"}}.Declared, Rates: home.NewRates(), Entropy: rand.Reader,
		Write: dialect.Write, Read: dialect.Read,
	}
	return b
}

// step returns the n-th step, signed: an offer opens, the rest answer the first.
func (b bench) step(n int, by person, verb federation.Verb, change ...func(*federation.Event)) federation.Event {
	b.t.Helper()
	ev := federation.Event{
		ID: federationtest.ID(n), Handoff: federationtest.ID(1), Kind: federation.Handoff, Verb: verb, From: by.did,
		Venue: "#ops", Dialect: federation.HandoffTags, Provenance: federation.Signed,
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Name: "nick", Received: b.now},
	}
	if verb == federation.Offer {
		ev.Handoff, ev.To, ev.Title = ev.ID, b.bob.did, "Review it"
	}
	return by.seal(b.t, ev, change...)
}

func (p person) seal(t *testing.T, ev federation.Event, change ...func(*federation.Event)) federation.Event {
	t.Helper()
	for _, c := range change {
		c(&ev)
	}
	ev.Fields, _ = dialect.Write(ev)
	sealed, err := signing.Seal(t.Context(), p.key, ev)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func (b bench) file(steps ...federation.Event) {
	b.t.Helper()
	for _, ev := range steps {
		if _, err := b.home.Submit(b.t.Context(), ev, b.now); err != nil {
			b.t.Fatalf("%s: %v", ev.Verb, err)
		}
	}
}

func TestSubmitTakesAHandoffToCompletion(t *testing.T) {
	b := newBench(t)
	var states []federation.State
	for _, ev := range []federation.Event{
		b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept),
		b.step(3, b.bob, federation.Progress), b.step(4, b.bob, federation.Complete),
	} {
		judged, err := b.home.Submit(t.Context(), ev, b.now)
		if err != nil || judged.Verdict != federation.Valid || judged.Duplicate {
			t.Fatalf("%s: %+v, %v", ev.Verb, judged, err)
		}
		states = append(states, judged.Entry.State)
		if diff := cmp.Diff([]string{"lab", "airc"}, judged.Fanout.Links); diff != "" {
			t.Errorf("feeds (-want +got):\n%s", diff)
		}
	}
	want := []federation.State{federation.Offered, federation.Assigned, federation.Assigned, federation.Completed}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	for did, want := range map[federation.DID]int{b.alice.did: 3, b.bob.did: 1, b.carol.did: 0} {
		inbox, err := b.record.Replay(t.Context(), did, "", 10)
		if err != nil || len(inbox) != want {
			t.Errorf("inbox of %s holds %d steps (%v), want %d", did, len(inbox), err, want)
		}
	}
}

func TestSubmitRefusesWithCodes(t *testing.T) {
	stranger, mallory := newPerson("stranger"), newPerson("mallory")
	offer := func(b bench) { b.file(b.step(1, b.alice, federation.Offer)) }
	accepted := func(b bench) { offer(b); b.file(b.step(2, b.bob, federation.Accept)) }
	completed := func(b bench) { accepted(b); b.file(b.step(3, b.bob, federation.Complete)) }
	nothing := func(bench) {}
	for name, test := range map[string]struct {
		before  func(bench)
		step    func(bench) federation.Event
		code    federation.RefusalCode
		verdict federation.Verdict
	}{
		"no signer": {nothing, func(b bench) federation.Event {
			ev := b.step(1, b.alice, federation.Offer)
			ev.From = ""
			return ev
		}, federation.MissingRequirement, federation.Unverifiable},
		"no signature": {nothing, func(b bench) federation.Event {
			ev := b.step(1, b.alice, federation.Offer)
			ev.Signature = federation.Signature{}
			return ev
		}, federation.NeedSignature, federation.Unverifiable},
		"a forged signature": {nothing, func(b bench) federation.Event {
			ev := b.step(1, b.alice, federation.Offer)
			ev.Fields["handoff-note"] = "changed"
			return ev
		}, federation.SignatureInvalid, federation.Invalid},
		"a key that nobody here knows": {nothing, func(b bench) federation.Event {
			return b.step(1, stranger, federation.Offer)
		}, federation.SignatureUnverifiable, federation.Unverifiable},
		"a from that is not the signer's": {nothing, func(b bench) federation.Event {
			impostor := person{did: b.alice.did, key: b.carol.key}
			return b.step(1, impostor, federation.Offer)
		}, federation.ActorMismatch, federation.Invalid},
		"a signer with a key of nobody": {nothing, func(b bench) federation.Event {
			return b.step(1, person{did: b.alice.did, key: mallory.key}, federation.Offer)
		}, federation.SignatureUnverifiable, federation.Unverifiable},
		"an id from tomorrow": {nothing, func(b bench) federation.Event {
			return b.step(86400, b.alice, federation.Offer)
		}, federation.EventIDClockSkew, federation.Valid},
		"an id of other bytes": {offer, func(b bench) federation.Event {
			return b.step(1, b.alice, federation.Offer, func(ev *federation.Event) { ev.Note = "other" })
		}, federation.EventIDInUse, federation.Valid},
		"a handoff id of somebody else": {offer, func(b bench) federation.Event {
			return b.step(1, b.carol, federation.Offer)
		}, federation.EventIDInUse, federation.Valid},
		"a deadline too far off": {nothing, func(b bench) federation.Event {
			return b.step(1, b.alice, federation.Offer, func(ev *federation.Event) { ev.Deadline = b.now.Add(25 * time.Hour) })
		}, federation.InvalidTag, federation.Valid},
		"a handoff that nobody knows": {nothing, func(b bench) federation.Event {
			return b.step(2, b.bob, federation.Accept)
		}, federation.UnknownHandoff, federation.Valid},
		"another venue": {offer, func(b bench) federation.Event {
			return b.step(2, b.bob, federation.Accept, func(ev *federation.Event) { ev.Venue = "#elsewhere" })
		}, federation.WrongVenue, federation.Valid},
		"an accept by the wrong DID": {offer, func(b bench) federation.Event {
			return b.step(2, b.carol, federation.Accept)
		}, federation.WrongSender, federation.Valid},
		"standing for another without a voucher": {offer, func(b bench) federation.Event {
			return b.step(2, b.carol, federation.Accept, func(ev *federation.Event) { ev.For = b.bob.did })
		}, federation.InvalidTag, federation.Unverifiable},
		"progress before an accept": {offer, func(b bench) federation.Event {
			return b.step(2, b.bob, federation.Progress)
		}, federation.IllegalStep, federation.Valid},
		"a second accept": {accepted, func(b bench) federation.Event {
			return b.step(3, b.bob, federation.Accept)
		}, federation.IllegalStep, federation.Valid},
		"a cancel after the accept": {accepted, func(b bench) federation.Event {
			return b.step(3, b.alice, federation.Cancel)
		}, federation.IllegalStep, federation.Valid},
		"a step after the end": {completed, func(b bench) federation.Event {
			return b.step(4, b.bob, federation.Progress)
		}, federation.TerminalHandoff, federation.Valid},
		"an expiry by a person": {offer, func(b bench) federation.Event {
			return b.step(2, b.alice, federation.Expire)
		}, federation.WrongSender, federation.Valid},
		"an answer to a step of another handoff": {
			func(b bench) { offer(b); b.file(b.step(5, b.alice, federation.Offer)) },
			func(b bench) federation.Event {
				return b.step(2, b.bob, federation.Accept, func(ev *federation.Event) { ev.ReplyTo = federationtest.ID(5).String() })
			}, federation.WrongReference, federation.Valid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			test.before(b)
			ev := test.step(b)
			before, err := b.record.View(t.Context(), ev.Handoff)
			if err != nil {
				t.Fatal(err)
			}
			judged, err := b.home.Submit(t.Context(), ev, b.now)
			refused, ok := errors.AsType[*federation.RefusalError](err)
			if !ok || refused.Code != test.code || judged.Verdict != test.verdict {
				t.Errorf("verdict %v, error %v; want %v, %s", judged.Verdict, err, test.verdict, test.code)
			}
			after, err := b.record.View(t.Context(), ev.Handoff)
			if diff := cmp.Diff(before, after); diff != "" || err != nil {
				t.Errorf("something was filed (%v):\n%s", err, diff)
			}
		})
	}
}

func TestSubmitAnswersARepeatedStepAlike(t *testing.T) {
	b := newBench(t)
	offer := b.step(1, b.alice, federation.Offer)
	b.file(offer, b.step(2, b.bob, federation.Accept))
	judged, err := b.home.Submit(t.Context(), offer, b.now.Add(time.Hour)) // also when its id is old by now
	if err != nil || !judged.Duplicate || judged.Entry.Version != 1 || judged.Entry.State != federation.Offered {
		t.Errorf("judged %+v, %v; want the first entry", judged, err)
	}
	if judged.View.State != federation.Assigned {
		t.Errorf("view %s, want the handoff as it stands", judged.View.State)
	}
}

func TestSubmitMintsAStableID(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer))
	bare := unstamped(t, b.bob, b.step(2, b.bob, federation.Accept))
	first, err := b.home.Submit(t.Context(), bare, b.now)
	if err != nil || first.Entry.Event.ID.IsZero() {
		t.Fatal(first, err)
	}
	again, err := b.home.Submit(t.Context(), bare, b.now)
	if err != nil || !again.Duplicate || again.Entry.Event.ID != first.Entry.Event.ID {
		t.Errorf("the same bytes became %s and %s (%v)", first.Entry.Event.ID, again.Entry.Event.ID, err)
	}
}

// unstamped signs a step anew without its event id.
func unstamped(t *testing.T, by person, ev federation.Event) federation.Event {
	t.Helper()
	ev.ID, ev.Stamped = federation.EventID{}, false
	document, err := signing.Document(ev)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := by.key.Sign(t.Context(), []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	text := ev.Signature.Text
	ev.Signature = federation.Signature{Text: text[:strings.LastIndex(text, ":")+1] + encode(sig)}
	return ev
}

func TestSubmitAcceptsAnswersWithinTheClockSkew(t *testing.T) {
	for seconds, want := range map[int]federation.RefusalCode{100: "", 220: "", 221: federation.DeadlinePassed} {
		b := newBench(t)
		b.file(b.step(1, b.alice, federation.Offer, func(ev *federation.Event) { ev.Deadline = federationtest.At(100) }))
		b.now = federationtest.At(seconds)
		_, err := b.home.Submit(t.Context(), b.step(seconds, b.bob, federation.Accept), b.now)
		refused, _ := errors.AsType[*federation.RefusalError](err)
		if refused == nil && want != "" || refused != nil && refused.Code != want {
			t.Errorf("an accept after %d s: %v, want %q", seconds, err, want)
		}
	}
}

func TestSubmitLetsOneClaimWin(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, func(ev *federation.Event) { ev.To = "" }))
	known, _ := b.home.Keys.(keys)
	claims := make([]federation.Event, 50)
	for i := range claims {
		claimant := newPerson(strings.Repeat("x", i+1))
		known[claimant.did] = claimant.key.Public
		claims[i] = b.step(i+2, claimant, federation.Claim)
	}
	errs := make([]error, len(claims))
	var group sync.WaitGroup
	for i, claim := range claims {
		group.Go(func() { _, errs[i] = b.home.Submit(t.Context(), claim, b.now) })
	}
	group.Wait()
	view, err := b.record.View(t.Context(), federationtest.ID(1))
	if err != nil || view.State != federation.Assigned || view.Version != 2 {
		t.Fatalf("view %+v, %v", view, err)
	}
	for i, err := range errs {
		if claims[i].From == view.Assignee {
			if err != nil {
				t.Errorf("the winner was told %v", err)
			}
			continue
		}
		refused, ok := errors.AsType[*federation.RefusalError](err)
		if !ok || refused.Code != federation.IllegalStep || !strings.Contains(refused.Sentence(), string(view.Assignee)) {
			t.Errorf("a loser was told %v", err)
		}
	}
}

func TestSubmitReturnsUnavailableWithoutItsRecord(t *testing.T) {
	b := newBench(t)
	ev := b.step(1, b.alice, federation.Offer)
	b.home.Record = away{b.record}
	_, err := b.home.Submit(t.Context(), ev, b.now)
	if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
		t.Errorf("error %v, want unavailable", err)
	}
	if _, ok := errors.AsType[*federation.RefusalError](err); ok {
		t.Errorf("an outage became a refusal: %v", err)
	}
}

// away is a record with a full disk.
type away struct{ home.Record }

func (away) Append(context.Context, federation.Filing) (federation.Entry, error) {
	return federation.Entry{}, &federation.UnavailableError{What: "record", Err: errors.New("no space left")}
}

func encode(sig []byte) string { return base64.RawURLEncoding.EncodeToString(sig) }

// A record that cannot be read is no reason to refuse a step of another DID of an agent.
func TestSubmitRefusesNothingDuringAnOutage(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, func(ev *federation.Event) { ev.To = b.bob.did }))
	away := errors.New("the record is away")
	b.home.Same = func(context.Context, federation.DID, federation.DID) (bool, error) { return false, away }
	b.home.Policy.Rules = []home.Rule{{Senders: []federation.DID{b.bob.did}, Require: home.RequireSigned}}
	for name, step := range map[string]federation.Event{
		"a step of a party":      b.step(2, b.carol, federation.Accept, func(ev *federation.Event) { ev.Handoff = federationtest.ID(1) }),
		"an offer with a policy": b.step(3, b.carol, federation.Offer),
		"a vouched offer":        b.step(4, b.carol, federation.Offer, func(ev *federation.Event) { ev.For, ev.Provenance = b.alice.did, federation.Vouched }),
	} {
		if _, err := b.home.Submit(t.Context(), step, b.now); !errors.Is(err, away) || codeOf(err) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

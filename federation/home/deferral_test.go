package home_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// directory has everybody's key, and may be away for some.
type directory struct {
	mu    sync.Mutex
	away  map[federation.DID]bool
	asked map[federation.DID]int
}

func (d *directory) set(away bool, people ...person) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range people {
		d.away[p.did] = away
	}
}

func (d *directory) askedFor(p person) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[p.did]
}

func (d *directory) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[q.DID]++
	if d.away[q.DID] {
		return nil, &federation.UnavailableError{What: "directory", Err: context.DeadlineExceeded}
	}
	return []ed25519.PublicKey{newPerson(strings.TrimPrefix(string(q.DID), "did:example:")).key.Public}, nil
}

func (*directory) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

type deferralBench struct {
	t                 *testing.T
	home              *home.Home
	record            *registry.Record
	directory         *directory
	alice, bob, carol person

	mu    sync.Mutex
	ended []home.DeferralEnd
	deaf  error // why no signer can be told
}

func newDeferralBench(t *testing.T, record *registry.Record) *deferralBench {
	t.Helper()
	b := &deferralBench{
		t: t, record: record,
		directory: &directory{away: map[federation.DID]bool{}, asked: map[federation.DID]int{}},
		alice:     newPerson("alice"), bob: newPerson("bob"), carol: newPerson("carol"),
	}
	b.home = &home.Home{
		Rules: home.Rules{
			ID: "gw.example", Kinds: lifecycle.Shipped(),
			Limits: home.Limits{
				ClockSkew: 2 * time.Minute, Unanswered: 168 * time.Hour, Abandoned: 72 * time.Hour,
				Deferred: federation.DeferralLimits{PerOrigin: 256, Total: 4096},
			},
		},
		Key: newPerson("server").key, Record: record, Keys: b.directory,
		Same:  func(context.Context, federation.DID, federation.DID) (bool, error) { return false, nil },
		Write: dialect.Write, Read: dialect.Read,
		Rates: home.NewRates(), Entropy: rand.Reader,
	}
	b.restart()
	return b
}

func (b *deferralBench) restart() {
	b.home.Deferral = home.NewDeferral(home.DeferralConfig{
		Record: b.record,
		Ended: func(_ context.Context, r home.DeferralEnd) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.deaf == nil {
				b.ended = append(b.ended, r)
			}
			return b.deaf
		},
	})
}

// step returns a step of a handoff as it comes in from a link: an offer opens it.
func (b *deferralBench) step(n int, of federation.HandoffID, by person, verb federation.Verb, change ...func(*federation.Event)) federation.Event {
	b.t.Helper()
	ev := federation.Event{
		ID: federationtest.ID(n), Handoff: of, Kind: federation.Handoff, Verb: verb, From: by.did,
		Venue: "#ops", Dialect: federation.HandoffTags, Provenance: federation.Signed,
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Name: "nick", Received: federationtest.At(n)},
	}
	if verb == federation.Offer {
		ev.ID, ev.To, ev.Title = of, b.bob.did, "Review it"
	}
	return by.seal(b.t, ev, change...)
}

// submit hands in a step and returns the answer to its sender, and whether it is deferred.
func (b *deferralBench) submit(ev federation.Event, now time.Time) (code federation.RefusalCode, waits bool) {
	b.t.Helper()
	judged, err := b.home.Submit(b.t.Context(), ev, now)
	refused, ok := errors.AsType[*federation.RefusalError](err)
	switch {
	case ok:
		if refused.Waits && judged.Entry.Event.ID.IsZero() {
			b.t.Errorf("the %s that waits has no id", ev.Verb)
		}
		return refused.Code, refused.Waits
	case err != nil:
		b.t.Fatalf("Submit(%s): %v", ev.Verb, err)
	}
	return "", false
}

func (b *deferralBench) mustWait(now time.Time, steps ...federation.Event) {
	b.t.Helper()
	for _, ev := range steps {
		if code, waits := b.submit(ev, now); !waits || code != federation.SignatureUnverifiable {
			b.t.Errorf("%s by %s: %q, waits %v, want it to wait", ev.Verb, ev.From, code, waits)
		}
	}
}

// retry judges again until nothing is due.
func (b *deferralBench) retry(now time.Time) {
	b.t.Helper()
	for more := true; more; {
		var err error
		if more, err = b.home.Retry(b.t.Context(), now); err != nil {
			b.t.Fatalf("Retry: %v", err)
		}
	}
}

func (b *deferralBench) log(id federation.HandoffID) []federation.Verb {
	b.t.Helper()
	var verbs []federation.Verb
	for entry, err := range b.record.Log(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		verbs = append(verbs, entry.Event.Verb)
	}
	return verbs
}

func (b *deferralBench) outcomes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, r := range b.ended {
		outcome := "filed"
		switch {
		case r.Expired:
			outcome = "expired"
		case r.Refused != nil:
			outcome = string(r.Refused.Code)
		}
		all = append(all, fmt.Sprintf("%s %s", r.Step.Event.Verb, outcome))
	}
	return all
}

func (b *deferralBench) wantWaiting(want int) {
	b.t.Helper()
	counts, err := b.record.CountDeferred(b.t.Context())
	if err != nil || counts["spanningtree"] != want {
		b.t.Errorf("%v wait (%v), want %d", counts, err, want)
	}
}

func whole() []federation.Verb {
	return []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Complete}
}

func TestDeferralFilesInOrderAfterAnOutage(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	b.directory.set(true, b.alice, b.bob)
	for i, verb := range whole() {
		by := b.bob
		if verb == federation.Offer {
			by = b.alice
		}
		b.mustWait(federationtest.At(i+1), b.step(i+1, id, by, verb))
	}
	b.wantWaiting(4)
	for seconds := 60; seconds < 3600; seconds += 60 {
		b.retry(federationtest.At(seconds))
	}
	if got := b.log(id); len(got) != 0 {
		t.Fatalf("filed without a verdict: %v", got)
	}
	if asked := b.directory.askedFor(b.alice); asked > 15 {
		t.Errorf("the directory was asked %d times in an hour", asked)
	}
	b.restart()
	b.directory.set(false, b.alice, b.bob)
	for seconds := 3600; seconds <= 4200; seconds += 60 { // the longest wait is ten minutes
		b.retry(federationtest.At(seconds))
	}
	if diff := cmp.Diff(whole(), b.log(id)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"offer filed", "accept filed", "progress filed", "complete filed"}, b.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	b.wantWaiting(0)
}

func TestDeferralEndsWhenAKeyIsLearned(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	b.directory.set(true, b.alice)
	b.mustWait(federationtest.At(1), b.step(1, id, b.alice, federation.Offer))
	b.directory.set(false, b.alice)
	b.retry(federationtest.At(2))
	b.wantWaiting(1)
	b.home.Deferral.Learned(b.alice.did)
	b.retry(federationtest.At(3))
	b.wantWaiting(0)
	if len(b.log(id)) != 1 {
		t.Error("the offer is not on file")
	}
}

func TestDeferralKeepsStepsBehindTheirPredecessor(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	b.directory.set(true, b.alice)
	b.mustWait(federationtest.At(1), b.step(1, id, b.alice, federation.Offer))
	b.mustWait(federationtest.At(2), b.step(2, id, b.bob, federation.Accept), b.step(3, id, b.bob, federation.Complete))
	b.directory.set(false, b.alice)
	b.home.Deferral.Learned(b.alice.did)
	b.retry(federationtest.At(60))
	if diff := cmp.Diff([]federation.Verb{federation.Offer, federation.Accept, federation.Complete}, b.log(id)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestDeferralKeepsTheOrderOfASigner(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	if code, _ := b.submit(b.step(1, id, b.alice, federation.Offer), federationtest.At(1)); code != "" {
		t.Fatal(code)
	}
	b.directory.set(true, b.bob)
	b.mustWait(federationtest.At(2), b.step(2, id, b.bob, federation.Accept))
	b.directory.set(false, b.bob)
	if code, _ := b.submit(b.step(3, id, b.bob, federation.Progress), federationtest.At(3)); code != "" {
		t.Errorf("the second step is refused: %s", code)
	}
	if diff := cmp.Diff([]federation.Verb{federation.Offer, federation.Accept, federation.Progress}, b.log(id)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	b.wantWaiting(0)
}

func TestDeferralOfAStrangerStopsNoHandoff(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	if code, _ := b.submit(b.step(1, id, b.alice, federation.Offer), federationtest.At(1)); code != "" {
		t.Fatal(code)
	}
	forged := b.step(2, id, person{did: b.bob.did, key: newPerson("mallory").key}, federation.Accept)
	b.mustWait(federationtest.At(2), forged)
	for i, verb := range []federation.Verb{federation.Accept, federation.Complete} {
		if code, _ := b.submit(b.step(3+i, id, b.bob, verb), federationtest.At(3+i)); code != "" {
			t.Errorf("%s: %s", verb, code)
		}
	}
	b.retry(federationtest.At(0).Add(home.DeferralTime + time.Hour))
	if diff := cmp.Diff([]string{"accept expired"}, b.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestDeferralExpiresAndNotifiesOnce(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	b.directory.set(true, b.alice)
	b.mustWait(federationtest.At(1), b.step(1, id, b.alice, federation.Offer))
	b.mustWait(federationtest.At(2), b.step(2, id, b.bob, federation.Accept))
	b.deaf = errors.New("nobody is there")
	over := federationtest.At(2).Add(home.DeferralTime)
	if _, err := b.home.Retry(t.Context(), over); err == nil {
		t.Error("no error, though nobody was told")
	}
	b.wantWaiting(2)
	b.deaf = nil
	b.retry(over.Add(time.Hour))
	if diff := cmp.Diff([]string{"offer expired", "accept unknown-handoff"}, b.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	b.wantWaiting(0)
}

func TestDeferralRefusesAForgeryOnceTheKeyIsKnown(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	b.directory.set(true, b.alice)
	forged := b.step(1, id, b.alice, federation.Offer)
	forged.Fields["handoff-task"] = "Something else"
	b.mustWait(federationtest.At(1), forged, b.step(1, id, b.alice, federation.Offer))
	b.directory.set(false, b.alice)
	b.retry(federationtest.At(60))
	if diff := cmp.Diff([]string{"offer signature-invalid", "offer filed"}, b.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestDeferralFloodOfOneOriginHarmsNoOther(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	b.home.Limits.EventsPerMinute = 0
	mallory := newPerson("mallory")
	b.directory.set(true, mallory, b.alice)
	kept, refused := 0, 0
	flood := func(ev *federation.Event) { ev.Arrival.Link = "evil" }
	for n := range 10_000 {
		code, waits := b.submit(b.step(n, federationtest.ID(n), mallory, federation.Offer, flood), federationtest.At(n))
		switch {
		case waits:
			kept++
		case code == federation.SignatureUnverifiable:
			refused++
		default:
			t.Fatalf("step %d: %q", n, code)
		}
	}
	if kept != 256 || refused != 9744 {
		t.Errorf("%d wait and %d were refused, want 256 and 9744", kept, refused)
	}
	at := 20_000
	b.mustWait(federationtest.At(at), b.step(at, federationtest.ID(at), b.alice, federation.Offer))
	if code, _ := b.submit(b.step(at+1, federationtest.ID(at+1), b.carol, federation.Offer), federationtest.At(at+1)); code != "" {
		t.Errorf("somebody else's offer: %s", code)
	}
	before := b.directory.askedFor(mallory)
	b.restart()
	b.directory.set(false, b.alice)
	b.retry(federationtest.At(at + 60))
	if len(b.log(federationtest.ID(at))) != 1 {
		t.Error("the offer of another origin still waits")
	}
	if asked := b.directory.askedFor(mallory) - before; asked > 16 {
		t.Errorf("a directory that is away was asked %d times in one retry", asked)
	}
}

func TestDeferralJudgesByTheTimeOfArrival(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	b.directory.set(true, b.alice)
	if code, waits := b.submit(b.step(1, federationtest.ID(1), b.alice, federation.Offer), federationtest.At(600)); waits || code != federation.EventIDClockSkew {
		t.Errorf("an id ten minutes old: %q, waits %v", code, waits)
	}
	bare := b.step(2, federationtest.ID(2), b.alice, federation.Offer)
	bare.ID, bare.Stamped = federation.EventID{}, false
	document, err := signing.Document(bare)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := b.alice.key.Sign(t.Context(), []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	bare.Signature.Text = signing.HandoffStep().Encoding.Write(federation.KeyID(b.alice.key.Public), sig)
	b.mustWait(federationtest.At(2), bare, bare)
	b.wantWaiting(1)
	b.directory.set(false, b.alice)
	b.retry(federationtest.At(7200))
	if diff := cmp.Diff([]string{"offer filed"}, b.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestDeferralBacklogKeepsTheRateOfItsSigner(t *testing.T) {
	b, id := newDeferralBench(t, storetest.Open(t)), federationtest.ID(1)
	b.home.Limits.EventsPerMinute = 2
	if code, _ := b.submit(b.step(1, id, b.alice, federation.Offer), federationtest.At(1)); code != "" {
		t.Fatal(code)
	}
	b.directory.set(true, b.bob)
	for i, verb := range []federation.Verb{federation.Accept, federation.Progress, federation.Progress, federation.Complete} {
		b.mustWait(federationtest.At(i+2), b.step(i+2, id, b.bob, verb))
	}
	b.directory.set(false, b.bob)
	for seconds := 60; seconds < 600; seconds += 10 {
		b.retry(federationtest.At(seconds))
	}
	want := []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Progress, federation.Complete}
	if diff := cmp.Diff(want, b.log(id)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestDeferralRefusesUncheckableSignatures(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	b.directory.set(true, b.alice)
	for _, text := range []string{"rsa:k:AAAA", "ed25519:k:AAAA"} {
		ev := b.step(1, federationtest.ID(1), b.alice, federation.Offer)
		ev.Signature = federation.Signature{Text: text}
		if code, waits := b.submit(ev, federationtest.At(1)); waits || code != federation.SignatureUnverifiable {
			t.Errorf("%q: %s, waits %v", text, code, waits)
		}
	}
}

// Links and key sources go away and come back in any order: in the end every deferred step
// has one outcome, and filed steps are in the order of their arrival.
func TestDeferralEndsEachStepOnce(t *testing.T) {
	id := federationtest.ID(1)
	rapid.Check(t, func(rt *rapid.T) {
		b := newDeferralBench(t, storetest.Open(t))
		defer b.record.Close()
		now, waited := 0, map[federation.EventID]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "moves") {
			now += rapid.IntRange(1, 100).Draw(rt, "seconds")
			switch rapid.IntRange(0, 3).Draw(rt, "move") {
			case 0:
				b.directory.set(rapid.Bool().Draw(rt, "away"), rapid.SampledFrom([]person{b.alice, b.bob}).Draw(rt, "who"))
			case 1:
				b.retry(federationtest.At(now))
			default:
				verb := rapid.SampledFrom(whole()).Draw(rt, "verb")
				by := b.bob
				if verb == federation.Offer {
					by = b.alice
				}
				ev := b.step(now, id, by, verb)
				if _, waits := b.submit(ev, federationtest.At(now)); waits {
					waited[ev.ID] = true
				}
			}
		}
		b.directory.set(false, b.alice, b.bob)
		for hour := range 26 {
			b.retry(federationtest.At(now).Add(time.Duration(hour) * time.Hour))
		}
		b.wantWaiting(0)
		for _, r := range b.ended {
			if !waited[r.Step.Event.ID] {
				rt.Fatalf("%s ended, and again", r.Step.Event.Verb)
			}
			delete(waited, r.Step.Event.ID)
		}
		if len(waited) > 0 {
			rt.Fatalf("%d steps have no end", len(waited))
		}
		if got := b.log(id); !slices.IsSortedFunc(got, func(a, c federation.Verb) int { return slices.Index(whole(), a) - slices.Index(whole(), c) }) {
			rt.Fatalf("filed as %v", got)
		}
	})
}

// punctualDeferrals is a record that keeps nothing for a caller that left.
type punctualDeferrals struct{ home.Record }

func (p punctualDeferrals) Defer(ctx context.Context, step federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error) {
	if ctx.Err() != nil {
		return federation.Deferred{}, context.Cause(ctx)
	}
	return p.Record.Defer(ctx, step, limits)
}

type cutOff struct {
	*directory

	leave context.CancelFunc
}

func (c cutOff) Keys(ctx context.Context, _ federation.KeyQuery) ([]ed25519.PublicKey, error) {
	c.leave()
	return nil, &federation.UnavailableError{What: "directory", Err: context.Cause(ctx)}
}

func TestDeferralKeepsAStepWhoseLinkEnds(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	b.home.Keys = cutOff{b.directory, leave}
	b.home.Deferral = home.NewDeferral(home.DeferralConfig{Record: punctualDeferrals{b.record}})
	offer := b.step(1, federationtest.ID(1), b.alice, federation.Offer)
	_, _ = b.home.Submit(ctx, offer, federationtest.At(1)) // the signer has no connection
	waiting, err := b.record.DeferredIn(t.Context(), offer.Handoff)
	if err != nil || len(waiting) != 1 {
		t.Errorf("%d steps wait, %v; want the one", len(waiting), err)
	}
}

func TestRetryLooksUpOnlyDueSteps(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	var sought []federation.DID
	b.home.Deferral = home.NewDeferral(home.DeferralConfig{
		Record: b.record,
		Seek:   func(_ context.Context, ev federation.Event) { sought = append(sought, ev.From) },
		Ended:  func(context.Context, home.DeferralEnd) error { return nil },
	})
	b.directory.set(true, b.alice)
	b.mustWait(federationtest.At(1), b.step(1, federationtest.ID(1), b.alice, federation.Offer))
	if sought != nil {
		t.Errorf("%v are looked up for a step that has just come in, want that its caller does that", sought)
	}
	b.retry(federationtest.At(1).Add(time.Second))
	if sought != nil {
		t.Errorf("%v are looked up before the step is due", sought)
	}
	b.retry(federationtest.At(1).Add(time.Hour))
	if diff := cmp.Diff([]federation.DID{b.alice.did}, sought); diff != "" {
		t.Errorf("looked up (-want +got):\n%s", diff)
	}
}

package relay_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// restored puts a home with an older copy of the record in the place of another one: it has the
// name, the key and the address of that, and has started since.
func restored(t *testing.T, of *gate, knows ...*gate) *gate {
	t.Helper()
	return replaced(t, of, "after the restore", knows...)
}

// replaced is [restored] with the name of the start.
func replaced(t *testing.T, of *gate, boot string, knows ...*gate) *gate {
	t.Helper()
	older := twin(t, of)
	older.deps.Boot = boot
	for _, other := range knows {
		older.peers[other.id] = relay.NewPeer(relay.PeerConfig{Home: other.id, URL: other.server.URL, Mode: relay.Allow}, older.deps)
	}
	mux := http.NewServeMux()
	(&relay.PeerHandler{Deps: older.deps, Peer: func(home federation.HomeID) *relay.Peer { return older.peers[home] }}).Mount(mux)
	of.server.Config.Handler = mux
	return older
}

// compared connects two homes until stop, and compares their histories.
func compared(t *testing.T, a, b *gate) (stop func()) {
	t.Helper()
	there, back := a.runUntil(b), b.runUntil(a)
	if _, err := a.peers[b.id].CompareNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() { there(); back() }
}

func TestRestoredHomeIsCompletedAtTheNextConnection(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := a.offers(b, "alice", "bob")
	b.comes(offer.ID, "offer")
	stop()
	older := restored(t, b, a)
	a.run(b) // the same link to the same address
	older.comes(offer.ID, "offer")
}

func TestRestartIsNoticedByTheFirstRequest(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := a.offers(b, "alice", "bob")
	stop()
	a.run(b)
	older := restored(t, b, a)
	older.run(a) // the link from a to b stays up
	older.comes(offer.ID, "offer")
}

// acceptedAt returns an offer that bob made to alice at b, and that she accepted at a.
func acceptedAt(t *testing.T, a, b *gate) (offer federation.Event) {
	t.Helper()
	_, offer = b.take("bob", federation.Offer, to("alice"))
	if err := b.deliver(a); err != nil {
		t.Fatal(err)
	}
	a.take("alice", federation.Accept, in(offer.ID))
	a.comes(offer.ID, "offer accept")
	return offer
}

func TestRestoredHomeGetsItsStepsBack(t *testing.T) {
	for name, keeps := range map[string]bool{"the acceptance alone": true, "the whole handoff": false} {
		t.Run(name, func(t *testing.T) {
			all := newGates(t, "a.test", "b.test")
			a, b := all[0], all[1]
			stop := compared(t, a, b)
			offer := acceptedAt(t, a, b)
			stop()
			older := restored(t, b, a)
			if keeps {
				if _, err := older.home.Submit(t.Context(), offer, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			a.run(b)
			older.comes(offer.ID, "offer accept")
			view, err := older.record.View(t.Context(), offer.ID)
			if err != nil || view.Home != "b.test" || view.Remote || view.Numbered || view.State != federation.Assigned {
				t.Errorf("the handoff is %+v, %v", view, err)
			}
			done, err := a.peers["b.test"].CompareNow(t.Context())
			if err != nil || done.Restored != 0 || len(done.Lost) != 0 {
				t.Errorf("compared again: %+v, %v", done, err)
			}
			a.take("alice", federation.Progress, in(offer.ID)) // and it goes on from there
			older.comes(offer.ID, "offer accept progress")
			a.comes(offer.ID, "offer accept progress")
		})
	}
}

// completedAt returns an offer that bob made to alice at b, and that she completed at a.
func completedAt(t *testing.T, a, b *gate) (offer federation.Event) {
	t.Helper()
	offer = acceptedAt(t, a, b)
	a.take("alice", federation.Complete, in(offer.ID))
	a.comes(offer.ID, "offer accept complete")
	return offer
}

func TestRestoredHomeGetsEndedHandoffsBack(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := completedAt(t, a, b)
	stop()
	older := restored(t, b, a)
	a.run(b)
	older.comes(offer.ID, "offer accept complete")
}

func TestPrunedHandoffsAreNotRestored(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	defer stop()
	offer := completedAt(t, a, b)
	a.take("alice", federation.Offer, to("bob")) // the handoff with the newest step is never pruned
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if n, _, err := b.record.Prune(t.Context(), later, later, "", 10); n != 1 || err != nil {
		t.Fatalf("%d handoffs are pruned, %v", n, err)
	}
	done, err := a.peers["b.test"].CompareNow(t.Context())
	if err != nil || done.Restored != 0 || len(done.Lost) != 0 {
		t.Errorf("compared: %+v, %v", done, err)
	}
	if got := b.log(offer.ID); got != "" {
		t.Errorf("the home has %q", got)
	}
}

func TestRestoredHomeThatForkedOrphansHandoffs(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := acceptedAt(t, a, b)
	stop()
	older := restored(t, b, a)
	for _, step := range []federation.Event{offer, b.sign("bob", federation.Cancel, in(offer.ID))} {
		if _, err := older.home.Submit(t.Context(), step, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	a.run(b)
	done, err := a.peers["b.test"].CompareNow(t.Context())
	if err != nil || len(done.Lost) != 1 || done.Lost[0].Handoff != offer.ID || !strings.Contains(done.Lost[0].Why, "another step in its place") {
		t.Errorf("compared: %+v, %v", done, err)
	}
	if lost, ok := a.peers["b.test"].Lost(offer.ID); !ok || lost.Version != 2 {
		t.Errorf("lost: %+v, %t", lost, ok)
	}
	if got := older.log(offer.ID); got != "offer cancel" {
		t.Errorf("the home has %q now", got)
	}
}

// The restore is not noticed before the step. Without the acceptance, the completion is not legal.
func TestRestoredHomeRulesOnAStepThatFollowsLostOnes(t *testing.T) {
	offeredTo := func(_ *testing.T, a, b *gate) federation.Event { return b.offers(a, "bob", "alice") }
	for name, c := range map[string]struct {
		before func(t *testing.T, a, b *gate) federation.Event
		keeps  bool // the older record has the offer
		verb   federation.Verb
		want   string
	}{
		"an offer":                {offeredTo, false, federation.Accept, "offer accept"},
		"an offer and its accept": {acceptedAt, false, federation.Complete, "offer accept complete"},
		"an accept":               {acceptedAt, true, federation.Complete, "offer accept complete"},
	} {
		t.Run(name, func(t *testing.T) {
			all := newGates(t, "a.test", "b.test")
			a, b := all[0], all[1]
			stop := compared(t, a, b)
			offer := c.before(t, a, b)
			stop()
			older := replaced(t, b, b.deps.Boot, a)
			if c.keeps {
				if _, err := older.home.Submit(t.Context(), offer, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			a.run(b)
			a.take("alice", c.verb, in(offer.ID))
			older.comes(offer.ID, c.want)
			a.comes(offer.ID, c.want)
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.refused) > 0 {
				t.Errorf("the sender is told %v", a.refused)
			}
		})
	}
}

// The restored home filed a step at a place at which the other home has an earlier step.
func TestRestoredHomeThatForkedEndsTheWaitForItsRuling(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := b.offers(a, "bob", "alice")
	_, accept := a.take("alice", federation.Accept, in(offer.ID))
	a.take("alice", federation.Progress, in(offer.ID))
	a.comes(offer.ID, "offer accept progress")
	stop()
	_, complete := a.take("alice", federation.Complete, in(offer.ID))
	older := restored(t, b, a)
	for _, step := range []federation.Event{offer, accept, complete} {
		if _, err := older.home.Submit(t.Context(), step, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	a.run(b)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		pending, err := a.record.ListPending(t.Context(), "b.test", 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(pending) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the step still waits: %v", a.told)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.refused, []federation.RefusalCode{federation.WrongSender}) {
		t.Errorf("its sender is told %v, want %s", a.refused, federation.WrongSender)
	}
	if forked, err := a.record.Forked(t.Context(), offer.ID); !forked || err != nil {
		t.Errorf("the proof of two histories: %t, %v", forked, err)
	}
}

// forger is a record whose rulings are signed by another home than they name.
type forger struct {
	*registry.Record

	key federation.SigningKey
}

func (f forger) RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error) {
	if document, _, err = f.Record.RulingOn(ctx, id, version); err == nil {
		signature, err = signing.SignHome(ctx, f.key, []byte(document))
	}
	return document, signature, err
}

func TestRestoredHomeRefusesForeignRulings(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := compared(t, a, b)
	offer := acceptedAt(t, a, b)
	stop()
	older := restored(t, b, a)
	deps := a.deps
	deps.Record = forger{a.record, a.key}
	a.peers["b.test"] = relay.NewPeer(relay.PeerConfig{Home: "b.test", URL: b.server.URL, Mode: relay.Allow}, deps)
	a.run(b)
	done, err := a.peers["b.test"].CompareNow(t.Context())
	if err != nil || len(done.Lost) != 1 || !strings.Contains(done.Lost[0].Why, string(federation.SignatureInvalid)) {
		t.Errorf("compared: %+v, %v", done, err)
	}
	if got := older.log(offer.ID); got != "" {
		t.Errorf("the home has %q now", got)
	}
	await(t, func() bool { // of two batches in a second, one writes the offence
		offences, err := older.record.Misbehaviors(t.Context(), "a.test")
		return err == nil && len(offences) == 1 && offences[0].Kind == federation.MisbehaviorRuling
	})
}

package relay_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
)

func (g *gate) voucher(as federation.HomeID, of federation.Event) map[string]any {
	g.t.Helper()
	sum := sha256.Sum256([]byte(of.Signature.Document))
	return g.says(map[string]any{
		"type": "voucher", "v": 1, "home": as, "handoff": of.Handoff, "event": of.ID, "step": hex.EncodeToString(sum[:]), "sent": time.Now().UTC(),
	})
}

// with adds a voucher to a sent step; nil adds none.
func with(it, voucher map[string]any) map[string]any {
	if voucher != nil {
		step, _ := it["step"].(map[string]any)
		step["voucher"] = voucher
	}
	return it
}

// A vouched step goes with the voucher to the home of the handoff, and from there to a third one.
func TestVoucherTravelsWithItsStep(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	a.run(b)
	b.run(a)
	a.run(c)
	_, offer := a.take("alice", federation.Offer, anyone)
	for _, g := range all[1:] {
		if err := a.deliver(g); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Submit(t.Context(), b.speaks("bob", federation.Claim, in(offer.ID))); err != nil {
		t.Fatal(err)
	}
	b.comes(offer.ID, "offer claim")
	if err := a.deliver(c); err != nil {
		t.Fatal(err)
	}
	c.comes(offer.ID, "offer claim")
	for _, g := range all {
		view, err := g.record.View(t.Context(), offer.ID)
		if err != nil || view.Assignee != keyOf("bob").DID {
			t.Errorf("at %s it is assigned to %q (%v)", g.id, view.Assignee, err)
		}
	}
}

// A home forwards a step that it vouched for to the home that the mailbox moved to.
func TestVoucherTravelsToMovedMailboxes(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	a.run(b)
	b.run(a)
	b.run(c)
	b.forward = []federation.HomeID{"c.test"}
	c.moved = map[federation.DID]federation.HomeID{keyOf("bob").DID: "b.test"}
	_, offer := a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(t.Context(), b.speaks("bob", federation.Accept, in(offer.ID))); err != nil {
		t.Fatal(err)
	}
	b.comes(offer.ID, "offer accept")
	if err := b.deliver(c); err != nil {
		t.Fatal(err)
	}
	c.comes(offer.ID, "offer accept")
}

// A home rules on a claim that it attributes to another home, which signed no such thing: that is
// refused, on record, and costs the other one nothing.
func TestVoucherOfAThirdHomeNeedsItsSignature(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, mallory := all[0], all[1], all[2]
	offer := mallory.sign("carol", federation.Offer, anyone)
	first := federation.Link([32]byte{}, offer.Signature.Document)
	if answer, err := post(t, mallory, b, written("c.test", "b.test", ruled(t, mallory, "c.test", offer, 1, first))); err != nil || !strings.Contains(fmt.Sprint(answer), "outcome:stored") {
		t.Fatal(answer, err)
	}
	made := mallory.speaks("alice", federation.Claim, in(offer.ID)) // of whole cloth
	said := a.speaks("alice", federation.Claim, in(offer.ID))
	for _, test := range []struct {
		name    string
		claim   federation.Event
		voucher map[string]any
		true    bool
	}{
		{"without a voucher", made, nil, false},
		{"with one of its own", made, mallory.voucher("c.test", made), false},
		{"with one that it forged", made, mallory.voucher("a.test", made), false},
		{"with one for another step", made, a.voucher("a.test", said), false},
		{"with one that is none", made, a.says(map[string]any{"type": "ruling", "v": 1, "home": "a.test"}), false},
		{"with the word of the home", said, a.voucher("a.test", said), true},
	} {
		it := with(spoken(test.claim), test.voucher)
		it["ruling"] = mallory.says(map[string]any{
			"type": "ruling", "v": 1, "home": "c.test", "handoff": offer.ID, "event": test.claim.ID, "version": 2, "via": "a.test",
			"chain": fmt.Sprintf("%x", federation.Link(first, test.claim.Signature.Document)), "filed": time.Now().UTC(),
		})
		before := offences(t, b, "c.test")
		b.later()
		answer, err := post(t, mallory, b, written("c.test", "b.test", it))
		want := "outcome:stored"
		if !test.true {
			want = "wrong-sender"
			before[federation.MisbehaviorVoice]++
		}
		if got := fmt.Sprint(answer, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", test.name, got, want)
		}
		if d := cmp.Diff(before, offences(t, b, "c.test")); d != "" {
			t.Errorf("%s: the offences (-want +got):\n%s", test.name, d)
		}
	}
	if got := offences(t, b, "a.test"); len(got) > 0 {
		t.Errorf("the home that was named has offences: %v", got)
	}
	if got := b.log(offer.ID); got != "offer claim" {
		t.Errorf("the handoff has %q", got)
	}
}

// A home is asked to rule on a step that another one vouches for: it does if it can show everybody
// that the other one does.
func TestVoucherIsRequiredForVouchedSteps(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	_, offer := a.take("alice", federation.Offer, anyone)
	claim := b.speaks("bob", federation.Claim, in(offer.ID))
	for _, test := range []struct {
		name    string
		voucher map[string]any
		want    string
	}{
		{"without one", nil, "missing-requirement"},
		{"one of another home", c.voucher("c.test", claim), "missing-requirement"},
		{"one that another home signed", c.voucher("b.test", claim), "missing-requirement"},
		{"one for another step", b.voucher("b.test", offer), "missing-requirement"},
		{"its own", b.voucher("b.test", claim), "outcome:stored"},
	} {
		answer, err := post(t, b, a, written("b.test", "a.test", with(spoken(claim), test.voucher)))
		if got := fmt.Sprint(answer, err); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if got := offences(t, a, "b.test"); len(got) > 0 {
		t.Errorf("b has offences: %v", got)
	}
}

package relay_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

// speaks returns a step as a home vouches for it in the name of a person, with its evidence.
func (g *gate) speaks(name string, verb federation.Verb, change ...func(*federation.Event)) federation.Event {
	g.t.Helper()
	evidence, err := json.Marshal(map[string]string{"document": "what " + name + " wrote, says " + string(g.id)})
	if err != nil {
		g.t.Fatal(err)
	}
	digest := sha256.Sum256(evidence)
	ev := g.sign(name, verb, change...)
	key := keyOf("kept for " + name + " at " + string(g.id))
	ev.From, ev.For, ev.Provenance = key.DID, keyOf(name).DID, federation.Vouched
	ev.Evidence = &federation.Evidence{URL: "https://" + string(g.id) + "/evidence/1", Digest: digest, Bytes: evidence}
	ev.Fields, _ = dialect.Write(ev)
	if ev, err = signing.Seal(g.t.Context(), key, ev); err != nil {
		g.t.Fatal(err)
	}
	if named := ev.Fields["handoff-src-h"]; named != "sha256:"+hex.EncodeToString(digest[:]) {
		g.t.Fatalf("the step names the evidence %q", named)
	}
	return ev
}

// spoken returns a vouched step of a home in its sent form.
func spoken(ev federation.Event) map[string]any {
	it := plain(ev)
	step, _ := it["step"].(map[string]any)
	step["provenance"], step["evidence"] = "vouched", map[string]string{"url": ev.Evidence.URL, "content": string(ev.Evidence.Bytes)}
	return it
}

// vouched is the result of speaks in its sent form.
func (g *gate) vouched(name string, verb federation.Verb, change ...func(*federation.Event)) map[string]any {
	g.t.Helper()
	return spoken(g.speaks(name, verb, change...))
}

func rules(t *testing.T, by *gate, it map[string]any) map[string]any {
	t.Helper()
	step, _ := it["step"].(map[string]any)
	document, _ := step["document"].(string)
	id, _ := step["id"].(federation.EventID)
	ev := federation.Event{ID: id, Handoff: id}
	ev.Signature.Document = document
	it["ruling"] = ruled(t, by, by.id, ev, 1, federation.Link([32]byte{}, document))["ruling"]
	return it
}

// A home's claims about people and homes of others are refused, on record and shown, and cost it
// nothing else: its true statements are accepted.
func TestMisbehaviorOfAHomeIsRecorded(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, mallory := all[0], all[1], all[2]
	_, open := b.take("bob", federation.Offer, anyone)
	offer := a.sign("alice", federation.Offer, to("bob"))
	chain := federation.Link([32]byte{}, offer.Signature.Document)
	stolen := mallory.sign("alice", federation.Offer, to("bob"))
	for _, test := range []struct {
		name string
		item map[string]any
		code string
		kind federation.MisbehaviorKind
	}{
		{"an offer in the name of a DID at another home", rules(t, mallory, mallory.vouched("alice", federation.Offer, to("bob"))), "wrong-sender", federation.MisbehaviorVoice},
		{"a claim in the name of a DID at another home", mallory.vouched("alice", federation.Claim, in(open.ID)), "wrong-sender", federation.MisbehaviorVoice},
		{"a claim in the name of a DID here", mallory.vouched("bob", federation.Claim, in(open.ID)), "wrong-sender", federation.MisbehaviorVoice},
		{"the ruling of another home", ruled(t, a, "a.test", offer, 1, chain), "wrong-sender", federation.MisbehaviorRuling},
		{"a ruling that it did not sign itself", ruled(t, a, "c.test", offer, 1, chain), "signature-invalid", federation.MisbehaviorRuling},
		{"a step that its sender did not sign", ruled(t, mallory, "c.test", forged(stolen), 1, federation.Link([32]byte{}, stolen.Signature.Document)), "signature-invalid", federation.MisbehaviorStep},
		{"the truth", rules(t, mallory, mallory.vouched("carol", federation.Offer, to("bob"))), "", ""},
	} {
		before := offences(t, b, "c.test")
		b.later() // each offence is noted, however soon it comes
		answer, err := post(t, mallory, b, written("c.test", "b.test", test.item))
		want := test.code
		if want == "" {
			want = "outcome:stored"
		}
		if got := fmt.Sprint(answer, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", test.name, got, want)
		}
		if test.kind != "" {
			before[test.kind]++
		}
		if d := cmp.Diff(before, offences(t, b, "c.test")); d != "" {
			t.Errorf("%s: the offences (-want +got):\n%s", test.name, d)
		}
	}
	if got := offences(t, b, "a.test"); len(got) > 0 {
		t.Errorf("the home that it spoke of has offences: %v", got)
	}
	if got := b.log(open.ID); got != "offer" {
		t.Errorf("the handoff that was claimed has %q", got)
	}
}

// A home that cannot read where a mailbox is refuses nothing.
func TestMisbehaviorIsNotReportedDuringAnOutage(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	_, open := b.take("bob", federation.Offer, anyone)
	claim := a.speaks("alice", federation.Claim, in(open.ID))
	for name, item := range map[string]map[string]any{
		"an offer": rules(t, a, a.vouched("alice", federation.Offer, to("bob"))),
		"a claim":  with(spoken(claim), a.voucher("a.test", claim)),
	} {
		for _, step := range []struct {
			unread error
			want   string
		}{{errors.New("the record is away"), "outcome:later"}, {nil, "outcome:stored"}} {
			b.unread = step.unread
			answer, err := post(t, a, b, written("a.test", "b.test", item))
			if got := fmt.Sprint(answer, err); !strings.Contains(got, step.want) {
				t.Errorf("%s, while the record has the error %v: %s, want %s", name, step.unread, got, step.want)
			}
		}
	}
	if got := offences(t, b, "a.test"); len(got) > 0 {
		t.Errorf("offences: %v", got)
	}
}

func offences(t *testing.T, at *gate, home federation.HomeID) map[federation.MisbehaviorKind]int {
	t.Helper()
	all, err := at.record.Misbehaviors(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[federation.MisbehaviorKind]int)
	for _, d := range all {
		times[d.Kind] = d.Times
	}
	return times
}

package participant_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

func TestReserveKeepsOneIDPerKey(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t)
	ctx, author := t.Context(), w.as(eliza())
	offer := participant.Offer{To: string(scout()), Title: "Cite"}
	first, err := author.Reserve(ctx, participant.Unsigned{Key: "k", Offer: &offer})
	if err != nil || first.Event.IsZero() || first.Filed != nil {
		t.Fatalf("the first call: %+v, %v", first, err)
	}
	reserves := func(what string, u participant.Unsigned, same bool) participant.Reservation {
		t.Helper()
		got, err := author.Reserve(ctx, u)
		if err != nil || (got.Event == first.Event) != same {
			t.Errorf("%s: %+v, %v; want the same ID: %t", what, got, err, same)
		}
		return got
	}
	reserves("the same step again", participant.Unsigned{Key: "k", Offer: &offer}, true)
	reserves("another key", participant.Unsigned{Key: "other", Offer: &offer}, false)
	reserves("an ID that was refused, of another step", participant.Unsigned{Key: "k", Offer: &offer, Stale: federation.EventID{1}}, true)
	other := participant.Offer{To: string(scout()), Title: "Cite four"}
	if _, err := author.Reserve(ctx, participant.Unsigned{Key: "k", Offer: &other}); codeOf(err) != participant.CodeOtherRequest {
		t.Errorf("another step with the key is answered %v", err)
	}
	if _, err := w.as(scout()).Reserve(ctx, participant.Unsigned{Key: "k", Offer: &offer}); err != nil {
		t.Errorf("the key of another DID is answered %v", err)
	}

	fresh := reserves("an ID that was refused as too old", participant.Unsigned{Key: "k", Offer: &offer, Stale: first.Event}, false)
	first = fresh
	reserves("the same step after that", participant.Unsigned{Key: "k", Offer: &offer}, true)
}

func TestReserveSignsNoFiledStepAgain(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t)
	ctx, author := t.Context(), w.as(eliza())
	offer := participant.Offer{To: string(scout()), Title: "Cite"}
	u := participant.Unsigned{Key: "k", Offer: &offer}
	at, err := author.Reserve(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	signed := offer
	signed.ID = at.Event.String() // the gateway signs here in place of an author
	filed, err := author.Offer(ctx, signed, "")
	if err != nil {
		t.Fatal(err)
	}
	u.Stale = at.Event // as if the answer had been lost
	again, err := author.Reserve(ctx, u)
	if err != nil || again.Filed == nil || again.Event != at.Event || again.Filed.ID != filed.ID || again.Filed.State != string(federation.Offered) {
		t.Errorf("the step on disk is answered %+v, %v", again, err)
	}
	step := participant.Unsigned{Key: "s", ID: filed.ID, Verb: federation.Accept}
	if _, err := w.as(stranger()).Reserve(ctx, step); codeOf(err) != string(federation.UnknownHandoff) {
		t.Errorf("a step in a hidden handoff is answered %v", err)
	}
	if got, err := w.as(scout()).Reserve(ctx, step); err != nil || got.Event == at.Event {
		t.Errorf("a step in a handoff is answered %+v, %v", got, err)
	}
}

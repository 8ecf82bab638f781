package lifecycle_test

import (
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

// Ada offers to anyone, Bob claims, and Cleo is too late.
func ExampleKinds_Check() {
	kinds, now := lifecycle.Shipped(), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	id, err := federation.ParseEventID("01HQZ0000000000000000000AA")
	if err != nil {
		fmt.Println(err)
		return
	}
	offer := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: "did:web:ada.example",
		Venue: "#ops", Dialect: federation.HandoffTags, Title: "Review the patch",
	}
	view, err := kinds.Open(offer, "gw.example", now)
	fmt.Println(view.State, err)

	claim := federation.Event{Handoff: id, Kind: federation.Handoff, Verb: federation.Claim, From: "did:web:bob.example", Dialect: federation.HandoffTags}
	view, err = kinds.Check(view, claim, now)
	fmt.Println(view.State, view.Assignee, err)

	claim.From = "did:web:cleo.example"
	_, err = kinds.Check(view, claim, now)
	fmt.Println(err)
	// Output:
	// open <nil>
	// assigned did:web:bob.example <nil>
	// illegal-step: the handoff is not in a state for this step: it went to did:web:bob.example
}

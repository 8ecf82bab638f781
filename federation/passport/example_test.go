package passport_test

import (
	"context"
	"fmt"
	"os"

	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/passport"
	"github.com/baton-gateway/baton/translate/dialect"
)

// A passport is checked with nothing but its file.
func ExampleChecker_Verify() {
	text, err := os.ReadFile("testdata/passport.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	checker := passport.Checker{Read: dialect.FromDocument, KeyDID: identity.KeyDID, Replay: lifecycle.Shipped().Replay}
	report := checker.Verify(context.Background(), text)
	fmt.Println(report.Verdict, report.Handoff.State)
	for _, claim := range report.Claims {
		fmt.Println(claim.Verb, claim.Actor.Short(), "vouched:", claim.Voucher != "")
	}
	// Output:
	// valid completed
	// offer did:key:z6MkqGC3… vouched: false
	// accept did:key:z6Mkg49N… vouched: true
	// complete did:key:z6Mkg49N… vouched: false
}

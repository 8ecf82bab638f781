package home_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// A reader takes a step with one of these tags for one that a gateway vouches for.
func TestSubmitRefusesVouchingTagsOfPersons(t *testing.T) {
	for _, dialect := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		for tag, value := range map[string]string{
			"-for": "did:plc:bob000000000000000000000", "-src": "https://evil.example/evidence/0", "-src-h": "sha256:" + strings.Repeat("0", 64),
		} {
			b := newBench(t)
			ev := b.step(1, b.alice, federation.Offer)
			ev.Dialect = dialect
			ev.Fields[string(dialect)+tag] = value
			ev.Signature = federation.Signature{}
			sealed, err := signing.Seal(t.Context(), b.alice.key, ev)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.home.Submit(t.Context(), sealed, b.now)
			refused, ok := errors.AsType[*federation.RefusalError](err)
			if !ok || refused.Code != federation.InvalidTag || !strings.Contains(refused.Detail, "+freeq.at/"+string(dialect)+tag+":") {
				t.Errorf("%s%s: %v, want %s that names it", dialect, tag, err, federation.InvalidTag)
			}
			sealed.Arrival.Home = "b.example"
			if err := federation.CheckVouching(sealed, "+freeq.at/"); err != nil {
				t.Errorf("%s%s from a home: %v", dialect, tag, err)
			}
			sealed.Arrival.Home, sealed.Provenance = "", federation.Vouched
			if err := federation.CheckVouching(sealed, "+freeq.at/"); err != nil {
				t.Errorf("%s%s that a gateway vouches for: %v", dialect, tag, err)
			}
		}
	}
}

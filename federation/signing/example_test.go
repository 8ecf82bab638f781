package signing_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

type oneKey federation.SigningKey

func (k oneKey) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if q.DID != k.DID {
		return nil, &federation.UnavailableError{What: "key of " + string(q.DID)}
	}
	return []ed25519.PublicKey{k.Public}, nil
}

func (oneKey) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// An offer is sealed, verified, changed, and verified again.
func ExampleVerify() {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public, _ := private.Public().(ed25519.PublicKey)
	key := federation.SigningKey{Public: public, DID: "did:web:ada.example", Sign: func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}}
	id, err := federation.ParseEventID("01HQZ0000000000000000000AA")
	if err != nil {
		fmt.Println(err)
		return
	}
	offer, err := signing.Seal(context.Background(), key, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, From: key.DID, Venue: "#ops", Dialect: federation.HandoffTags,
		Fields: map[string]string{"handoff": "offer", "handoff-title": "Review the patch"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(offer.Signature.Document)

	_, verdict, err := signing.Verify(context.Background(), oneKey(key), offer)
	fmt.Println(verdict, err)

	offer.Fields["handoff-title"] = "Merge the patch"
	_, verdict, _ = signing.Verify(context.Background(), oneKey(key), offer)
	fmt.Println(verdict)

	_, verdict, _ = signing.Verify(context.Background(), oneKey{DID: "did:web:bob.example"}, offer)
	fmt.Println(verdict)
	// Output:
	// {"from":"did:web:ada.example","handoff":"offer","handoff-title":"Review the patch","id":"01HQZ0000000000000000000AA","target":"#ops"}
	// valid <nil>
	// invalid
	// unverifiable
}

package routing_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/routing"
)

type keyOwners map[string]federation.DID

func (o keyOwners) KeyOwner(_ context.Context, keyID string) (federation.DID, error) {
	owner, known := o[keyID]
	if owner == broken {
		return "", errBroken
	}
	if !known {
		return "", federation.ErrNotFound
	}
	return owner, nil
}

// broken is a key owner whose record cannot be read.
const broken = federation.DID("did:web:broken")

var errBroken = errors.New("the disk is away")

func keptKey(name string) federation.SigningKey {
	seed := sha256.Sum256([]byte(name))
	public, _ := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	return federation.SigningKey{Public: public, DID: identity.KeyDID(public)}
}

func TestOwnerResolvesKeptKeys(t *testing.T) {
	t.Parallel()
	record := keyOwners{}
	owners := routing.Owners{Record: record, Kept: keptKey, DIDKey: identity.ParseKeyDID}
	const ada = federation.DID("did:plc:adaadaadaadaadaadaadaada")
	note := func(kept federation.KeptKey) { record[kept.ID] = kept.Owner }
	kept := keptKey("person:" + string(ada)).DID
	note(owners.KeptFor(ada))
	note(owners.KeptFor(kept)) // a rendered step signed with the kept key
	own, unknown, unread := keptKey("own"), keptKey("unknown"), keptKey("unread")
	record[federation.KeyID(own.Public)] = own.DID
	foreign := keptKey("kept by another home")
	record[federation.KeyID(foreign.Public)] = ada // only the gateway's own keys are kept for others here
	record[federation.KeyID(unread.Public)] = broken
	for name, test := range map[string]struct {
		did, want federation.DID
		err       error
	}{
		"a kept key":                       {kept, ada, nil},
		"a key kept for a kept key":        {keptKey("person:" + string(kept)).DID, ada, nil},
		"a key of its own":                 {own.DID, own.DID, nil},
		"an unknown key":                   {unknown.DID, unknown.DID, nil},
		"a key kept by another home":       {foreign.DID, foreign.DID, nil},
		"a DID of another method":          {ada, ada, nil},
		"a did:key that cannot be read":    {"did:key:zzz", "did:key:zzz", nil},
		"a record that cannot be read now": {unread.DID, unread.DID, errBroken},
	} {
		got, err := owners.Owner(t.Context(), test.did)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %s, %v; want %s, %v", name, got, err, test.want, test.err)
		}
	}
	if got, err := (routing.Owners{}).Owner(t.Context(), kept); got != kept || err != nil {
		t.Errorf("without keys: %s, %v", got, err)
	}
}

package store_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runMisbehaviors(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("a offence counts, and has the last reason", func(t *testing.T) {
		record, ctx := open(t), t.Context()
		for _, d := range []federation.Misbehavior{
			{Home: "b.example", Kind: federation.MisbehaviorVoice, Last: federationtest.At(1), Why: "of ada"},
			{Home: "c.example", Kind: federation.MisbehaviorVoice, Last: federationtest.At(2), Why: "of bob"},
			{Home: "b.example", Kind: federation.MisbehaviorMailbox, Last: federationtest.At(3), Why: "of ada"},
			{Home: "b.example", Kind: federation.MisbehaviorVoice, Last: federationtest.At(4), Why: "of carol"},
		} {
			if err := record.KeepMisbehavior(ctx, d); err != nil {
				t.Fatalf("KeepMisbehavior: %v", err)
			}
		}
		offences, err := record.Misbehaviors(ctx, "b.example")
		want := []federation.Misbehavior{
			{Home: "b.example", Kind: federation.MisbehaviorMailbox, Times: 1, First: federationtest.At(3), Last: federationtest.At(3), Why: "of ada"},
			{Home: "b.example", Kind: federation.MisbehaviorVoice, Times: 2, First: federationtest.At(1), Last: federationtest.At(4), Why: "of carol"},
		}
		if d := diff(want, offences); err != nil || d != "" {
			t.Errorf("Offences (%v, -want +got):\n%s", err, d)
		}
		if offences, err := record.Misbehaviors(ctx, "d.example"); err != nil || len(offences) != 0 {
			t.Errorf("Offences of a home without: %v, %v", offences, err)
		}
	})
}

package store_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runOwnKeys(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("the newest mark of each key is kept", func(t *testing.T) {
		record, ctx := open(t), t.Context()
		if marks, err := record.OwnKeys(ctx); err != nil || len(marks) != 0 {
			t.Errorf("OwnKeys of an empty record: %v, %v", marks, err)
		}
		for _, marks := range [][]federation.KeyMark{
			{{Name: "server", Fingerprint: "a", Since: federationtest.At(1)}, {Name: "registry", Fingerprint: "b", Since: federationtest.At(1)}},
			{{Name: "server", Fingerprint: "a", Since: federationtest.At(2)}, {Name: "registry", Fingerprint: "c", Since: federationtest.At(2)}},
			nil,
		} {
			if err := record.MarkOwnKeys(ctx, marks); err != nil {
				t.Fatalf("MarkOwnKeys: %v", err)
			}
		}
		marks, err := record.OwnKeys(ctx)
		want := []federation.KeyMark{{Name: "registry", Fingerprint: "c", Since: federationtest.At(2)}, {Name: "server", Fingerprint: "a", Since: federationtest.At(1)}}
		if d := diff(want, marks); err != nil || d != "" {
			t.Errorf("OwnKeys (%v, -want +got):\n%s", err, d)
		}
	})
	t.Run("a record with a handoff is used, and so is one with an agent", func(t *testing.T) {
		record, ctx := open(t), t.Context()
		if used, err := record.Used(ctx); err != nil || used {
			t.Errorf("Used of an empty record: %t, %v", used, err)
		}
		if _, err := record.Append(ctx, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})); err != nil {
			t.Fatal(err)
		}
		if used, err := record.Used(ctx); err != nil || !used {
			t.Errorf("Used with a handoff: %t, %v", used, err)
		}
		record = open(t)
		if err := record.AddAgent(ctx, agents.Agent{Handle: "scout_7", DID: ada, Registered: federationtest.At(1)}); err != nil {
			t.Fatal(err)
		}
		if used, err := record.Used(ctx); err != nil || !used {
			t.Errorf("Used with an agent: %t, %v", used, err)
		}
	})
}

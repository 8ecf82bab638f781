package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestOwnKeysSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, prometheus.NewRegistry())
	key := federationtest.Key(ada)
	if err := first.Learn(t.Context(), federation.KeyReport{
		DID: ada, Origin: federation.PeerKey, Via: "freeq", At: federationtest.At(1),
		Keys: []federation.ReportedKey{{Public: key, Until: federationtest.At(9)}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := first.Revoke(t.Context(), ada, federation.KeyID(key), federationtest.At(5)); err != nil {
		t.Fatal(err)
	}
	before, err := first.History(t.Context(), ada)
	if err != nil || len(before) != 2 {
		t.Fatalf("History = %+v, %v, want a window and a revocation", before, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := open(t, dir, prometheus.NewRegistry()).History(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("history (-before +after):\n%s", d)
	}
}

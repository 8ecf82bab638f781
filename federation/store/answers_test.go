package store_test

import (
	"errors"
	"testing"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/store/registry"
)

func runAnswers(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("the first request with a key has it", s.testReserve)
	t.Run("answers are forgotten in their time", s.testPruneAnswers)
	t.Run("a declaration takes the place of the one before", s.testDeclare)
}

func (s suite) testReserve(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	first := federation.Answer{DID: ada, Key: "k", Digest: [32]byte{1}, Event: federationtest.ID(1), At: federationtest.At(1)}
	second := federation.Answer{DID: ada, Key: "k", Digest: [32]byte{2}, Event: federationtest.ID(2), At: federationtest.At(2)}
	others := federation.Answer{DID: bob, Key: "k", Digest: [32]byte{3}, Event: federationtest.ID(3), At: federationtest.At(2)}
	for _, tt := range []struct{ asked, want federation.Answer }{{first, first}, {second, first}, {others, others}} {
		got, err := record.Reserve(ctx, tt.asked)
		if d := diff(tt.want, got); d != "" || err != nil {
			t.Errorf("Reserve: %v (-want +got):\n%s", err, d)
		}
	}
	first.Status, first.Body = 201, []byte(`{}`)
	if err := record.Answered(ctx, first); err != nil {
		t.Fatalf("Answered: %v", err)
	}
	got, err := record.Reserve(ctx, second)
	if d := diff(first, got); d != "" || err != nil {
		t.Errorf("Reserve of what was answered: %v (-want +got):\n%s", err, d)
	}
}

func (s suite) testPruneAnswers(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	for i, key := range []string{"a", "b", "c"} {
		if _, err := record.Reserve(ctx, federation.Answer{DID: ada, Key: key, Event: federationtest.ID(i + 1), At: federationtest.At(i + 1)}); err != nil {
			t.Fatalf("Reserve: %v", err)
		}
	}
	for _, want := range []int{1, 1, 0} {
		if n, err := record.PruneAnswers(ctx, federationtest.At(2), 1); n != want || err != nil {
			t.Errorf("PruneAnswers: %d, %v, want %d", n, err, want)
		}
	}
	kept, err := record.Reserve(ctx, federation.Answer{DID: ada, Key: "c", Event: federationtest.ID(9), At: federationtest.At(9)})
	if kept.Event != federationtest.ID(3) || err != nil {
		t.Errorf("the young answer is %s, %v", kept.Event, err)
	}
	fresh, err := record.Reserve(ctx, federation.Answer{DID: ada, Key: "a", Event: federationtest.ID(9), At: federationtest.At(9)})
	if fresh.Event != federationtest.ID(9) || err != nil {
		t.Errorf("the old answer is %s, %v", fresh.Event, err)
	}
}

func (s suite) testDeclare(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	none, err := record.Declaration(ctx, ada)
	if len(none) > 0 || err != nil {
		t.Errorf("Declaration of nobody: %v, %v", none, err)
	}
	if err := errors.Join(record.Declare(ctx, ada, []string{"x"}, federationtest.At(1)), record.Declare(ctx, ada, []string{"z", "y"}, federationtest.At(2))); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	got, err := record.Declaration(ctx, ada)
	if d := diff([]string{"z", "y"}, got); d != "" || err != nil {
		t.Errorf("Declaration: %v (-want +got):\n%s", err, d)
	}
}

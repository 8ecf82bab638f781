package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runAnswers(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("the first request with a key has it", s.testReserve)
	t.Run("answers are forgotten in their time", s.testPruneAnswers)
	t.Run("a declaration takes the place of the one before", s.testDeclare)
	t.Run("a name has one holder", s.testDeclareName)
	t.Run("a handle is the name of its agent", s.testDeclareHandle)
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
	if none.DID != "" || err != nil {
		t.Errorf("Declaration of nobody: %v, %v", none, err)
	}
	first := federation.Declaration{DID: ada, Caps: []string{"x"}, At: federationtest.At(1)}
	second := federation.Declaration{DID: ada, Name: "scout", Description: "cites", Caps: []string{"z", "y"}, At: federationtest.At(2)}
	if err := errors.Join(record.Declare(ctx, first), record.Declare(ctx, second)); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	got, err := record.Declaration(ctx, ada)
	if d := diff(second, got); d != "" || err != nil {
		t.Errorf("Declaration: %v (-want +got):\n%s", err, d)
	}
}

// The handle of an agent is the name of no other DID.
func (s suite) testDeclareHandle(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	scout := federationtest.NewAgent("scout")
	if err := record.AddAgent(ctx, scout); err != nil {
		t.Fatal(err)
	}
	named := func(did federation.DID) federation.Declaration {
		return federation.Declaration{DID: did, Name: "scout", At: federationtest.At(1)}
	}
	if err := record.Declare(ctx, named(ada)); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("Declare of the handle of another agent: %v, want ErrTaken", err)
	}
	if err := record.Declare(ctx, named(scout.DID)); err != nil {
		t.Errorf("Declare of the own handle: %v", err)
	}
}

// A name belongs to the first DID that declares it, until it was unused for 30 days.
func (s suite) testDeclareName(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	named := func(did federation.DID, after time.Duration) federation.Declaration {
		return federation.Declaration{DID: did, Name: "scout", At: federationtest.At(1).Add(after)}
	}
	if err := record.Declare(ctx, named(ada, 0)); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		use   func() error
		want  federation.DID
	}{
		{"on the same day", time.Hour, func() error { return nil }, ada},
		{"after a month with a binding", federation.NameKept, func() error {
			return record.BindName(ctx, federation.BoundName{Network: "lab", Name: "ada", DID: ada})
		}, ada},
		{"after a month", federation.NameKept, func() error { return record.UnbindName(ctx, "lab", "ada") }, bob},
	} {
		if err := tt.use(); err != nil {
			t.Fatal(err)
		}
		err := record.Declare(ctx, named(bob, tt.after))
		if taken := errors.Is(err, federation.ErrTaken); taken != (tt.want == ada) {
			t.Errorf("%s: Declare: %v", tt.name, err)
		}
		if holder, err := record.NameHolder(ctx, "scout", federationtest.At(1).Add(tt.after)); holder != tt.want || err != nil {
			t.Errorf("%s: NameHolder: %s, %v; want %s", tt.name, holder, err, tt.want)
		}
	}
	before, err := record.Declaration(ctx, ada)
	if before.Name != "" || err != nil {
		t.Errorf("the first DID still has the name %q, %v", before.Name, err)
	}
	if similar, err := record.DeclaredNames(ctx, "sc", 10); len(similar) != 1 || similar[0].DID != bob || err != nil {
		t.Errorf("DeclaredNames: %v, %v", similar, err)
	}
}

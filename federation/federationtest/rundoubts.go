package federationtest

import (
	"testing"

	"baton/federation"
)

// runDoubts is about what homes said and was not believed.
func runDoubts(t *testing.T, open func(t *testing.T) Record) {
	t.Helper()
	t.Run("a doubt counts, and has the last reason", func(t *testing.T) {
		record, ctx := open(t), t.Context()
		for _, d := range []federation.Doubt{
			{Home: "b.example", Kind: federation.DoubtfulVoice, Last: At(1), Why: "of ada"},
			{Home: "c.example", Kind: federation.DoubtfulVoice, Last: At(2), Why: "of bob"},
			{Home: "b.example", Kind: federation.DoubtfulMailbox, Last: At(3), Why: "of ada"},
			{Home: "b.example", Kind: federation.DoubtfulVoice, Last: At(4), Why: "of carol"},
		} {
			if err := record.KeepDoubt(ctx, d); err != nil {
				t.Fatalf("KeepDoubt: %v", err)
			}
		}
		doubts, err := record.Doubts(ctx, "b.example")
		want := []federation.Doubt{
			{Home: "b.example", Kind: federation.DoubtfulMailbox, Times: 1, First: At(3), Last: At(3), Why: "of ada"},
			{Home: "b.example", Kind: federation.DoubtfulVoice, Times: 2, First: At(1), Last: At(4), Why: "of carol"},
		}
		if d := diff(want, doubts); err != nil || d != "" {
			t.Errorf("Doubts (%v, -want +got):\n%s", err, d)
		}
		if doubts, err := record.Doubts(ctx, "d.example"); err != nil || len(doubts) != 0 {
			t.Errorf("Doubts of a home without: %v, %v", doubts, err)
		}
	})
}

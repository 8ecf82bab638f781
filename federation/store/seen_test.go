package store_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/federationtest"
)

func TestTheTimeOfABindingIsWrittenAgainAfterTenSeconds(t *testing.T) {
	t.Parallel()
	record := open(t, t.TempDir(), prometheus.NewRegistry())
	for n, step := range []struct {
		at   int // seconds
		name string
		seen int
	}{
		{1, "ada", 1},
		{9, "ada", 1},
		{11, "ada", 11},
		{12, "ada_away", 12}, // what changed is written at once
		{13, "ada", 13},
	} {
		f := federationtest.File(received(n+1, step.at, step.name), federation.View{})
		if _, err := record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		b, err := record.Binding(t.Context(), ada)
		if err != nil || b.Name != step.name || !b.Seen.Equal(federationtest.At(step.seen)) {
			t.Errorf("after a step at %d s as %s: %s at %v, %v; want it seen at %d s", step.at, step.name, b.Name, b.Seen.Format(time.TimeOnly), err, step.seen)
		}
	}
}

// received returns the n-th offer of ada, which came at a time under a name.
func received(n, at int, name string) federation.Event {
	ev := federationtest.Offer(n, ada, bob)
	ev.Arrival.Name, ev.Arrival.Received = name, federationtest.At(at)
	return ev
}

package irc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
)

func TestMeterLimitsRates(t *testing.T) {
	// take says several things at once, and returns how many came in and of how many
	// more the user was told.
	take := func(m *irc.Meter, n, perMinute int, at time.Duration) (taken, told int) {
		for range n {
			ok, tell := m.Take(perMinute, time.Unix(1_000_000, 0).Add(at))
			if ok {
				taken++
			}
			if tell {
				told++
			}
		}
		return taken, told
	}
	var m irc.Meter
	for _, step := range []struct {
		name  string
		n     int
		at    time.Duration
		taken int
		told  int
	}{
		{"starts with a minute's worth", 10, 0, 10, 0},
		{"tells once", 5, 0, 0, 1},
		{"refills, and does not tell again", 5, 12 * time.Second, 2, 0},
		{"tells again after it was full", 12, 80 * time.Second, 10, 1},
	} {
		taken, told := take(&m, step.n, 10, step.at)
		if diff := cmp.Diff([]int{step.taken, step.told}, []int{taken, told}); diff != "" {
			t.Errorf("%s: taken and told (-want +got):\n%s", step.name, diff)
		}
	}
	var unlimited irc.Meter
	if taken, told := take(&unlimited, 1000, 0, 0); taken != 1000 || told != 0 {
		t.Errorf("without a limit: took %d, told %d", taken, told)
	}
}

package store_test

import (
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func (s suite) testSamples(t *testing.T) {
	record := s.open(t)
	want := []federation.Sample{}
	keep := func(sample federation.Sample) {
		t.Helper()
		if err := record.KeepSample(t.Context(), sample); err != nil {
			t.Fatal(err)
		}
	}
	start := federationtest.At(0).Truncate(federation.ChartEvery)
	for n := range 400 {
		sample := federation.Sample{At: start.Add(time.Duration(n) * federation.ChartEvery), Waiting: n, Dead: 2 * n, Down: n % 3, Disk: n % 100}
		keep(sample)
		keep(federation.Sample{At: sample.At.Add(federation.ChartEvery - 1), Waiting: -1}) // after a restart
		want = append(want, sample)
	}
	day := int(federation.ChartAge / federation.ChartEvery)
	got, err := record.Samples(t.Context(), start)
	if d := diff(want[len(want)-day-1:], got); d != "" || err != nil {
		t.Errorf("Samples: %v (-want +got):\n%s", err, d)
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	const newest = 1
	late := start.Add(400 * federation.ChartEvery)
	keep(federation.Sample{At: late})
	got, err = record.Samples(t.Context(), late)
	if d := diff([]federation.Sample{{At: late, Step: newest}}, got); d != "" || err != nil {
		t.Errorf("Samples after a step: %v (-want +got):\n%s", err, d)
	}
	keep(federation.Sample{At: start}) // the clock was set back
	got, err = record.Samples(t.Context(), start)
	if d := diff([]federation.Sample{{At: start, Step: newest}}, got); d != "" || err != nil {
		t.Errorf("Samples after the clock was set back: %v (-want +got):\n%s", err, d)
	}
}

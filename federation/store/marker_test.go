package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func (s suite) testMarkers(t *testing.T) {
	record := s.open(t)
	keep := func(target string, at, want int) {
		t.Helper()
		if got, err := record.KeepMarker(t.Context(), ada, target, federationtest.At(at)); err != nil || !got.Equal(federationtest.At(want)) {
			t.Errorf("marker of %s after %d is %v, %v", target, at, got, err)
		}
	}
	keep("#ops", 5, 5)
	keep("#ops", 3, 5)
	keep("#ops", 7, 7)
	keep(string(bob), 1, 1)
	markers, err := record.Markers(t.Context(), ada)
	if d := diff(map[string]time.Time{"#ops": federationtest.At(7), string(bob): federationtest.At(1)}, markers); err != nil || d != "" {
		t.Errorf("Markers: %v (-want +got):\n%s", err, d)
	}
	for n := range federation.MaxMarkers {
		keep(fmt.Sprintf("#room%d", n), 10+n, 10+n)
	}
	keep("#late", 2, 2) // older than all others, and kept until the next one
	if markers, err = record.Markers(t.Context(), ada); err != nil || len(markers) != federation.MaxMarkers+1 || markers["#ops"] != (time.Time{}) {
		t.Errorf("%d markers are kept, %v", len(markers), err)
	}
	if others, err := record.Markers(t.Context(), bob); err != nil || len(others) != 0 {
		t.Errorf("markers of another: %v, %v", others, err)
	}
}

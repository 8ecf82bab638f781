package home_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
)

func TestRatesSurviveAFloodOfFreshDIDs(t *testing.T) {
	t.Parallel()
	rates, now := home.NewRates(), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for rates.Take("did:key:heavy", 2, now) == 0 {
	}
	for n := range 100_000 { // more than are counted at once
		rates.Take(federation.DID(fmt.Sprint("did:key:", n)), 2, now)
	}
	if wait := rates.Take("did:key:heavy", 2, now); wait != 30*time.Second {
		t.Errorf("it waits %s, want 30s", wait)
	}
}

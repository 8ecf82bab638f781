//go:build long

package simulation_test

import (
	"testing"
	"time"
)

// manyTime bounds the run of many seeds.
const manyTime = 4 * time.Minute

// It runs the seeds that follow the seeds of the gate.
func TestManyFederations(t *testing.T) {
	newRun(t).seeds(t, between(seeds+1, 100_000), time.After(manyTime))
}

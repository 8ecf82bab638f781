//go:build long

package simulation_test

import "testing"

func TestSchedulesOfTwoFaults(t *testing.T) {
	(&exploration{newRun(t), 2}).all(t)
}

//go:build long

package simulation_test

import "testing"

func TestSchedulesOfTwoFaults(t *testing.T) {
	(&exploration{run: newRun(t), most: 2, kinds: map[string]int{}}).all(t)
}

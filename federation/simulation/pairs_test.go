//go:build pairs

package simulation_test

import "testing"

// It takes about an hour of two cores: go test -tags pairs ./federation/simulation -run TwoFaults -timeout 4h.
func TestSchedulesOfTwoFaults(t *testing.T) {
	(&exploration{newRun(t), 2}).all(t)
}

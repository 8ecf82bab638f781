//go:build mutants

package simulation_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// scheduled are the mutants that a schedule with one fault finds too.
var scheduled = []string{
	"a lost answer is taken for a receipt",
	"a ruling is not filed",
	"a failed delivery is settled",
	"a repeated step is judged again",
	"a pending step is not written",
	"a claimed handoff can be claimed again",
}

func TestSchedulesFindMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range mutants {
		if !slices.Contains(scheduled, m.name) {
			continue
		}
		found++
		t.Run(m.name, func(t *testing.T) {
			output, err := exec.CommandContext(t.Context(), buildMutant(t, root, m), "-test.run=^TestSchedules$").CombinedOutput()
			if err == nil {
				t.Error("no schedule finds it")
			}
			t.Logf("%.300s", output)
		})
	}
	if found != len(scheduled) {
		t.Errorf("%d of %d mutants exist", found, len(scheduled))
	}
}

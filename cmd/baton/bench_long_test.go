//go:build long

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"baton/cmd/baton/bench"
)

// The machine of a test is busy: the test looks at which figures there are, not at their size.
func TestBenchMeasuresRatiosAndDrawsThem(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "report.html")
	cmd := exec.CommandContext(t.Context(), program, "bench", "--quick", "--json", "-o", page)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var report bench.Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	ratios := 0
	for _, row := range report.Rows {
		if row.Value <= 0 || row.Floor != "" && row.Ratio <= 0 {
			t.Errorf("the figure %+v is nothing", row)
		}
		if row.Floor != "" {
			ratios++
		}
	}
	if ratios < 12 || len(report.Plots) != 4 {
		t.Errorf("%d ratios and %d plots, want at least 12 and 4", ratios, len(report.Plots))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "<svg"); got != 4 {
		t.Errorf("the page has %d plots, want 4", got)
	}
}

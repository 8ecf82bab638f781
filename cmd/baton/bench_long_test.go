//go:build long

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/cmd/baton/bench"
)

func TestBenchPrintsItsRowsAndDrawsThem(t *testing.T) {
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
	if !report.Quick {
		t.Error("the report does not say that less was measured")
	}
	checkRows(t, &report, benchRows())
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "<svg"); got != 4 {
		t.Errorf("the page has %d plots, want 4", got)
	}
}

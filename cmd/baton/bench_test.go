package main_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/cmd/baton/bench"
)

// tinyBench measures each row once, in a few seconds.
func tinyBench() bench.Sizes {
	return bench.Sizes{
		Callers: []int{1, 64}, Steps: 4, Submits: 4, Rounds: 1, Crossings: 1, Relayed: 8,
		Record: []int{100, 120}, Probes: 2, ProbeTime: 40 * time.Millisecond, Starts: 1, Floor: 8 * time.Millisecond,
	}
}

// benchRows are the names of the rows of that, in order. Scripts of operators know them.
func benchRows() []string {
	return []string{
		"verifications", "fsyncs", "idle-private-memory", "http-1", "http-1-verifications", "http-64", "http-64-verifications", "step-cpu",
		"submit-64", "submit-256", "postgres-64",
		"irc-to-airc-p50", "irc-to-airc-p99", "irc-to-irc-p50", "irc-to-irc-p99", "airc-to-irc-p50", "airc-to-irc-p99",
		"home-to-home", "large-append", "large-list", "large-inbox", "inbox-replay", "restart",
	}
}

// runTinyBench returns the report of a small bench with a PostgreSQL server or
// without.
func runTinyBench(t *testing.T, postgres string) *bench.Report {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	report, err := bench.Run(t.Context(), bench.Options{Program: path, Sizes: tinyBench(), Postgres: postgres, Begins: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// checkRows fails the test for a missing row or one without a finite number.
func checkRows(t *testing.T, report *bench.Report, want []string) {
	t.Helper()
	var names []string
	for _, row := range report.Rows {
		names = append(names, row.Name)
		if row.Missing == "" && !(isFigure(row.Value) && row.Unit != "" && row.What != "") || row.Missing != "" && row.Value != 0 {
			t.Errorf("the row %+v has no figure", row)
		}
		if row.Missing == "" && row.Floor != "" && !(isFigure(row.Bare) && isFigure(row.Ratio)) {
			t.Errorf("the row %+v has no ratio", row)
		}
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("the rows differ (-want +got):\n%s", d)
	}
	for _, plot := range report.Plots {
		for _, series := range plot.Series {
			if len(series.Points) == 0 {
				t.Errorf("plot %q has no points of %q", plot.Title, series.Name)
			}
			for _, point := range series.Points {
				if !isFigure(point[0]) || !isFigure(point[1]) {
					t.Errorf("plot %q has the point %v of %q", plot.Title, point, series.Name)
				}
			}
		}
	}
	if len(report.Plots) != 4 {
		t.Errorf("%d plots, want 4", len(report.Plots))
	}
}

func isFigure(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// The machine of a test is busy: the test looks at which figures there are, not at their size.
func TestBenchMeasuresEachRow(t *testing.T) {
	t.Parallel()
	report := runTinyBench(t, "")
	checkRows(t, report, benchRows())
	for _, row := range report.Rows {
		if want := row.Name == "postgres-64"; want != (row.Missing == "no PostgreSQL named") {
			t.Errorf("the row %s is not measured: %q", row.Name, row.Missing)
		}
	}
}

func TestBenchInterruptedLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "bench", "--quick")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, quickExit)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "a gateway of the bench", func() bool {
		_, err := os.Stat(firstIn(t, dir) + "/throughput/data/baton.db")
		return err == nil
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v, want code 1", err)
	}
	if left := firstIn(t, dir); left != "" {
		t.Errorf("it left %s", left)
	}
	if !strings.Contains(said.String(), "baton: bench: measure throughput: ") {
		t.Errorf("it said %q", said.String())
	}
}

// firstIn returns the path of the first entry of a folder, or "" for an empty folder.
func firstIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		return ""
	}
	return dir + "/" + entries[0].Name()
}

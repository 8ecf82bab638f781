package bench_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/cmd/baton/bench"
	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

// report has one row with a floor, one without, one not measured, and a plot.
func report() *bench.Report {
	return &bench.Report{
		System: "linux/amd64", Cores: 2,
		Rows: []bench.Row{
			{What: "steps", Value: 500, Unit: "/s", Floor: "bare server", Bare: 2000, Ratio: 0.25, Goal: ">= 0.60"},
			{What: "inbox <of> 1000", Value: 35.25, Unit: "ms"},
			{What: "commits", Unit: "/s", Floor: "raw", Missing: "no server"},
		},
		Plots: []plot.Plot{{Title: "Steps & callers", X: "callers", Y: "steps a second", Series: []plot.Series{
			{Name: "gateway", Points: [][2]float64{{1, 100}, {10, 400}, {100, 500}}},
			{Name: "bare", Points: [][2]float64{{1, 400}, {10, 1600}, {100, 2000}}},
		}}},
	}
}

func TestReportTableShowsEachFigureWithItsFloor(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := report().Write(&out); err != nil {
		t.Fatal(err)
	}
	want := []string{"steps 500 /s bare server 2000 /s 0.25 >= 0.60", "inbox <of> 1000 35.2 ms", "commits not measured: no server raw"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	for i, line := range lines {
		if got := strings.Join(strings.Fields(line), " "); i >= len(want) || got != want[i] {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("the table has %d rows, want %d", len(lines), len(want))
	}
}

func TestReportPageIsWellFormed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := report().WritePage(&out); err != nil {
		t.Fatal(err)
	}
	_, drawing, found := strings.Cut(out.String(), "<svg")
	drawing, _, closed := strings.Cut(drawing, "</svg>")
	if !found || !closed {
		t.Fatalf("the page has no drawing:\n%s", out.String())
	}
	lines, dots := elements(t, "<svg"+drawing+"</svg>")
	want := []string{
		"60.0,257.5 340.0,220.0 620.0,207.5 ", // 100, 400 and 500 of 2000, at even distances
		"60.0,220.0 340.0,70.0 620.0,20.0 ",
	}
	if len(lines) != 2 || lines[0] != want[0] || lines[1] != want[1] {
		t.Errorf("the lines are %q, want %q", lines, want)
	}
	if dots != 6 {
		t.Errorf("%d points are drawn, want 6", dots)
	}
	if !strings.Contains(out.String(), "inbox &lt;of&gt; 1000") {
		t.Error("the text of a row is not escaped")
	}
}

// elements returns the lines of a drawing, and how many points it has.
func elements(t *testing.T, drawing string) (lines []string, dots int) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(drawing))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return lines, dots
		}
		if err != nil {
			t.Fatalf("the drawing is no XML: %v", err)
		}
		element, begins := token.(xml.StartElement)
		switch {
		case begins && element.Name.Local == "circle":
			dots++
		case begins && element.Name.Local == "polyline":
			lines = append(lines, element.Attr[0].Value)
		}
	}
}

package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

// Report is the result of a run.
type Report struct {
	Measured time.Time   `json:"measured_at"`
	System   string      `json:"system"`
	Cores    int         `json:"cores"`
	Quick    bool        `json:"quick"`
	Rows     []Row       `json:"rows"`
	Plots    []plot.Plot `json:"plots"`
}

// Row is one figure, and its floor if it has one.
type Row struct {
	Name    string  `json:"name"` // of the row, the same in each release
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Floor   string  `json:"floor,omitempty"`
	Bare    float64 `json:"floor_value,omitempty"`  // of the floor, in the same unit
	Ratio   float64 `json:"ratio,omitempty"`        // of the value to that of the floor
	Goal    string  `json:"goal,omitempty"`         // of the project: for the ratio, or with a unit for the value
	Missing string  `json:"not_measured,omitempty"` // why there is no value
}

func (r *Report) add(row Row) {
	if row.Bare > 0 {
		row.Ratio = row.Value / row.Bare
	}
	r.Rows = append(r.Rows, row)
}

// Write prints the rows as a table.
func (r *Report) Write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tMEASURED\tFLOOR\tTHE FLOOR'S\tRATIO\tGOAL")
	for _, row := range r.Rows {
		bare, ratio := "", ""
		if row.Bare > 0 {
			bare, ratio = figure(row.Bare, row.Unit), plot.Number(row.Ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", row.What, row.Figure(), row.Floor, bare, ratio, row.Goal)
	}
	return t.Flush()
}

// Figure returns the value with its unit, or the reason for its absence.
func (row Row) Figure() string {
	if row.Missing != "" {
		return "not measured: " + row.Missing
	}
	return figure(row.Value, row.Unit)
}

func figure(value float64, unit string) string { return plot.Number(value) + " " + unit }

// percentile sorts the times.
func percentile(took []time.Duration, percent float64) time.Duration {
	slices.Sort(took)
	return took[int(float64(len(took)-1)*percent/100)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

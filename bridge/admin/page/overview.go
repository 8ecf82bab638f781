package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

func loadOverview(r request) (view, error) {
	s, err := call(r, admin.GetStatus, route.None{})
	if err != nil {
		return view{}, err
	}
	now := section{ID: "status", Command: "baton status"}
	for _, each := range render.StatusDetails(s) {
		now.Details = append(now.Details, r.about(each.Name, each.Value))
	}
	warnings := list[admin.Diagnosis]{Table: render.Warnings, id: "warnings", page: admin.Page[admin.Diagnosis]{Items: render.StatusWarnings(s)}}
	if s.Examined.IsZero() {
		warnings.Empty = "The first checks are not done yet."
	}
	feeds := list[admin.Shape]{Table: render.Shapes, id: "waiting", page: admin.Page[admin.Shape]{Items: s.Feeds}}
	feeds.Caption = "What waits"
	hours := list[render.Hour]{Table: render.Hours, id: "hours", page: admin.Page[render.Hour]{Items: render.HoursOf(s.Samples)}}
	last := section{ID: "charts", Title: "Last day", Charts: chartsOf(s, r.now), Command: "baton status --json"}
	return view{Title: "Overview", Sections: []section{now, warnings.section(r), feeds.section(r), last, hours.section(r)}}, nil
}

type chart struct {
	ID, Name, Words string
	Area, Line      string // paths
}

// The size of a chart. A unit is five minutes wide.
const (
	chartWidth  = int(federation.ChartAge / federation.ChartEvery)
	chartHeight = 48
)

func chartsOf(s admin.Status, now time.Time) []chart {
	series := func(value func(admin.Sample) int) []int {
		all := make([]int, len(s.Samples))
		for i, sample := range s.Samples {
			all[i] = value(sample)
		}
		return all
	}
	down := 0
	for _, l := range s.Links {
		if !l.Works() {
			down++
		}
	}
	steps := series(func(s admin.Sample) int { return int(s.Steps) })
	return []chart{
		newChart(s.Samples, now, "steps", "Steps filed in five minutes", "", last(steps), steps),
		newChart(s.Samples, now, "waiting", "Waiting deliveries", "", s.Waiting, series(func(s admin.Sample) int { return s.Waiting })),
		newChart(s.Samples, now, "dead", "Dead letters", "", s.Dead, series(func(s admin.Sample) int { return s.Dead })),
		newChart(s.Samples, now, "down", "Links that do not work", "", down, series(func(s admin.Sample) int { return s.Down })),
		newChart(s.Samples, now, "disk", "Free disk", " %", s.Disk, series(func(s admin.Sample) int { return s.Disk })),
	}
}

func last(values []int) int {
	if len(values) == 0 {
		return 0
	}
	return values[len(values)-1]
}

// Missing samples leave a gap.
func newChart(samples []admin.Sample, now time.Time, id, name, unit string, current int, values []int) chart {
	c := chart{ID: id, Name: name, Words: fmt.Sprintf("%d%s now", current, unit)}
	if len(values) == 0 {
		return c
	}
	least, most := 0, 0
	for i, v := range values {
		if v < values[least] {
			least = i
		}
		if v > values[most] {
			most = i
		}
	}
	clock := func(i int) string { return "at " + time.Time(samples[i].Time).UTC().Format("15:04") }
	low, lowAt, high, highAt := values[least], clock(least), values[most], clock(most)
	if current < low {
		low, lowAt = current, "now"
	}
	if current > high {
		high, highAt = current, "now"
	}
	c.Words += fmt.Sprintf("; least %d%s %s, most %d%s %s", low, unit, lowAt, high, unit, highAt)
	top := max(values[most], 1)
	if unit == " %" {
		top = 100
	}
	var area, line strings.Builder
	for start := 0; start < len(samples); {
		end := start + 1
		for end < len(samples) && time.Time(samples[end].Time).Sub(time.Time(samples[end-1].Time)) < 2*federation.ChartEvery {
			end++
		}
		x := func(i int) float64 {
			return float64(chartWidth) - float64(now.Sub(time.Time(samples[i].Time)))/float64(federation.ChartEvery)
		}
		fmt.Fprintf(&area, "M%.1f %d", x(start), chartHeight)
		for i := start; i < end; i++ {
			verb := "L"
			if i == start {
				verb = "M"
			}
			y := float64(chartHeight) - 1 - float64(values[i]*(chartHeight-2))/float64(top)
			fmt.Fprintf(&line, "%s%.1f %.1f", verb, x(i), y)
			fmt.Fprintf(&area, "L%.1f %.1f", x(i), y)
		}
		line.WriteString("h1") // a sample covers five minutes
		fmt.Fprintf(&area, "h1V%dZ", chartHeight)
		start = end
	}
	c.Area, c.Line = area.String(), line.String()
	return c
}

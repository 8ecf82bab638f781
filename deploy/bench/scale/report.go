package main

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/template"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
	"github.com/baton-gateway/baton/deploy/bench/scale/model"
)

//go:embed report.md.tmpl
var reportText string

// The hub's machine in the runs, and the outage: one hour in the busiest part of the day.
const (
	hubCores              = 8
	outageFrom            = 12
	outageHour, outageEnd = 13, 16
)

type report struct {
	Seed     uint64
	Sizes    []int
	Costs    model.Costs
	Behavior model.Behavior
	Today    []*model.Result
	Planned  []*model.Result
	Outages  []*model.Result // of today
	Cores    float64
}

func simulate(sizes []int, seed uint64) (*report, error) {
	costs, err := model.Measured()
	if err != nil {
		return nil, err
	}
	r := &report{Seed: seed, Sizes: sizes, Costs: costs, Behavior: model.Assumed(), Cores: hubCores}
	for _, n := range sizes {
		cfg := model.Config{
			Seed: seed, Homes: n, Hours: 24, Costs: costs, Behavior: r.Behavior, Protocol: model.Today(costs), HubCores: hubCores,
		}
		r.Today = append(r.Today, model.Run(cfg))
		cfg.Protocol = model.Planned()
		r.Planned = append(r.Planned, model.Run(cfg))
		cfg.Protocol = model.Today(costs)
		cfg.From, cfg.Hours, cfg.Outage = outageFrom, outageEnd-outageFrom, &model.Outage{Home: n / 2, Hour: outageHour, Hours: 1}
		r.Outages = append(r.Outages, model.Run(cfg))
	}
	return r, nil
}

func (r *report) write(to io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"n": grouped, "size": size, "time": shortly, "number": plot.Number, "percent": percent,
		"mul": func(a, b float64) float64 { return a * b }, "f": func(n int64) float64 { return float64(n) }, "f64": func(n int) float64 { return float64(n) }, "kinds": model.Kinds,
		"row": func(i int, name string, result *model.Result) tableRow { return tableRow{r.Sizes[i], name, result} },
	}).Parse(reportText)
	if err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	return t.Execute(to, r)
}

type tableRow struct {
	Homes int
	Name  string
	R     *model.Result
}

type limit struct {
	Resource, ForEach string
	Small, Large      int
}

const (
	smallCores, smallMemory, smallDisk = 2, 4 << 30, 80 << 30
	largeCores, largeMemory, largeDisk = hubCores, 32 << 30, 1 << 40
)

// fsync is the duration in seconds of "one append of 1 KiB with fsync" in deploy/bench/README.md.
const fsync = 0.29e-3

// diskShare is the default share of the free disk for streams, see max_file_store. A server refuses
// accounts whose limits exceed it.
const diskShare = 0.75

// Limits returns the resources of a hub, with the number of homes supported by each of two
// machines.
func (r *report) Limits() []limit {
	c, p := r.Costs, model.Today(r.Costs)
	greeting := (p.Greetings + p.Profiles) * c.HubExchangeCPU
	row := func(resource, each string, cost, small, large float64) limit {
		return limit{resource, each, model.MostHomes(small, cost), model.MostHomes(large, cost)}
	}
	return []limit{
		row("disk: a stored message takes one fsync", shortly(2*(p.Greetings+p.Profiles)*fsync)+" a second", 2*(p.Greetings+p.Profiles)*fsync, 1, 1),
		row("processors: greetings and idle streams", shortly(greeting+c.HubStreamCPU())+" a second", greeting+c.HubStreamCPU(), smallCores, largeCores),
		row("disk: the room reserved for streams", size(model.StreamBytes), model.StreamBytes, diskShare*smallDisk, diskShare*largeDisk),
		row("memory: streams and their readers", size(c.HubStreamBytes), c.HubStreamBytes, smallMemory, largeMemory),
	}
}

func (r *report) plots() map[string]plot.Plot {
	causes := plot.Plot{Title: "Messages of a home with the hub, a day", X: "homes", Y: "messages, logarithmic", LogY: true}
	for i, cause := range r.Today[0].Causes {
		if cause.Messages == 0 {
			continue // idle streams store no messages
		}
		line := plot.Series{Name: cause.Name}
		for k, result := range r.Today {
			line.Points = append(line.Points, [2]float64{float64(r.Sizes[k]), result.Causes[i].Messages})
		}
		causes.Series = append(causes.Series, line)
	}
	traffic := plot.Plot{Title: "Bytes of the mean home with the hub, a day", X: "homes", Y: "megabytes, logarithmic", LogY: true, Series: []plot.Series{{Name: "today"}, {Name: "planned"}}}
	cores := plot.Plot{Title: "Processors of the hub in the busiest minute", X: "homes", Y: "processors, logarithmic", LogY: true, Series: []plot.Series{{Name: "today"}, {Name: "planned"}}}
	for i, results := range [][]*model.Result{r.Today, r.Planned} {
		for k, result := range results {
			traffic.Add(i, float64(r.Sizes[k]), result.MeanBytes()/(1<<20))
			cores.Add(i, float64(r.Sizes[k]), result.HubBusyCores)
		}
	}
	return map[string]plot.Plot{"scale-messages.svg": causes, "scale-bytes.svg": traffic, "scale-hub.svg": cores}
}

// grouped formats a whole number with commas, or a small number with three digits.
func grouped(value float64) string {
	if value < 10 && value != math.Trunc(value) {
		return plot.Number(value)
	}
	text := strconv.FormatFloat(math.Round(value), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for bytes >= 1024 && len(units) > 1 {
		bytes, units = bytes/1024, units[1:]
	}
	return plot.Number(bytes) + " " + units[0]
}

func shortly(seconds float64) string {
	switch {
	case seconds <= 0:
		return "-"
	case seconds < 1e-3:
		return plot.Number(seconds*1e6) + " µs"
	case seconds < 1:
		return plot.Number(seconds*1e3) + " ms"
	case seconds < 120:
		return plot.Number(seconds) + " s"
	case seconds < 7200:
		return plot.Number(seconds/60) + " min"
	}
	return plot.Number(seconds/3600) + " h"
}

func percent(share float64) string { return plot.Number(share*100) + " %" }

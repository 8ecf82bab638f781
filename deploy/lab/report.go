package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

type report struct {
	outcome outcome
	chaos   *chaos
	began   time.Time
	seed    uint64
}

type kind struct {
	Name, Places string
	Count        int
	Median, Most time.Duration // times until all pairs of agents worked again
}

var page = template.Must(template.New("").Parse(`# Losses under faults

**{{.Steps}} acknowledged steps, {{.Faults}} faults, {{.Lost}} lost, {{.Twice}} twice.** The steps are of {{.Offers}} handoffs, of which {{.Others}} were
not completed.

` + "```sh" + ` needs="Linux, root, half an hour"
make proof
` + "```" + `

The run began on {{.Date}}, lasted {{.Time}}, and had seed {{.Seed}}. Three homes hand work to each other through a hub of three NATS
servers. Agents offer work by REST, in a channel of InspIRCd, and by AIRC; each of them to agents that take it by REST, AIRC and
A2A. One home has its record in PostgreSQL. [proof](proof) starts all of it, and [the lab](../lab/main.go) causes the faults.

An offer counts once a gateway has acknowledged it: with a 2xx, or with a line in the channel. At the end the lab reads the inboxes
from their start, and the log of each handoff at the homes of both parties:

| figure | counts |
|---|---|
| lost | offers that are in no inbox of their worker, and answers that are in no inbox of their offerer |
| twice | the same, if they are there more than once, or if an A2A agent got a second task |
| not completed | handoffs whose log at either home is not offer, accept, complete |
| refused | offers that a gateway refused: {{.Refused}}. They are not acknowledged |

![Offers that were acknowledged, and faults](proof.svg)

| fault | at | times | median until recovered | longest |
|---|---|---:|---:|---:|
{{range .Kinds}}| {{.Name}} | {{.Places}} | {{.Count}} | {{.Median}} | {{.Most}} |
{{end}}
| fault | is |
|---|---|
| kill | ` + "`kill -9`" + ` of a process, which starts again after 1 s to 10 s |
| freeze | SIGSTOP, and SIGCONT after 1 s to 10 s |
| cut | all connections of a path are closed, and new ones too |
| stall | connections of a path stay open and carry nothing |
| fill | the disk has no byte left |
| two | two of these at the same time. Each also counts in its own row |

Recovered means that each worker got a new offer of each offerer. The time begins at the end of the fault, and half a second is the
time between two offers. Clocks are not stepped: all processes have the clock of the machine. The
[simulation](../../federation/simulation) steps them.
`))

func (r report) write(path string) error {
	values := map[string]any{
		"Refused": r.chaos.load.refused,
		"Offers":  r.outcome.offers, "Steps": r.outcome.steps, "Lost": len(r.outcome.lost), "Twice": len(r.outcome.twice), "Others": len(r.outcome.others),
		"Date": r.began.UTC().Format(time.DateOnly), "Time": r.lasted().Round(time.Second), "Seed": r.seed, "Kinds": r.kinds(),
	}
	faults := 0
	for _, e := range r.chaos.events {
		faults += len(e.faults)
	}
	values["Faults"] = faults
	var text bytes.Buffer
	if err := page.Execute(&text, values); err != nil {
		return err
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return err
	}
	var drawing bytes.Buffer
	p := r.plot()
	if err := p.WriteSVG(&drawing); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(path), "proof.svg"), drawing.Bytes(), 0o600)
}

func (r report) lasted() time.Duration {
	return r.chaos.events[len(r.chaos.events)-1].over.Sub(r.began)
}

func (r report) kinds() []kind {
	recovered, places := map[string][]time.Duration{}, map[string][]string{}
	for _, e := range r.chaos.events {
		for _, f := range e.faults {
			recovered[f.kind] = append(recovered[f.kind], e.recovered)
			places[f.kind] = append(places[f.kind], f.at)
		}
		if len(e.faults) > 1 {
			recovered["two"] = append(recovered["two"], e.recovered)
			places["two"] = []string{"any"}
		}
	}
	var kinds []kind
	for _, name := range []string{"kill", "freeze", "cut", "stall", "fill", "two"} {
		times := recovered[name]
		if len(times) == 0 {
			continue
		}
		slices.Sort(times)
		slices.Sort(places[name])
		kinds = append(kinds, kind{
			name, strings.Join(slices.Compact(places[name]), ", "), len(times),
			times[len(times)/2].Round(10 * time.Millisecond), times[len(times)-1].Round(10 * time.Millisecond),
		})
	}
	return kinds
}

const plotStep = 5 * time.Second

func (r report) plot() plot.Plot {
	counts := make([]int, int(r.lasted()/plotStep)+1)
	for _, offer := range r.chaos.load.acked {
		if i := int(offer.at.Sub(r.began) / plotStep); i >= 0 && i < len(counts) {
			counts[i]++
		}
	}
	p := plot.Plot{
		Title: "Offers acknowledged during faults", X: "seconds", Y: fmt.Sprintf("offers acknowledged in %s; bars are faults", plotStep), LinearX: true,
		Series: []plot.Series{{Name: "offers"}},
	}
	for i, n := range counts {
		p.Add(0, (time.Duration(i) * plotStep).Seconds(), float64(n))
	}
	for _, e := range r.chaos.events {
		p.Bands = append(p.Bands, [2]float64{e.began.Sub(r.began).Seconds(), e.over.Sub(r.began).Seconds()})
	}
	return p
}

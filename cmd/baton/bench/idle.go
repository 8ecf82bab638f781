package bench

import "time"

// idleAfter is the idle time of a ready gateway before its memory is measured.
const idleAfter = time.Second

// measureIdle measures the private memory of a gateway with no callers yet. The pages of the program
// are not in it: the system shares and drops them.
func (r *run) measureIdle(g *gateway) {
	time.Sleep(idleAfter)
	row := Row{Name: "idle-private-memory", What: "private memory of an idle gateway", Unit: "MiB", Goal: "<= 20 MiB"}
	var told bool
	if row.Value, told = g.private(); !told {
		row.Missing = "this system does not report it"
	}
	r.report.add(row)
}

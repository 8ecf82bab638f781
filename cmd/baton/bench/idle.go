package bench

import "time"

const idleAfter = time.Second

// measureIdle measures the private memory of a gateway without callers. It omits pages of the
// program, which the system shares and drops.
func (r *run) measureIdle(g *gateway) {
	time.Sleep(idleAfter)
	row := Row{Name: "idle-private-memory", What: "private memory of an idle gateway", Unit: "MiB", Goal: "<= 20 MiB"}
	var told bool
	if row.Value, told = g.private(); !told {
		row.Missing = "this system does not report it"
	}
	r.report.add(row)
}

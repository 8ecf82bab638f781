package bench

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// idleAfter is the idle time of a ready gateway before its memory is measured.
const idleAfter = time.Second

// measureIdle measures the memory of a gateway with no callers yet. The floor is the program
// that prints its version.
func (r *run) measureIdle(ctx context.Context, g *gateway) error {
	bare := exec.CommandContext(ctx, r.program, "version") //nolint:gosec // the program is this one
	if err := bare.Run(); err != nil {
		return fmt.Errorf("print version: %w", err)
	}
	time.Sleep(idleAfter)
	row := Row{Name: "idle-memory", What: "memory of an idle gateway", Unit: "MiB", Floor: printsVersion, Goal: "<= 40 MiB"}
	size, told := g.resident()
	usage, counted := bare.ProcessState.SysUsage().(*syscall.Rusage)
	if !told || !counted {
		row.Missing = "this system does not tell"
	} else {
		row.Value, row.Bare = size, float64(usage.Maxrss)/kib
	}
	r.report.add(row)
	return nil
}

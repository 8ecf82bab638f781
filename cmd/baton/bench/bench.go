// Package bench measures what a gateway costs on the machine that it runs on. It starts the
// program as an operator starts it, with a record of its own and without limits, and calls it
// over loopback sockets. Each figure is compared with a floor that is measured by turns in
// the same run: what the same machine does without a gateway.
//
// The floors are bare Ed25519 verifications on all cores, a server that only verifies a step
// and files it as one row, and sockets with one write to the disk between them. Ratios travel
// from one machine to another; absolute figures do not.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Options say what is measured.
type Options struct {
	Program string               // of the gateway, which is started with the command serve
	Quick   bool                 // half a minute instead of three
	Begins  func(subject string) // called before each subject
}

// sizes are how much is measured of each subject.
type sizes struct {
	callers []int // at a time, for the throughput
	steps   int   // of so many callers, at most
	irc     int   // crossings of each kind by one client of IRC
	clients int   // of IRC
	record  []int // steps in the record at which its cost is measured
	probes  int   // of it
	floor   time.Duration
}

func (o Options) sizes() sizes {
	if o.Quick {
		return sizes{
			callers: []int{1, 16, 64}, steps: 2000, irc: 25, clients: 2,
			record: []int{1000, 4000}, probes: 60, floor: 300 * time.Millisecond,
		}
	}
	return sizes{
		callers: []int{1, 4, 16, 64, 256}, steps: 8000, irc: 25, clients: 8,
		record: []int{1000, 4000, 16000, 48000}, probes: 200, floor: time.Second,
	}
}

// run is one run of all measurements.
type run struct {
	sizes

	dir     string
	program string
	floors  floors
	report  *Report
}

// Run measures everything. It blocks for up to three minutes, on a busy machine for longer. It
// leaves no process and no file behind.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{sizes: o.sizes(), dir: dir, program: o.Program, report: &Report{
		Measured: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Quick: o.Quick,
	}}
	for _, subject := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"floors", r.measureFloors},
		{"throughput", r.measureThroughput},
		{"latency", r.measureLatency},
		{"size of the record", r.measureRecord},
	} {
		o.Begins(subject.name)
		if err := subject.measure(ctx); err != nil {
			return nil, fmt.Errorf("measure %s: %w", subject.name, err)
		}
	}
	return r.report, nil
}

// folder makes a folder for one subject.
func (r *run) folder(name string) (string, error) {
	path := filepath.Join(r.dir, name)
	return path, os.Mkdir(path, 0o700)
}

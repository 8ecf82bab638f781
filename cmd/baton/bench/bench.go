// Package bench measures the cost of a gateway on its machine. It starts the program as an operator
// does, with a new record and without limits, and calls it over loopback sockets. Each figure is
// compared with a floor measured alternately in the same run: the performance of the same machine
// without a gateway. Ratios are comparable between machines; absolute figures are not.
//
// The floors are bare Ed25519 verifications on all cores, and sockets with one disk write between
// them. Others are a server that only verifies a step and files it as one row, and a pair of such
// servers. PostgreSQL is compared with bare commits, and a large record with a small one.
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

// Options selects the measurements.
type Options struct {
	Program  string // the gateway, started with the command serve
	Sizes    Sizes
	Postgres string // connection string of a server for schemas of the run; "" skips PostgreSQL
	Begins   func(subject string)
}

// Sizes are the amounts to measure.
type Sizes struct {
	Quick     bool
	Callers   []int         // numbers of concurrent callers
	Steps     int           // maximum number of steps
	Submits   int           // without HTTP
	Rounds    int           // of IRC clients and agents
	Crossings int           // of each kind per round
	Relayed   int           // steps from one home to another
	Record    []int         // steps in the record at each measurement of its cost; the first is the small record
	Probes    int           // number of measurements of each of these costs
	ProbeTime time.Duration // duration of these measurements
	Starts    int           // number of restarts after a kill
	Floor     time.Duration // duration of each measurement of a bare rate
	Limit     time.Duration // time after which no record grows; 0 for no limit
}

// Full takes less than three minutes, unless the machine is very busy.
func Full() Sizes {
	return Sizes{
		Callers: []int{1, 4, 16, 64, 256}, Steps: 8000, Submits: 8000, Rounds: 8, Crossings: 25, Relayed: 6000,
		Record: []int{10_000, 30_000, 100_000}, Probes: 200, ProbeTime: probeTime, Starts: 3, Floor: time.Second, Limit: 150 * time.Second,
	}
}

// Quick takes half a minute.
func Quick() Sizes {
	return Sizes{
		Quick: true, Callers: []int{1, 16, 64}, Steps: 2000, Submits: 2000, Rounds: 2, Crossings: 25, Relayed: 1200,
		Record: []int{1000, 4000}, Probes: 60, ProbeTime: probeTime, Starts: 1, Floor: 300 * time.Millisecond, Limit: 25 * time.Second,
	}
}

// Reach lets the record grow to a number of steps, without a time limit.
func (s Sizes) Reach(steps int) Sizes {
	var record []int
	for _, size := range s.Record {
		if size < steps {
			record = append(record, size)
		}
	}
	s.Record, s.Limit = append(record, steps), 0
	return s
}

type run struct {
	Sizes

	began    time.Time
	dir      string
	program  string
	postgres string
	verify   func() error
	report   *Report
}

// Run runs all measurements. It blocks for as long as the sizes take, longer on a busy machine. It
// leaves no process and no file behind, even if ctx ends.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	now := time.Now()
	r := &run{Sizes: o.Sizes, began: now, dir: dir, program: o.Program, postgres: o.Postgres, report: &Report{
		Measured: now.UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Quick: o.Sizes.Quick,
	}}
	for _, subject := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"floors", r.measureFloors},
		{"throughput", r.measureThroughput},
		{"steps without HTTP", r.measureSubmit},
		{"PostgreSQL", r.measurePostgres},
		{"latency", r.measureLatency},
		{"two homes", r.measureHomes},
		{"size of the record", r.measureRecord},
	} {
		o.Begins(subject.name)
		err := subject.measure(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("measure %s: %w", subject.name, context.Cause(ctx)) // err only reports a lost gateway
		}
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", subject.name, err)
		}
	}
	return r.report, nil
}

func (r *run) folder(name string) (string, error) {
	path := filepath.Join(r.dir, name)
	return path, os.Mkdir(path, 0o700)
}

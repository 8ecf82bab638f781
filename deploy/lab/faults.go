package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type deployment struct {
	*processes

	wires map[string]*wire
	disks map[string]string // folders of separate filesystems
}

type fault struct{ kind, at string }

// String implements [fmt.Stringer].
func (f fault) String() string { return f.kind + " " + f.at }

func readDeployment(ctx context.Context, folder string) (*deployment, error) {
	all, err := readProcesses(folder)
	if err != nil {
		return nil, err
	}
	d := &deployment{processes: all, wires: map[string]*wire{}, disks: map[string]string{}}
	wires, err := readNames(folder, "wires")
	if err != nil {
		return nil, err
	}
	for _, fields := range wires {
		w, err := newWire(ctx, fields[1:])
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.wires[fields[0]] = w
	}
	disks, err := readNames(folder, "disks")
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	for _, fields := range disks {
		d.disks[fields[0]] = fields[1]
	}
	return d, nil
}

// An absent file is empty.
func readNames(folder, name string) ([][]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all [][]string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("%s: want a name and more words, not %q", name, line)
		}
		all = append(all, fields)
	}
	return all, nil
}

func (d *deployment) close() error {
	var errs []error
	for _, w := range d.wires {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

func (d *deployment) begin(f fault) error {
	wire, disk := d.wires[f.at], d.disks[f.at]
	switch {
	case f.kind == "kill":
		return d.kill(f.at)
	case f.kind == "freeze":
		return d.freeze(f.at)
	case f.kind == "cut" && wire != nil:
		wire.cut()
	case f.kind == "stall" && wire != nil:
		wire.stall()
	case f.kind == "fill" && disk != "":
		return fill(filepath.Join(disk, ballast))
	default:
		return fmt.Errorf("there is no fault %s", f)
	}
	return nil
}

func (d *deployment) end(ctx context.Context, f fault) error {
	switch f.kind {
	case "kill":
		return d.restart(ctx, f.at)
	case "freeze":
		return d.thaw(f.at)
	case "fill":
		return os.Remove(filepath.Join(d.disks[f.at], ballast))
	default:
		d.wires[f.at].mend()
		return nil
	}
}

const ballast = "ballast"

func fill(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, size := range []int{1 << 20, 1 << 12, 1} { // the last bytes too
		for block := make([]byte, size); err == nil; {
			_, err = file.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, file.Close())
		}
		err = nil
	}
	return file.Close()
}

// inTurn prints the longest time without an offer to a worker.
func inTurn(ctx context.Context, d *deployment, l *load, names []string) error {
	if err := wait(ctx, calmTime); err != nil {
		return err
	}
	for _, name := range names {
		killed := time.Now()
		if err := d.kill(name); err != nil {
			return err
		}
		if err := wait(ctx, downTime); err != nil {
			return err
		}
		if err := d.restart(ctx, name); err != nil {
			return err
		}
		if err := l.recovers(ctx, time.Now(), recoverTime); err != nil {
			return fmt.Errorf("after kill -9 of %s: %w", name, err)
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "kill -9 %s: longest gap %s\n", name, l.longestGap(killed, time.Now()).Round(10*time.Millisecond))
	}
	return nil
}

type chaos struct {
	*deployment

	load   *load
	faults []fault
	random *rand.Rand
	events []event
}

type event struct {
	faults      []fault
	began, over time.Time
	recovered   time.Duration // from the end of the faults until all workers got offers of all offerers
	revived     []string
}

// A line has a kind of fault and the names of processes, wires or disks.
func newChaos(folder string, d *deployment, l *load, seed uint64) (*chaos, error) {
	lines, err := readNames(folder, "faults")
	if err != nil {
		return nil, err
	}
	c := &chaos{deployment: d, load: l, random: rand.New(rand.NewPCG(seed, 0))} // the seed repeats a run
	for _, fields := range lines {
		for _, at := range fields[1:] {
			c.faults = append(c.faults, fault{fields[0], at})
		}
	}
	if len(c.faults) == 0 {
		return nil, errors.New("the file faults has none")
	}
	return c, nil
}

// No fault is repeated before all others have occurred.
func (c *chaos) run(ctx context.Context, during time.Duration) error {
	var left []fault
	for end := time.Now().Add(during); time.Now().Before(end); {
		if len(left) < 2 {
			again := slices.Clone(c.faults)
			c.random.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
			left = append(left, again...)
		}
		count := 1
		if left[0].at != left[1].at && c.random.IntN(4) == 0 {
			count = 2
		}
		if err := c.one(ctx, left[:count]); err != nil {
			return fmt.Errorf("%v: %w", left[:count], err)
		}
		left = left[count:]
		if err := wait(ctx, c.between(time.Second, 4*time.Second)); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) one(ctx context.Context, faults []fault) error {
	e := event{faults: slices.Clone(faults), began: time.Now()}
	for _, f := range faults {
		if err := c.begin(f); err != nil {
			return err
		}
	}
	if err := wait(ctx, c.between(time.Second, 10*time.Second)); err != nil {
		return err
	}
	for _, f := range faults {
		if err := c.end(ctx, f); err != nil {
			return err
		}
	}
	e.over = time.Now()
	for {
		revived, err := c.revive(ctx)
		e.revived = append(e.revived, revived...)
		if err != nil {
			return err
		}
		err = c.load.recovers(ctx, e.over, time.Second)
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(e.over) > chaosRecoverTime {
			return err
		}
	}
	e.recovered = time.Since(e.over)
	c.events = append(c.events, e)
	fmt.Fprintf(os.Stdout, "%v for %s: recovered in %s %v\n", e.faults, e.over.Sub(e.began).Round(time.Second), e.recovered.Round(10*time.Millisecond), e.revived)
	return nil
}

func (c *chaos) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.random.Int64N(int64(high-low)))
}

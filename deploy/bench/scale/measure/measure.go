// Package measure measures the constants of the model: the messages between real gateways through a
// hub, and the cost of streams at a hub with the relays of many homes.
package measure

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/baton-gateway/baton/deploy/bench/scale/model"
	"github.com/baton-gateway/baton/federation/relay"
)

const patience = time.Minute

func await(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// All measures all constants. It takes some minutes, and needs the program baton in the PATH.
func All(ctx context.Context) (c model.Costs, err error) {
	dir, err := os.MkdirTemp("", "scale")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Measured, c.System = time.Now().UTC().Format(time.DateOnly), fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	c.VerifyCPU = verification()
	if err := hubCosts(ctx, dir, &c); err != nil {
		return c, fmt.Errorf("hub: %w", err)
	}
	if err := homeCosts(ctx, dir, &c); err != nil {
		return c, fmt.Errorf("homes: %w", err)
	}
	return c, nil
}

// verification returns the seconds of one Ed25519 verification of 1 KiB. It measures several rounds
// and returns the fastest, because other work takes part of the time.
func verification() float64 {
	const rounds, times = 400, 20
	public, private, _ := ed25519.GenerateKey(nil) // the error is that of a nil reader
	message := make([]byte, 1<<10)
	signature := ed25519.Sign(private, message)
	fastest := math.Inf(1)
	for range rounds {
		begun := time.Now()
		for range times {
			ed25519.Verify(public, message, signature)
		}
		fastest = min(fastest, time.Since(begun).Seconds()/times)
	}
	return fastest
}

// The sizes of the measured meshes, and the durations of their measurements.
const (
	smallMesh, largeMesh = 8, 24
	idleTime             = 20 * time.Second
	busyTime             = 8 * time.Second
	busyPairs            = 16
)

type hubUse struct {
	streams              float64
	opened               float64 // seconds until all streams have carried a message
	bytes, disk, config  float64
	files                int
	pullCPU              float64 // seconds per request of an idle stream, including its end
	greetingCPU, busyCPU float64 // seconds per exchange: of a greeting, and at the highest rate
	rate                 float64
}

// The difference between two meshes is the cost of a stream.
func hubCosts(ctx context.Context, dir string, c *model.Costs) error {
	small, err := useHub(ctx, filepath.Join(dir, "small"), smallMesh)
	if err != nil {
		return err
	}
	large, err := useHub(ctx, filepath.Join(dir, "large"), largeMesh)
	if err != nil {
		return err
	}
	more := large.streams - small.streams
	c.HubStreamBytes = (large.bytes - small.bytes) / more
	c.HubStreamFiles = float64(large.files-small.files) / more
	c.HubStreamDisk = (large.disk - small.disk) / more
	c.HubPairConfig = (large.config - small.config) / more
	c.HubStreamStart = large.opened / large.streams
	c.HubPullCPU, c.HubExchangeCPU, c.HubBusyExchangeCPU, c.HubExchangeRate = large.pullCPU, large.greetingCPU, large.busyCPU, large.rate
	return nil
}

func useHub(ctx context.Context, dir string, homes int) (u hubUse, err error) {
	names := homeNames(homes)
	u.streams = float64(homes * (homes - 1))
	hub, url, err := openHub(ctx, dir, names)
	if err != nil {
		return u, err
	}
	defer hub.stop()
	t, err := newTap(ctx, strings.TrimPrefix(url, "nats://"))
	if err != nil {
		return u, err
	}
	defer t.close()
	begun := time.Now()
	m, err := openMesh(ctx, dir, t.url(), names)
	if err != nil {
		return u, err
	}
	defer m.close()
	u.opened = time.Since(begun).Seconds()
	// Other work may slow the hub, so the load is measured by message counts, not by time.
	phase := func(do func() error) (used time.Duration, counts map[way]tally, err error) {
		before, err := hub.usage()
		if err != nil {
			return 0, nil, err
		}
		t.reset()
		if err := do(); err != nil {
			return 0, nil, err
		}
		after, err := hub.usage()
		u.bytes, u.files = after.bytes, after.files
		return after.cpu - before.cpu, t.reset(), err
	}
	used, counts, err := phase(func() error { return sleep(ctx, idleTime) })
	if err != nil {
		return u, err
	}
	u.pullCPU = used.Seconds() / float64(counts[way{true, kindPull}].messages)
	if u.disk, err = diskOf(streams(dir)); err != nil {
		return u, err
	}
	config, err := os.Stat(filepath.Join(dir, relay.HubFile))
	if err != nil {
		return u, err
	}
	u.config = float64(config.Size())
	idleBytes, idleFiles := u.bytes, u.files
	used, counts, err = phase(func() error { m.exchanges(ctx, busyTime); return nil })
	if err != nil {
		return u, err
	}
	of := func() float64 {
		return (used.Seconds() - u.pullCPU*float64(counts[way{true, kindPull}].messages)) / float64(exchanged(counts))
	}
	u.busyCPU, u.rate = of(), float64(exchanged(counts))/busyTime.Seconds()
	m.greet()
	if used, counts, err = phase(func() error { return sleep(ctx, watchTime) }); err != nil {
		return u, err
	}
	u.greetingCPU = of()
	u.bytes, u.files = idleBytes, idleFiles
	return u, nil
}

func exchanged(counts map[way]tally) (answers int) {
	for at, c := range counts {
		if at.toHub && strings.HasSuffix(at.kind, answerSuffix) {
			answers += c.messages
		}
	}
	return answers
}

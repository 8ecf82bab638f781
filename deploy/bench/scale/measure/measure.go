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
	"time"

	"github.com/baton-gateway/baton/deploy/bench/scale/model"
	"github.com/baton-gateway/baton/federation/relay"
)

// patience bounds a wait for another process.
const patience = time.Minute

// await polls until done returns true.
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

// All measures all constants. It takes some minutes, and needs the program baton on the path.
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

// verification returns the seconds of one Ed25519 verification of 1 KiB: those of the fastest of some
// rounds, because other work of the machine takes part of the time.
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

// The sizes of the measured meshes, and the times of their measurements.
const (
	smallMesh, largeMesh = 8, 24
	idleTime             = 30 * time.Second
	busyTime             = 8 * time.Second
)

// hubUse is the use of a hub by one mesh.
type hubUse struct {
	streams             float64
	opened, idle        float64 // seconds until all streams were read, and processor seconds a second
	bytes, disk, config float64
	files               int
	rate, exchangeCPU   float64
	greeted             float64 // processor seconds a second while all homes greet each other
}

// hubCosts measures a hub with two meshes. The difference between them is the cost of a stream.
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
	c.HubStreamCPU = (large.idle - small.idle) / more
	c.HubStreamFiles = float64(large.files-small.files) / more
	c.HubStreamDisk = (large.disk - small.disk) / more
	c.HubPairConfig = (large.config - small.config) / more
	c.HubStreamStart = large.opened / large.streams
	c.HubExchangeCPU, c.HubExchangeRate = large.exchangeCPU, large.rate
	c.CheckHomes, c.CheckCores = largeMesh, large.greeted
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
	begun := time.Now()
	m, err := openMesh(ctx, dir, url, names)
	if err != nil {
		return u, err
	}
	defer m.close()
	u.opened = time.Since(begun).Seconds()
	before, err := hub.usage()
	if err != nil {
		return u, err
	}
	if err := sleep(ctx, idleTime); err != nil {
		return u, err
	}
	after, err := hub.usage()
	if err != nil {
		return u, err
	}
	u.idle, u.bytes, u.files = (after.cpu-before.cpu).Seconds()/idleTime.Seconds(), after.bytes, after.files
	if u.disk, err = diskOf(streams(dir)); err != nil {
		return u, err
	}
	config, err := os.Stat(filepath.Join(dir, relay.HubFile))
	if err != nil {
		return u, err
	}
	u.config = float64(config.Size())
	done := m.exchanges(ctx, busyTime)
	busy, err := hub.usage()
	if err != nil {
		return u, err
	}
	u.rate = float64(done) / busyTime.Seconds()
	u.exchangeCPU = (busy.cpu-after.cpu).Seconds()/float64(done) - u.idle/u.rate
	m.greet()
	if err := sleep(ctx, watchTime/2); err != nil { // until all peers are up
		return u, err
	}
	if before, err = hub.usage(); err != nil {
		return u, err
	}
	if err := sleep(ctx, watchTime); err != nil {
		return u, err
	}
	after, err = hub.usage()
	u.greeted = (after.cpu - before.cpu).Seconds() / watchTime.Seconds()
	return u, err
}

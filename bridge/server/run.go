package server

import (
	"context"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation/fault"
)

const sweepEvery = time.Second

// drainTime bounds the shutdown of links, requests and deliveries. With connections and the last
// commit, shutdown stays within the documented ten seconds.
//
// spec: cli.md "Serving"
const drainTime = 9 * time.Second

// Task is a concurrent task of a gateway, such as the server of a listener. It runs until ctx ends.
// Its error ends the gateway.
type Task func(ctx context.Context) error

// Exclusive returns a task that runs while this replica has a lease.
func (g *Gateway) Exclusive(lease string, do func(ctx context.Context)) Task {
	return func(ctx context.Context) error {
		_ = g.links.deps.RunExclusive(ctx, lease, do) // its error is the end of ctx
		return nil
	}
}

// Run runs the jobs of the gateway and the tasks until ctx ends or a task returns an error. Then it
// stops the links and waits at most nine seconds for jobs and tasks. Slower ones will find the
// record closed. Run returns the error of the task, or the cause of ctx if a job or task did not
// end.
func (g *Gateway) Run(ctx context.Context, tasks ...Task) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, job := range map[string]func(context.Context){"clock": g.deps.Clock.run, "growth": g.measureGrowth, "reroute": g.reroute} {
		group.Go(func() error { g.contain(ctx, name, job); return nil })
	}
	tasks = append(tasks, g.Exclusive(ClockLease, g.runClock))
	for _, task := range tasks {
		group.Go(func() error { return g.containAs(ctx, "task", task) })
	}
	ended := make(chan error, 1)
	go func() {
		err := group.Wait()
		g.links.Stop()
		ended <- err
	}()
	return g.drain(ctx, ended)
}

func (g *Gateway) runClock(ctx context.Context) {
	var group fault.Group
	for name, job := range map[string]func(context.Context){"sweep": g.sweep, "retention": g.retain, "deferral": g.judgeAgain, "deliveries": g.checkDeliveries} {
		group.Go(func() { g.contain(ctx, name, job) })
	}
	group.Wait()
}

const faultWait = 5 * time.Second

// After a panic, contain logs and counts it, and restarts the job.
func (g *Gateway) contain(ctx context.Context, name string, job func(context.Context)) {
	_ = g.containAs(ctx, "job "+name, func(ctx context.Context) error { job(ctx); return nil })
}

func (g *Gateway) containAs(ctx context.Context, where string, task Task) error {
	for {
		err := fault.Catch(func() error { return task(ctx) })
		if !g.deps.Metrics.Fault(ctx, g.deps.Log, where, err) {
			return err
		}
		if bridge.Sleep(ctx, faultWait); ctx.Err() != nil {
			return nil //nolint:nilerr // the fault was counted, and ctx ended
		}
	}
}

func (g *Gateway) drain(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "shutdown timed out before all work ended", slog.Duration("after", drainTime))
		return context.Cause(ctx)
	}
}

func (g *Gateway) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := g.sweepOnce(ctx, g.deps.Clock.Now()); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "overdue handoffs not expired", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

const readyPoll = 100 * time.Millisecond

// Announce returns a task that notifies the service manager of the start, and logs a line once the
// gateway is ready. Links that are still down do not delay the notification.
func (g *Gateway) Announce(ready func(ctx context.Context) bool) Task {
	return func(ctx context.Context) error {
		g.tellManager(ctx, "READY=1")
		tick := time.NewTicker(readyPoll)
		defer tick.Stop()
		for !ready(ctx) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
		g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "ready")
		return nil
	}
}

// AnnounceEnd notifies the service manager of the shutdown.
func (g *Gateway) AnnounceEnd(ctx context.Context) { g.tellManager(ctx, "STOPPING=1") }

func (g *Gateway) tellManager(ctx context.Context, state string) {
	if err := NotifySystemd(ctx, state); err != nil {
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "service manager not notified", slog.Any("err", err))
	}
}

// NotifySystemd sends the start state to systemd. It does nothing if systemd did not start the
// gateway.
//
// spec: sd_notify(3)
func NotifySystemd(ctx context.Context, state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if path[0] == '@' { // an abstract socket
		path = "\x00" + path[1:]
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

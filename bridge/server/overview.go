package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

const samplesLease = "samples"

const (
	checksAge  = time.Minute // age at which a reader of the overview starts new checks
	checksWait = time.Second // maximum wait of a reader for the first checks
)

type lastChecks struct {
	running singleflight.Group

	mu    sync.Mutex
	at    time.Time
	items []admin.Diagnosis
}

// Without results, read waits up to [checksWait] for new checks.
func (l *lastChecks) read(examine func() ([]admin.Diagnosis, error)) (items []admin.Diagnosis, at time.Time) {
	items, at = l.last()
	if time.Since(at) < checksAge {
		return items, at
	}
	done := l.running.DoChan("", func() (any, error) {
		found, err := examine()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.at, l.items = time.Now(), found
		return nil, nil //nolint:nilnil // the results are kept
	})
	if !at.IsZero() {
		return items, at
	}
	select {
	case <-done:
	case <-time.After(checksWait):
	}
	return l.last()
}

func (l *lastChecks) last() ([]admin.Diagnosis, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items, l.at
}

// Status returns the parts of the overview that are not in the record.
func (s *Server) Status(ctx context.Context) admin.Status {
	checking := context.WithoutCancel(ctx)
	checks, at := s.checks.read(func() (found []admin.Diagnosis, err error) {
		err = fault.Catch(func() error { found = s.Examine(checking, false); return nil })
		s.counters.Fault(checking, s.log, "doctor", err)
		return found, err
	})
	disk, _ := admin.FreeDisk(s.file.Path("."))
	return admin.Status{
		Readiness: s.readiness(ctx), Home: s.homeID(), Version: s.options.Version, Revision: s.options.Revision, Started: admin.Moment(s.started),
		Disk: disk, Examined: admin.Moment(at), Checks: append([]admin.Diagnosis{}, checks...),
	}
}

// startTime bounds the wait of the first sample for the links, which would otherwise count as down.
const startTime = 10 * time.Second

// keepSamples stores a sample for the charts when the gateway is ready, and then every five
// minutes, until ctx ends.
func (s *Server) keepSamples(ctx context.Context) {
	for start := time.Now(); !s.Ready(ctx) && time.Since(start) < startTime; {
		if bridge.Sleep(ctx, readyPoll); ctx.Err() != nil {
			return
		}
	}
	for ctx.Err() == nil {
		now := time.Now()
		if err := s.keepSample(ctx, now); err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "sample for the charts not kept", slog.Any("err", err))
		}
		bridge.Sleep(ctx, now.Truncate(federation.ChartEvery).Add(federation.ChartEvery).Sub(now))
	}
}

func (s *Server) keepSample(ctx context.Context, now time.Time) error {
	sample := federation.Sample{At: now}
	for _, l := range s.Gateway.Links().Statuses() {
		if !admin.StandingOf(l).Works() {
			sample.Down++
		}
	}
	sample.Disk, _ = admin.FreeDisk(s.file.Path("."))
	var err error
	if sample.Waiting, err = s.Record.CountWaiting(ctx); err != nil {
		return err
	}
	dead, err := s.Record.CountDead(ctx)
	if err != nil {
		return err
	}
	for _, n := range dead {
		sample.Dead += n
	}
	return s.Record.KeepSample(ctx, sample)
}

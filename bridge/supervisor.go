package bridge

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"baton/federation"
)

// Waits between two attempts to bring a link up, or to deliver what failed: they
// double from the first to the last, with jitter, and fall back once a peer has
// authenticated.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 30 * time.Second
)

// Supervisor keeps one link running, and its feed while the link is up.
type Supervisor struct {
	link    Link
	feed    *feed
	metrics *Metrics
	log     *slog.Logger
	up      atomic.Bool
	status  *status
	onLoss  func()
}

// NewSupervisor returns the supervisor of one link. Nothing runs until Run.
func NewSupervisor(link Link, outbox Outbox, wakes Wakes, m *Metrics, log *slog.Logger) *Supervisor {
	log = log.With(slog.String("network", link.Network()), slog.String("link", link.Name()))
	feed := &feed{link: link, rows: outbox, wakes: wakes, metrics: m, log: log, pace: NewPace(perMinute(link)), heard: make(chan federation.DID, 1)}
	return &Supervisor{link: link, feed: feed, metrics: m, log: log, status: newStatus(), onLoss: func() {}}
}

// OnLoss has a function called each time that the connection of the link has ended. It must
// not block. Call it before Run.
func (s *Supervisor) OnLoss(do func()) { s.onLoss = do }

// Up reports whether the peer has authenticated and not gone since.
func (s *Supervisor) Up() bool { return s.up.Load() }

// Status returns how the link stands. It may be called while Run runs.
func (s *Supervisor) Status() Status { return s.status.get() }

// Name returns the name of the link.
func (s *Supervisor) Name() string { return s.link.Name() }

// Fresh tells the feed of a step that is about to be filed, with its first attempt
// counted. Without being told, the feed takes that attempt as made.
func (s *Supervisor) Fresh(id federation.EventID) { s.feed.fresh.add(id) }

// Heard tells the feed that somebody was heard on the link: what waits is tried once.
func (s *Supervisor) Heard(did federation.DID) { s.feed.probe(did) }

// Run keeps the link running until ctx ends, and returns why that was.
func (s *Supervisor) Run(ctx context.Context) error {
	gauge := s.metrics.LinkUp.WithLabelValues(s.link.Network(), s.link.Name())
	gauge.Set(0)
	defer s.status.down()
	waits := newWaits()
	for dial := 0; ctx.Err() == nil; dial++ {
		if dial > 0 {
			s.metrics.Reconnects.WithLabelValues(s.link.Network(), s.link.Name()).Inc()
		}
		s.status.dialling()
		err := s.session(ctx, func() { gauge.Set(1); s.status.up(); waits.Reset() }, func() { gauge.Set(0); s.status.dialling(); s.onLoss() })
		if ctx.Err() != nil {
			break
		}
		wait := waits.NextBackOff()
		s.status.lost(err, time.Now().Add(wait))
		s.log.LogAttrs(ctx, slog.LevelWarn, "link down", slog.Any("err", err), slog.String("next_dial", wait.Round(time.Millisecond).String()))
		s.rest(ctx, wait)
	}
	return context.Cause(ctx)
}

// session runs the link once, with its feed from the moment it is up until the connection
// has ended. It calls onUp and onLoss at these moments, onLoss at the end in any case.
func (s *Supervisor) session(ctx context.Context, onUp, onLoss func()) error {
	group, ctx := errgroup.WithContext(ctx)
	delivering, stop := context.WithCancel(ctx)
	defer stop()
	lose := sync.OnceFunc(func() { s.up.Store(false); onLoss(); stop() })
	up := make(chan struct{})
	lost := s.lost()
	group.Go(func() error {
		defer lose()
		err := s.link.Run(ctx, func() {
			if s.up.CompareAndSwap(false, true) {
				onUp()
				s.log.LogAttrs(ctx, slog.LevelInfo, "link up")
				close(up)
			}
		})
		if err == nil {
			err = errEnded
		}
		return err
	})
	group.Go(func() error {
		select {
		case <-lost: // Run judges what it has read, and then returns
			lose()
		case <-delivering.Done():
		}
		return nil
	})
	group.Go(func() error {
		select {
		case <-up:
			return s.feed.run(delivering)
		case <-delivering.Done():
			return nil
		}
	})
	return group.Wait()
}

// lost returns the channel that tells of the end of the connection, nil for a link whose
// Run returns with it. A token of an earlier session is taken out.
func (s *Supervisor) lost() <-chan struct{} {
	loser, ok := s.link.(Loser)
	if !ok {
		return nil
	}
	select {
	case <-loser.Lost():
	default:
	}
	return loser.Lost()
}

func newWaits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = firstWait, lastWait, 2
	waits.Reset()
	return waits
}

// rest waits before the link is dialled again, or until its peer is back.
func (s *Supervisor) rest(ctx context.Context, wait time.Duration) {
	returner, ok := s.link.(Returner)
	if !ok {
		sleep(ctx, wait)
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-returner.Back():
	case <-ctx.Done():
	}
}

// sleep waits, or for ctx to end if that is sooner.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// perMinute returns how many deliveries a minute the peer of a link takes; 0 is any number.
func perMinute(link Link) int {
	if paced, ok := link.(Paced); ok {
		return paced.PerMinute()
	}
	return 0
}

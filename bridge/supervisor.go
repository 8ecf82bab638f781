package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/deliveries"
)

var errEnded = errors.New("bridge: the link ended")

// The backoff of dials is exponential with jitter. It is reset once a peer has authenticated.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 30 * time.Second
)

// Supervisor runs one link, and delivers its outbox while the link is up.
type Supervisor struct {
	link    Link
	outbox  *delivery.Worker
	notices *delivery.Worker // nil for a link without notices
	wakes   PubSub
	tracer  Tracer // nil records no traces
	metrics *Metrics
	log     *slog.Logger
	up      atomic.Bool
	status  *status
	onLoss  func()
	dialNow chan struct{} // holds a token after [Supervisor.Dial]
}

// NewSupervisor returns the supervisor of one link. It starts nothing.
func NewSupervisor(link Link, rows deliveries.Rows, wakes PubSub, m *Metrics, log *slog.Logger) *Supervisor {
	log = log.With(slog.String("network", link.Network()), slog.String("link", link.Name()))
	s := &Supervisor{link: link, wakes: wakes, metrics: m, log: log, status: newStatus(), onLoss: func() {}, dialNow: make(chan struct{}, 1)}
	s.outbox = delivery.NewWorker(s.destination(), rows)
	if notifier, ok := link.(Notifier); ok {
		s.notices = delivery.NewWorker(s.readers(notifier), rows)
	}
	return s
}

func (s *Supervisor) destination() delivery.Destination {
	to := delivery.Destination{Name: s.link.Name(), Policy: delivery.ToLink(), Pace: delivery.NewPace(perMinute(s.link)), Log: s.log, Deliver: s.attempt, Ended: s.ended}
	if shower, ok := s.link.(OnceShower); ok {
		to.ShowsOnce = shower.ShowsOnce
	}
	_, to.Shown = s.link.(ChannelLink) // users in the channel see the step
	if _, replays := s.link.(Replayer); replays {
		to.Shown = false // users acknowledge their inbox themselves
	}
	return to
}

// Text has no trace.
func (s *Supervisor) attempt(ctx context.Context, d federation.Delivery) error {
	if text := d.Entry.Text; text != nil {
		link, ok := s.link.(TextLink)
		if !ok {
			return text.Refuse(federation.InvalidTarget, "the link carries no text")
		}
		return link.DeliverText(ctx, *text)
	}
	if s.tracer == nil {
		return s.link.Deliver(ctx, d)
	}
	ctx, end := s.tracer.Delivering(ctx, s.link, d)
	err := s.link.Deliver(ctx, d)
	end(err)
	return err
}

func (s *Supervisor) readers(link Notifier) delivery.Destination {
	to := delivery.Destination{Name: ReadersOf(link), Policy: delivery.ToReaders(), Pace: delivery.NewPace(0), Log: s.log}
	to.Deliver = func(ctx context.Context, d federation.Delivery) error {
		if err := link.Notify(ctx, *d.Notice); err != nil {
			return &delivery.LaterError{Err: err}
		}
		return nil
	}
	to.Ended = func(ctx context.Context, d federation.Delivery, _ int, _ federation.Settlement) {
		n := d.Notice
		attrs := []slog.Attr{slog.String("outcome", string(n.Kind)), slog.String("reason", n.Code), slog.String("did", string(n.Reader()))}
		if n.Kind == federation.NoticeDisabled {
			attrs = append(attrs, slog.String("webhook", federation.WebhookName(n.Webhook.ID)))
		} else {
			attrs = append(attrs, slog.String("event_id", n.Row().ID.String()), slog.String("handoff_id", n.Row().Handoff.String()))
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "told", attrs...)
	}
	return to
}

// ReadersOf returns the destination name of the readers of a link's notices.
func ReadersOf(link Link) string {
	if _, ok := link.(InboxReader); ok {
		return federation.NoticesOf(federation.InboxLink)
	}
	return federation.NoticesOf(link.Name())
}

// Tell delivers the notices of a [Mounted] link until ctx ends. Other links do so while they are
// up.
func (s *Supervisor) Tell(ctx context.Context) {
	if s.notices == nil {
		return
	}
	wake, stop := s.wakes.Subscribe(OutboxTopic(ReadersOf(s.link)))
	defer stop()
	for waits := newWaits(); ctx.Err() == nil; Sleep(ctx, waits.NextBackOff()) {
		err := fault.Catch(func() error { return s.notices.Run(ctx, wake) })
		s.metrics.Fault(ctx, s.log, "notices "+s.link.Name(), err)
	}
}

func (s *Supervisor) ended(_ context.Context, d federation.Delivery, rows int, how federation.Settlement) {
	outcome := how.Outcome()
	s.metrics.Outcomes.WithLabelValues(s.link.Network(), string(outcome)).Add(float64(rows))
	if outcome == federation.DeliveryDelivered {
		s.metrics.Deliver.WithLabelValues(s.link.Network()).Observe(how.At.Sub(d.Queued).Seconds())
	}
}

// OnLoss sets the function called after each loss of the link's connection. The function must not
// block. Call OnLoss before Run.
func (s *Supervisor) OnLoss(do func()) { s.onLoss = do }

// Trace sets the tracer of delivery attempts; nil records none. Call Trace before Run.
func (s *Supervisor) Trace(t Tracer) { s.tracer = t }

// Up reports whether the link has an authenticated peer now.
func (s *Supervisor) Up() bool { return s.up.Load() }

// Status returns the status of the link. It may be called while Run runs.
func (s *Supervisor) Status() Status { return s.status.get() }

// Name returns the name of the link.
func (s *Supervisor) Name() string { return s.link.Name() }

// Fresh records that the first attempt of a step is pending, before the step is filed. For any
// other step, the first attempt counts as made.
func (s *Supervisor) Fresh(id federation.EventID) { s.outbox.Expect(id) }

// Heard retries a pending delivery to a DID once, after the DID sent a step on the link.
func (s *Supervisor) Heard(did federation.DID) { s.outbox.Probe(did) }

// Dial ends the wait before the next dial, and lets a [Pinned] link change its place.
func (s *Supervisor) Dial() {
	if pinned, ok := s.link.(Pinned); ok {
		pinned.Unpin()
	}
	select {
	case s.dialNow <- struct{}{}:
	default:
	}
}

// Run keeps the link running until ctx ends, and returns the reason.
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
		err := s.contained(ctx, func() { gauge.Set(1); s.status.up(); waits.Reset() }, func() { gauge.Set(0); s.status.dialling(); s.onLoss() })
		if ctx.Err() != nil {
			break
		}
		wait := waits.NextBackOff()
		s.status.lost(err, time.Now().Add(wait))
		s.log.LogAttrs(ctx, slog.LevelWarn, "link down", slog.Any("err", err), slog.String("next_dial", wait.Round(time.Millisecond).String()))
		s.waitToDial(ctx, wait)
	}
	return context.Cause(ctx)
}

// contained is session, but returns panics in the link's code as errors of the connection.
func (s *Supervisor) contained(ctx context.Context, onUp, onLoss func()) error {
	err := fault.Catch(func() error { return s.session(ctx, onUp, onLoss) })
	s.metrics.Fault(ctx, s.log, "link "+s.link.Name(), err)
	return err
}

// session runs the link once, and delivers its outbox while connected. It calls onUp when the link
// is up, and onLoss once, after the connection has ended.
func (s *Supervisor) session(ctx context.Context, onUp, onLoss func()) error {
	group, ctx := errgroup.WithContext(ctx)
	delivering, stop := context.WithCancel(ctx)
	defer stop()
	lose := sync.OnceFunc(func() { s.up.Store(false); onLoss(); stop() })
	up := make(chan struct{})
	lost := s.lost()
	group.Go(fault.Func(func() error {
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
	}))
	group.Go(fault.Func(func() error {
		select {
		case <-lost: // Run judges the steps already read, and then returns
			lose()
		case <-delivering.Done():
		}
		return nil
	}))
	group.Go(fault.Func(func() error {
		select {
		case <-up:
			return s.deliver(delivering)
		case <-delivering.Done():
			return nil
		}
	}))
	if _, mounted := s.link.(Mounted); !mounted {
		group.Go(fault.Func(func() error {
			select {
			case <-up:
				s.Tell(delivering)
			case <-delivering.Done():
			}
			return nil
		}))
	}
	return group.Wait()
}

// The outbox of a link served by the HTTP listener restarts after a panic, because there is no
// connection to end.
func (s *Supervisor) deliver(ctx context.Context) error {
	wake, stop := s.wakes.Subscribe(OutboxTopic(s.link.Name()))
	defer stop()
	_, mounted := s.link.(Mounted)
	for waits := newWaits(); ; {
		err := s.outbox.Run(ctx, wake)
		if err == nil || !mounted {
			return err
		}
		s.metrics.Fault(ctx, s.log, "link "+s.link.Name(), err)
		Sleep(ctx, waits.NextBackOff())
	}
}

// lost returns the channel of disconnects, or nil for a link whose Run returns on disconnect. It
// removes the token of an earlier session.
func (s *Supervisor) lost() <-chan struct{} {
	loser, ok := s.link.(DisconnectNotifier)
	if !ok {
		return nil
	}
	select {
	case <-loser.Disconnected():
	default:
	}
	return loser.Disconnected()
}

func newWaits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = firstWait, lastWait, 2
	waits.Reset()
	return waits
}

// waitToDial returns early if the peer is back or [Supervisor.Dial] is called.
func (s *Supervisor) waitToDial(ctx context.Context, wait time.Duration) {
	var back <-chan struct{} // nil unless the link is a ReconnectNotifier
	if returner, ok := s.link.(ReconnectNotifier); ok {
		back = returner.Reconnected()
	}
	select {
	case <-s.dialNow: // a request from before this wait
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-back:
	case <-s.dialNow:
	case <-ctx.Done():
	}
}

// Sleep blocks for a duration, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func perMinute(link Link) int {
	if paced, ok := link.(Paced); ok {
		return paced.PerMinute()
	}
	return 0
}

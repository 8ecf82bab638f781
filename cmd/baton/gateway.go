package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/deferral"
	"baton/federation/home"
	"baton/federation/identity"
	"baton/federation/signing"
)

// gateway is what links see of the program: it lets the home judge, writes one
// line for each step judged, and wakes the feeds that are owed it.
type gateway struct {
	home    atomic.Pointer[home.Home] // replaced when its limits change
	record  boundRecord
	kept    func(name string) federation.SigningKey
	metrics *bridge.Metrics
	log     *slog.Logger
	fleet   *fleet
	wakes   bridge.Wakes
	// blocks is what operators blocked; nil for nothing.
	blocks  atomic.Pointer[federation.Blocks]
	senders tally
	// boundTo is that of [bridge.Ports].
	boundTo func(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
	// deferral stands before the home, and keeps what that cannot judge yet.
	deferral *deferral.Deferral
	writes   credential.Addresses // what each address files
	// keys are the keys that the home judges by.
	keys func() *identity.AtHand

	// settling is held while what waits for other homes is settled: nobody is told twice.
	settling sync.Mutex
}

var _ bridge.Gateway = (*gateway)(nil)

// Submit implements [bridge.Gateway]. A step counts in the rate of its address before its
// signature is verified, so that garbage costs the sender's rate and little else.
func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	now := time.Now()
	if err := g.refuseBlocked(ctx, ev); err != nil { // before its key is looked for
		g.note(ctx, ev, federation.Judgement{}, err)
		return federation.Judgement{}, err
	}
	if wait := g.arrive(ctx, &ev, now); wait > 0 {
		refused := federation.Refuse(ev, federation.RateLimited, "")
		refused.RetryAfter = wait
		g.senders.note(ev, federation.Unverifiable, refused, now)
		g.note(ctx, ev, federation.Judgement{}, refused)
		return federation.Judgement{}, refused
	}
	g.fleet.heard(ev)
	judged, err := g.deferral.Submit(ctx, ev, now)
	g.senders.note(ev, judged.Verdict, err, now)
	g.note(ctx, ev, judged, err)
	g.wake(judged, err)
	g.follow(ctx, judged, err)
	return judged, err
}

// arrive notes the address of a step, and returns how long that has to wait for its rate.
func (g *gateway) arrive(ctx context.Context, ev *federation.Event, now time.Time) time.Duration {
	from := bridge.NetworkFrom(ctx)
	ev.Arrival.Address = addressFrom(ctx)
	return g.writes.Wait(from, now)
}

// FetchKey implements [bridge.Gateway]. For a blocked source, and for an address that has no
// steps left, it fetches nothing: Submit will refuse the step.
func (g *gateway) FetchKey(ctx context.Context, ev federation.Event) {
	from := stepSource(ev)
	from.Address = bridge.NetworkFrom(ctx)
	if blocked, err := g.isBlocked(ctx, from, time.Now()); err != nil || blocked && ev.Arrival.Link != operatorLink {
		return
	}
	if has := g.writes.Left(bridge.NetworkFrom(ctx), time.Now()); has.Limit > 0 && has.Left == 0 {
		return
	}
	if q, ok := signing.Query(ev); ok {
		g.keys().Await(ctx, q)
	}
}

// seekKey is FetchKey for a caller that does not wait.
func (g *gateway) seekKey(ctx context.Context, ev federation.Event) {
	if q, ok := signing.Query(ev); ok {
		g.keys().Seek(ctx, q)
	}
}

// Sweep lets the home end what nobody moved in time.
func (g *gateway) Sweep(ctx context.Context, now time.Time) error {
	filed, err := g.home.Load().Sweep(ctx, now)
	for _, judged := range filed {
		g.note(ctx, judged.Entry.Event, judged, nil)
		g.wake(judged, nil)
	}
	return err
}

// GiveUp lets the home end the waiting of all that was filed at or before a time
// and still waits in an inbox.
func (g *gateway) GiveUp(ctx context.Context, before, now time.Time) error {
	for more := true; more && ctx.Err() == nil; {
		var filed []federation.Judgement
		var err error
		filed, more, err = g.home.Load().GiveUp(ctx, before, now)
		for _, judged := range filed {
			g.note(ctx, judged.Entry.Event, judged, nil)
			g.wake(judged, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wake tells the links and inboxes that a step is pending for them which was filed just now.
func (g *gateway) wake(judged federation.Judgement, err error) {
	if err != nil || judged.Duplicate || judged.Awaits {
		return
	}
	g.wakes.Wake(judged.Owed.Topics...)
	for _, did := range judged.View.Others(judged.Entry.Event.Actor()) {
		g.wakes.Wake(bridge.DIDTopic(did))
	}
	g.wakes.Wake(bridge.HooksTopic)
	for _, link := range judged.Owed.Feeds {
		g.wakes.Wake(bridge.FeedTopic(link))
	}
}

// note counts and logs one judged step.
func (g *gateway) note(ctx context.Context, ev federation.Event, judged federation.Judgement, err error) {
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	outcome, level, reason := "filed", slog.LevelInfo, ""
	switch {
	case isRefusal && refused.Waits:
		outcome, reason = "deferred", err.Error()
	case isRefusal:
		outcome, reason = "refused", err.Error()
	case err != nil && ctx.Err() != nil:
		g.log.LogAttrs(ctx, slog.LevelInfo, "step not judged: its caller left", stepAttrs(ev)...)
		return
	case g.countStranger(err):
		outcome, reason = "refused", err.Error()
	case err != nil:
		g.log.LogAttrs(ctx, slog.LevelError, "step could not be judged", append(stepAttrs(ev), slog.Any("err", err))...)
		return
	case judged.Awaits:
		outcome = "deferred"
	case judged.Duplicate:
		outcome = "duplicate"
	}
	if judged.Verdict == federation.Invalid {
		level = slog.LevelWarn
	}
	g.metrics.Conflicts.Add(float64(judged.Conflicts))
	if !judged.Entry.Event.ID.IsZero() {
		ev.ID = judged.Entry.Event.ID
	}
	attrs := append(stepAttrs(ev), slog.String("verdict", judged.Verdict.String()), slog.String("outcome", outcome))
	switch {
	case isRefusal:
		attrs = append(attrs, slog.String("code", string(refused.Code)), slog.String("reason", reason))
	case reason != "":
		attrs = append(attrs, slog.String("reason", reason))
	default:
		attrs = append(attrs, slog.String("state", string(judged.Entry.State)))
	}
	g.metrics.Events.WithLabelValues(ev.Arrival.Network, verbLabel(ev, refused), judged.Verdict.String(), outcome).Inc()
	g.log.LogAttrs(ctx, level, "step judged", attrs...)
}

// verbLabel returns the verb of a step, for a metric. One that no kind has is
// anybody's invention, and must not become a series of its own.
func verbLabel(ev federation.Event, refused *federation.RefusalError) string {
	if refused != nil && (refused.Code == federation.UnknownVerb || refused.Code == federation.UnknownKind) {
		return "unknown"
	}
	return string(ev.Verb)
}

func stepAttrs(ev federation.Event) []slog.Attr {
	return []slog.Attr{
		slog.String("network", ev.Arrival.Network), slog.String("link", ev.Arrival.Link),
		slog.String("handoff_id", ev.Handoff.String()), slog.String("event_id", ev.ID.String()),
		slog.String("verb", string(ev.Verb)), slog.String("did", string(ev.From)),
	}
}

// View implements [bridge.Gateway].
func (g *gateway) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return g.record.View(ctx, id)
}

// Name implements [bridge.Gateway]. A record that cannot be read now costs a
// readable name, never a step.
func (g *gateway) Name(ctx context.Context, did federation.DID) string {
	if agent, err := g.record.AgentOf(ctx, did); err == nil {
		return agent.Handle
	}
	if binding, err := g.record.Binding(ctx, did); err == nil && binding.Name != "" {
		return binding.Name
	}
	return did.Short()
}

// Ruled files a step that another home has ruled on, as Submit does. A gap is no
// judgement: the home sends what is missing.
func (g *gateway) Ruled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	if ev.Verb == federation.Offer { // a later step is in the log of its home, and would be missing in ours
		if err := g.refuseBlocked(ctx, ev); err != nil {
			g.note(ctx, ev, federation.Judgement{}, err)
			return federation.Judgement{}, err
		}
	}
	judged, err := g.home.Load().Ruled(ctx, ev, r, time.Now())
	_, gap := errors.AsType[*federation.GapError](err)
	fork, forked := errors.AsType[*federation.ForkError](err)
	switch {
	case gap:
		return judged, err
	case forked:
		g.log.LogAttrs(ctx, slog.LevelError, "home tells two histories", append(stepAttrs(ev), slog.String("home", string(fork.Fork.Home)), slog.Any("err", err))...)
		return judged, err
	}
	g.senders.note(ev, judged.Verdict, err, time.Now())
	g.note(ctx, ev, judged, err)
	g.wake(judged, err)
	g.follow(ctx, judged, err)
	return judged, err
}

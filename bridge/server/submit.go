package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/signing"
)

// Submit implements [bridge.Gateway]. The rate limit of the address is applied before the key
// lookup and the verification, so that garbage is cheap to reject.
func (g *Gateway) Submit(ctx context.Context, ev federation.Event) (judged federation.Judgement, err error) {
	now, came := time.Now(), ev
	if g.deps.Tracer != nil {
		defer func() {
			g.deps.Tracer.Submitted(ctx, bridge.Judged{Event: came, Judgement: judged, Err: err, Start: now})
		}()
	}
	if err := g.refuseBlocked(ctx, ev); err != nil { // before its key is looked up
		g.record(ctx, ev, federation.Judgement{}, err)
		return federation.Judgement{}, err
	}
	ev.Arrival.Address = addressFrom(ctx)
	if wait := g.deps.Addresses.Wait(bridge.SubnetFrom(ctx), now); wait > 0 {
		refused := federation.Refuse(ev, federation.RateLimited, "")
		refused.RetryAfter = wait
		g.senders.Note(ev, federation.Unverifiable, refused, now)
		g.record(ctx, ev, federation.Judgement{}, refused)
		return federation.Judgement{}, refused
	}
	g.links.probe(ev.Arrival.Link, ev.Actor()) // its peer is reachable
	judged, err = g.inTurn(ctx, ev, func(h *home.Home) (federation.Judgement, error) { return h.Submit(ctx, ev, time.Now()) })
	if err == nil && judged.Awaits && !judged.Duplicate {
		err = g.admitted(ctx, judged)
	}
	g.senders.Note(ev, judged.Verdict, err, now)
	g.record(ctx, ev, judged, err)
	g.wake(judged, err)
	g.follow(ctx, judged, err)
	return judged, err
}

// Route returns the recipients of a step, besides the inboxes of its parties: links to other
// networks, with the effects of the step there, other homes, and the gateway's keys for the
// parties. It also returns the links of this replica that show a step at most once; their first
// attempt is counted when the step is filed. The view is the view after the step. Route blocks on
// the record, and returns its errors.
func (g *Gateway) Route(ctx context.Context, ev federation.Event, after federation.View) (to federation.Fanout, err error) {
	entry := federation.Entry{Event: ev, Version: after.Version, State: after.State, Filed: after.Moved}
	d := federation.Delivery{Entry: entry, View: after}
	for _, r := range g.links.current.Load().asked {
		name := r.Link.Name()
		if recorder, ok := r.Link.(bridge.Recorder); ok {
			effects, topics, err := recorder.Effects(ctx, d)
			if err != nil {
				return to, fmt.Errorf("write for %s: %w", name, err)
			}
			to.Effects, to.Topics = append(to.Effects, effects...), append(to.Topics, topics...)
		}
		carries, err := r.Link.Carries(ctx, ev, after)
		if err != nil {
			return to, err
		}
		if !carries {
			continue
		}
		to.Links = append(to.Links, name)
		if shower, ok := r.Link.(bridge.OnceShower); ok && shower.ShowsOnce(d) && r.lease.ours.Load() {
			to.Once = append(to.Once, name)
		}
	}
	homes, err := g.deps.Locator.Recipients(ctx, ev, after, time.Now())
	to.Links = append(to.Links, homes...)
	for _, did := range after.Others("") {
		to.Kept = append(to.Kept, g.deps.Owners.KeptFor(did))
	}
	return to, err
}

// inTurn waits at most a second for the key of a step, and then for its link's turn, in which the
// home judges it. It returns the error of ctx if ctx ends.
func (g *Gateway) inTurn(ctx context.Context, ev federation.Event, judge func(*home.Home) (federation.Judgement, error)) (federation.Judgement, error) {
	if q, ok := signing.Query(ev); ok {
		g.deps.Keys.Await(ctx, q)
	}
	leave, err := g.links.acquire(ctx, ev.Arrival.Link)
	if err != nil {
		return federation.Judgement{}, err
	}
	defer leave() // a panic ends the turn too
	return judge(g.home.Load())
}

func (g *Gateway) seekKey(ctx context.Context, ev federation.Event) {
	if q, ok := signing.Query(ev); ok {
		g.deps.Keys.Seek(ctx, q)
	}
}

func (g *Gateway) sweepOnce(ctx context.Context, now time.Time) error {
	filed, err := g.home.Load().Sweep(ctx, now)
	g.filed(ctx, filed)
	return err
}

func (g *Gateway) filed(ctx context.Context, steps []federation.Judgement) {
	for _, judged := range steps {
		g.record(ctx, judged.Entry.Event, judged, nil)
		g.wake(judged, nil)
	}
}

func (g *Gateway) endUnread(ctx context.Context, before, now time.Time) error {
	for more := true; more && ctx.Err() == nil; {
		var filed []federation.Judgement
		var err error
		filed, more, err = g.home.Load().ExpireUndelivered(ctx, before, now)
		g.filed(ctx, filed)
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *Gateway) wake(judged federation.Judgement, err error) {
	if err != nil || judged.Duplicate || judged.Awaits {
		return
	}
	g.links.probe(federation.UnroutedLink, judged.Entry.Event.Actor()) // the step may reveal the location of its mailbox
	g.deps.PubSub.Wake(judged.Fanout.Topics...)
	for _, did := range judged.View.Others(judged.Entry.Event.Actor()) {
		g.deps.PubSub.Wake(bridge.DIDTopic(did))
	}
	g.deps.PubSub.Wake(bridge.WebhooksTopic, bridge.HandoffTopic(judged.View.ID))
	for _, link := range judged.Fanout.Links {
		g.deps.PubSub.Wake(bridge.OutboxTopic(link))
	}
}

func (g *Gateway) record(ctx context.Context, ev federation.Event, judged federation.Judgement, err error) {
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	outcome, level, reason := "filed", slog.LevelInfo, ""
	switch {
	case isRefusal && refused.Waits:
		outcome, reason = "deferred", err.Error()
	case isRefusal:
		outcome, reason = "refused", err.Error()
	case err != nil && ctx.Err() != nil:
		g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "step not judged: its caller left", stepAttrs(ev)...)
		return
	case g.countStranger(err):
		outcome, reason = "refused", err.Error()
	case err != nil:
		g.deps.Log.LogAttrs(ctx, slog.LevelError, "step could not be judged", append(stepAttrs(ev), slog.Any("err", err))...)
		return
	case judged.Awaits:
		outcome = "deferred"
	case judged.Duplicate:
		outcome = "duplicate"
	}
	if judged.Verdict == federation.Invalid {
		level = slog.LevelWarn
	}
	g.deps.Metrics.Conflicts.Add(float64(judged.Conflicts))
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
	g.deps.Metrics.Events.WithLabelValues(ev.Arrival.Network, verbLabel(ev, refused), judged.Verdict.String(), outcome).Inc()
	g.deps.Log.LogAttrs(ctx, level, "step judged", attrs...)
}

// Invented verbs must not create new series.
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
func (g *Gateway) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return g.deps.Record.View(ctx, id)
}

// Expected implements [bridge.Gateway].
func (g *Gateway) Expected(ctx context.Context, id federation.HandoffID, party federation.DID) (federation.View, error) {
	return g.home.Load().Expected(ctx, id, party)
}

// Name implements [bridge.Gateway]. It ignores errors of the record.
func (g *Gateway) Name(ctx context.Context, did federation.DID) string {
	if known, err := g.participants.WithDID(ctx, did); err == nil && known.Handle != "" {
		return known.Handle
	}
	if declaration, err := g.participants.Declaration(ctx, did); err == nil && declaration.Name != "" {
		return declaration.Name
	}
	if binding, err := g.participants.Binding(ctx, did); err == nil && binding.Name != "" {
		return binding.Name
	}
	return did.Short()
}

// FileRuled files a step with a ruling of another home, like Submit. A gap is not recorded as a
// judgement, because the home sends the missing steps.
func (g *Gateway) FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (judged federation.Judgement, err error) {
	if g.deps.Tracer != nil {
		defer func(start time.Time) {
			if _, gap := errors.AsType[*federation.GapError](err); !gap {
				g.deps.Tracer.RecordRuling(ctx, bridge.Judged{Event: ev, Judgement: judged, Err: err, Start: start})
			}
		}(time.Now())
	}
	if ev.Verb == federation.Offer { // later steps are already in the log of their home, so the copy here needs them too
		if err := g.refuseBlocked(ctx, ev); err != nil {
			g.record(ctx, ev, federation.Judgement{}, err)
			return federation.Judgement{}, err
		}
	}
	judged, err = g.inTurn(ctx, ev, func(h *home.Home) (federation.Judgement, error) { return h.FileRuled(ctx, ev, r, time.Now()) })
	_, gap := errors.AsType[*federation.GapError](err)
	fork, forked := errors.AsType[*federation.ForkError](err)
	switch {
	case gap:
		return judged, err
	case forked:
		g.deps.Log.LogAttrs(ctx, slog.LevelError, "home sent conflicting histories", append(stepAttrs(ev), slog.String("home", string(fork.Fork.Home)), slog.Any("err", err))...)
		return judged, err
	}
	g.senders.Note(ev, judged.Verdict, err, time.Now())
	g.record(ctx, ev, judged, err)
	g.wake(judged, err)
	g.follow(ctx, judged, err)
	return judged, err
}

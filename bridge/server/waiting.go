package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
)

// judgeEvery is the polling interval for due deferred steps. It bounds the delay for a new key
// without a notification.
const judgeEvery = time.Second

func (g *Gateway) judgeAgain(ctx context.Context) {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		more, err := g.home.Load().Retry(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "steps not judged again", slog.Any("err", err))
		}
		if more {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// deferralEnded logs and counts the judgement of a deferred step, like Submit. For a refused
// step, it files a notice to the sender.
func (g *Gateway) deferralEnded(ctx context.Context, r home.DeferralEnd) error {
	var err error // a nil *RefusalError is not a nil error
	if r.Refused != nil {
		err = r.Refused
		if err := g.deps.Record.Notify(ctx, refusalOf(r, time.Now())); err != nil {
			return err
		}
	}
	if r.Expired {
		g.deps.Metrics.Outcomes.WithLabelValues(r.Step.Event.Arrival.Network, "expired").Inc()
	}
	g.record(ctx, r.Step.Event, r.Judgement, err)
	g.wake(r.Judgement, err)
	g.follow(ctx, r.Judgement, err)
	return nil
}

// An invalid signature does not prove the sender, so the notice goes to the user with that name on
// the link.
func refusalOf(r home.DeferralEnd, now time.Time) federation.Notice {
	ev := r.Step.Event
	if r.Judgement.Verdict != federation.Valid {
		ev.From, ev.For = "", ""
	}
	return noticeOf(ev, r.Refused, now)
}

func noticeOf(ev federation.Event, refused *federation.RefusalError, now time.Time) federation.Notice {
	return federation.Notice{
		Kind: federation.NoticeRefused, Event: ev, Code: string(refused.Code), Why: refused.Sentence(), At: now,
	}
}

// follow acts on a judged step of a remote handoff: it requests a ruling from the home, or
// settles dependent steps.
func (g *Gateway) follow(ctx context.Context, judged federation.Judgement, err error) {
	switch {
	case err != nil || !judged.View.Remote:
	case judged.Awaits:
		g.deps.PubSub.Wake(bridge.RulingTopic(judged.View.Home))
	case !judged.Duplicate:
		if err := g.Settle(context.WithoutCancel(ctx), judged.View.ID, time.Now()); err != nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "waiting steps not settled", slog.String("handoff_id", judged.View.ID.String()), slog.Any("err", err))
		}
		g.deps.PubSub.Wake(bridge.RulingTopic(judged.View.Home))
	}
}

// Settle files the waiting steps of a remote handoff that can now be filed, and notifies the
// senders of steps that its home refused. It is idempotent, and completes an interrupted call.
func (g *Gateway) Settle(ctx context.Context, id federation.HandoffID, now time.Time) error {
	g.settling.Lock()
	defer g.settling.Unlock()
	rulings, err := g.home.Load().Settle(ctx, id, now)
	var errs []error
	for _, r := range rulings {
		if r.Refused != nil {
			errs = append(errs, g.ruledOut(ctx, r))
			continue
		}
		g.record(ctx, r.Event, r.Judgement, nil)
		g.wake(r.Judgement, nil)
	}
	return errors.Join(append(errs, err)...)
}

func (g *Gateway) ruledOut(ctx context.Context, r home.Ruling) error {
	g.record(ctx, r.Event, federation.Judgement{Verdict: federation.Valid}, r.Refused)
	if r.Event.Arrival.Link == OperatorLink {
		g.refusals.add(r.Event, r.Refused)
	}
	if err := g.tellRefused(ctx, r.Event, r.Refused); err != nil {
		return fmt.Errorf("notify sender that %s is refused: %w", r.Event.ID, err)
	}
	if err := g.home.Load().Drop(ctx, r.Event); err != nil {
		return fmt.Errorf("drop %s: %w", r.Event.ID, err)
	}
	return nil
}

// A link with notices gets one notice per step, even if the step is repeated and refused again.
func (g *Gateway) tellRefused(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	link := g.links.Named(ev.Arrival.Link)
	if teller, ok := link.(bridge.RefusalNotifier); ok {
		return teller.NotifyRefusal(ctx, ev, refused)
	}
	if _, ok := link.(bridge.Notifier); !ok {
		return nil
	}
	return g.deps.Record.Notify(ctx, noticeOf(ev, refused, time.Now()))
}

// EndOrphan ends an orphaned remote handoff at this gateway, with the operator's reason, and
// returns it. The error is a [*federation.RefusalError] if the handoff is closed or belongs to this
// home, or an error of the record.
func (g *Gateway) EndOrphan(ctx context.Context, id federation.HandoffID, reason string) (federation.View, error) {
	now := time.Now()
	view, err := g.deps.Record.View(ctx, id)
	if err != nil {
		return view, fmt.Errorf("read handoff %s: %w", id, err)
	}
	judged, err := g.home.Load().EndOrphan(ctx, view, reason, now)
	if err != nil {
		return view, err
	}
	g.filed(ctx, []federation.Judgement{judged})
	return judged.View, g.Settle(context.WithoutCancel(ctx), id, now)
}

// RejectPending ends a step's wait for its home, after a refusal or a timeout. It does not change a
// step settled meanwhile.
func (g *Gateway) RejectPending(ctx context.Context, h federation.Pending, code federation.RefusalCode, detail string) error {
	g.settling.Lock()
	defer g.settling.Unlock()
	held, err := g.deps.Record.ListPendingIn(ctx, h.Event.Handoff)
	if err != nil {
		return fmt.Errorf("read pending steps of %s: %w", h.Event.Handoff, err)
	}
	if !slices.ContainsFunc(held, func(each federation.Pending) bool {
		return each.Event.ID == h.Event.ID && each.Event.From == h.Event.From
	}) {
		return nil
	}
	return g.ruledOut(ctx, home.Ruling{Event: h.Event, Refused: federation.Refuse(h.Event, code, detail)})
}

// Moves reports whether a verb changes the state of a handoff, and so needs its home's
// confirmation.
func (g *Gateway) Moves(v federation.View, verb federation.Verb) bool {
	return g.home.Load().Moves(v, verb)
}

// Role returns the role in a handoff that may send a verb, or "" for an unknown verb.
func (g *Gateway) Role(v federation.View, verb federation.Verb) federation.Role {
	rule, _ := g.home.Load().Kinds.Rule(v, verb)
	return rule.Who
}

// Receipt returns the receipt of a filed step. It is deterministic.
func (g *Gateway) Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
	return g.home.Load().Receipt(ctx, entry, v)
}

// rulingPoll is the interval at which the record is polled for a ruling, because another replica
// may run the link to the home.
const rulingPoll = 50 * time.Millisecond

// maxRefusals bounds the stored refusals of operators' steps, at about 300 bytes each. A waiter
// polls every [rulingPoll].
const maxRefusals = 256

// refusals stores other homes' refusals of operators' steps, for commands waiting for rulings.
type refusals struct {
	mu   sync.Mutex
	kept []*federation.RefusalError // oldest first
	keys []refusedStep
}

type refusedStep struct {
	from  federation.DID
	event federation.EventID
}

func (r *refusals) add(ev federation.Event, refused *federation.RefusalError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) == maxRefusals {
		r.keys, r.kept = slices.Delete(r.keys, 0, 1), slices.Delete(r.kept, 0, 1)
	}
	r.keys, r.kept = append(r.keys, refusedStep{ev.From, ev.ID}), append(r.kept, refused)
}

func (r *refusals) of(ev federation.Event) *federation.RefusalError {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.keys, refusedStep{ev.From, ev.ID})
	if i < 0 {
		return nil
	}
	return r.kept[i]
}

// AwaitRuling waits for the ruling on a step of an operator in a remote handoff, and returns the
// entry of the filed step. The error is a [*federation.RefusalError] if the home refused the step,
// that of ctx if it ends first, or an error of the record.
func (g *Gateway) AwaitRuling(ctx context.Context, ev federation.Event) (federation.Entry, error) {
	tick := time.NewTicker(rulingPoll)
	defer tick.Stop()
	for {
		waits, err := g.awaitsRuling(ctx, ev)
		if err != nil {
			return federation.Entry{}, err
		}
		if !waits { // the step is filed or refused before its wait ends
			return g.ruledOn(ctx, ev)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return federation.Entry{}, ctx.Err()
		}
	}
}

func (g *Gateway) awaitsRuling(ctx context.Context, ev federation.Event) (bool, error) {
	held, err := g.deps.Record.ListPendingIn(ctx, ev.Handoff)
	if err != nil {
		return false, fmt.Errorf("read pending steps of %s: %w", ev.Handoff, err)
	}
	return slices.ContainsFunc(held, func(each federation.Pending) bool {
		return each.Event.ID == ev.ID && each.Event.From == ev.From
	}), nil
}

// ruledOn returns the entry of a step whose wait ended, or its refusal.
func (g *Gateway) ruledOn(ctx context.Context, ev federation.Event) (federation.Entry, error) {
	entry, err := g.home.Load().Filed(ctx, ev)
	if err == nil || !errors.Is(err, federation.ErrNotFound) {
		return entry, err
	}
	if refused := g.refusals.of(ev); refused != nil {
		return federation.Entry{}, refused
	}
	view, err := g.deps.Record.View(ctx, ev.Handoff)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	why := "its home refused it at another gateway of this home: see the log of that gateway"
	if view.Assignee != "" && view.Assignee != ev.Actor() {
		why = "it went to " + string(view.Assignee)
	}
	return federation.Entry{}, federation.Refuse(ev, federation.IllegalStep, why)
}

package webhook

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/fault"
)

// maxTurns is how many hooks are called at a time, at some 50 KB each while TLS is agreed
// on.
const maxTurns = 64

// turnLength is how long a hook has its turn, but for the call that it is in: others may
// wait.
const turnLength = 10 * time.Second

// spare is how much longer a hook is its gateway's than a turn can take. One that is
// still taken after its gateway died is called again then.
const spare = time.Minute

// lookAgain is the interval of scans for due deliveries without a wake-up and without a
// known time: a wake-up may be lost, and another gateway may have died.
const lookAgain = 30 * time.Second

// breath is the pause between two scans: a thousand wake-ups a second need fewer scans.
const breath = 20 * time.Millisecond

// turns is the turns that hooks have now.
type turns struct {
	free  chan struct{} // one token per free slot
	ended chan struct{} // has room for one: a turn is over
	group fault.Group
}

// Run calls hooks as something is due to them, until ctx ends, and returns when all
// calls have.
func (h *Hooks) Run(ctx context.Context) {
	wake, stop := h.deps.Wakes.Subscribe(bridge.WebhooksTopic)
	defer stop()
	t := &turns{free: make(chan struct{}, maxTurns), ended: make(chan struct{}, 1)}
	for range maxTurns {
		t.free <- struct{}{}
	}
	defer t.group.Wait()
	for ctx.Err() == nil {
		looked := time.Now()
		h.begin(ctx, t, looked)
		rest(ctx, breath)
		again := time.NewTimer(h.until(ctx, looked))
		select {
		case <-wake:
		case <-again.C:
		case <-t.ended:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// until returns how long it is until something is due that was not when it was last
// looked, or until it is to be looked again.
func (h *Hooks) until(ctx context.Context, looked time.Time) time.Duration {
	next, err := h.deps.Record.NextDue(ctx, looked)
	if err != nil || next.IsZero() {
		return lookAgain
	}
	return min(time.Until(next), lookAgain)
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin gives those hooks a turn that something is due to.
func (h *Hooks) begin(ctx context.Context, t *turns, now time.Time) {
	room := len(t.free) // only this takes them
	if room == 0 {
		return
	}
	due, err := h.deps.Record.TakeWebhooks(ctx, now, now.Add(turnLength+h.cfg.Timeout+spare), room)
	if err != nil && ctx.Err() == nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelError, "webhooks not read", slog.Any("err", err))
	}
	for _, hook := range due {
		<-t.free
		t.group.Go(func() {
			err := fault.Catch(func() error { h.turn(ctx, hook); return nil })
			h.deps.Metrics.Fault(ctx, h.deps.Log, "webhook", err) // the hook is taken again after a minute
			t.free <- struct{}{}
			select {
			case t.ended <- struct{}{}:
			default:
			}
		})
	}
}

// turn posts what is due to one hook, one after the other.
func (h *Hooks) turn(ctx context.Context, hook federation.Webhook) {
	end := time.Now().Add(turnLength)
	err := h.disableOver(ctx, hook)
	for err == nil && ctx.Err() == nil && time.Now().Before(end) {
		var p federation.Push
		if p, err = h.deps.Record.NextPush(ctx, hook.ID, time.Now()); err == nil {
			err = h.post(ctx, hook, p)
		}
	}
	after := context.WithoutCancel(ctx) // the next gateway need not wait until it is free
	err = errors.Join(unlessOver(err), h.deps.Record.LetGo(after, hook.ID, time.Now()))
	if err != nil && ctx.Err() == nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelError, "webhook left", slog.String("link", federation.WebhookName(hook.ID)), slog.Any("err", err))
	}
}

// errOver ends the turn of a hook before its time: it is not called now.
var errOver = errors.New("webhook: its turn is over")

// unlessOver returns what went wrong, nil where a turn just ended.
func unlessOver(err error) error {
	if errors.Is(err, errOver) || errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	return err
}

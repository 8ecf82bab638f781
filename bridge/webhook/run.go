package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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

// duePage bounds the due deliveries of a hook that are read at once, at some 100 bytes each. It exceeds
// the default limit of an inbox, so that no sender is outside of it.
const duePage = 1 << 14

// maxKept bounds the hooks remembered between turns. A forgotten hook starts with the sender of its
// oldest due delivery.
const maxKept = 4096

// breath is the pause between two scans: a thousand wake-ups a second need fewer scans.
const breath = 20 * time.Millisecond

// turns is the turns that hooks have now.
type turns struct {
	free  chan struct{} // one token per free slot
	ended chan struct{} // has room for one: a turn is over
	group fault.Group

	mu   sync.Mutex
	kept map[federation.WebhookID]*kept // hooks with more due deliveries and no worker
}

// kept is the state of a hook between its turns.
type kept struct {
	senders bridge.Turns
	called  bool      // called since the last pause
	until   time.Time // end of the pause
}

// take removes and returns the state of a hook for one worker.
func (t *turns) take(id federation.WebhookID) *kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	has := t.kept[id]
	delete(t.kept, id)
	if has == nil {
		has = &kept{}
	}
	return has
}

// keep stores the state of a hook for the next worker.
func (t *turns) keep(id federation.WebhookID, has *kept) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= maxKept {
		clear(t.kept)
	}
	t.kept[id] = has
}

// Run calls hooks as something is due to them, until ctx ends, and returns when all
// calls have.
func (h *Hooks) Run(ctx context.Context) {
	wake, stop := h.deps.Wakes.Subscribe(bridge.WebhooksTopic)
	defer stop()
	t := &turns{free: make(chan struct{}, maxTurns), ended: make(chan struct{}, 1), kept: map[federation.WebhookID]*kept{}}
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
			err := fault.Catch(func() error {
				has := t.take(hook.ID)
				if more := h.turn(ctx, hook, has); more {
					t.keep(hook.ID, has)
				}
				return nil
			})
			h.deps.Metrics.Fault(ctx, h.deps.Log, "webhook", err) // retried after a minute
			t.free <- struct{}{}
			select {
			case t.ended <- struct{}{}:
			default:
			}
		})
	}
}

// turn gives one hook its turn, and reports whether more may be due to it.
func (h *Hooks) turn(ctx context.Context, hook federation.Webhook, has *kept) (more bool) {
	err := h.disableOver(ctx, hook)
	if err == nil && !time.Now().Before(has.until) { // no delivery became due during the pause
		err = h.postDue(ctx, hook, has)
	}
	more = !errors.Is(err, federation.ErrNotFound)
	if _, over := errors.AsType[*turnEndedError](err); over || !more {
		err = nil
	}
	free := time.Now()
	if has.until.After(free) {
		free = has.until
	}
	after := context.WithoutCancel(ctx) // the next gateway need not wait until it is free
	err = errors.Join(err, h.deps.Record.LetGo(after, hook.ID, free))
	if err != nil && ctx.Err() == nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelError, "webhook left", slog.String("link", federation.WebhookName(hook.ID)), slog.Any("err", err))
	}
	return more
}

// postDue posts the due deliveries of one hook in sequence. Senders take turns, so that no sender
// waits behind all deliveries of another one.
func (h *Hooks) postDue(ctx context.Context, hook federation.Webhook, has *kept) error {
	var due []federation.DuePush
	var senders []string // of due
	for end := time.Now().Add(turnLength); ctx.Err() == nil && time.Now().Before(end); {
		if len(due) == 0 {
			var err error
			if due, err = h.deps.Record.DuePushes(ctx, hook.ID, time.Now(), duePage); err != nil {
				return err
			}
			if len(due) == 0 {
				return federation.ErrNotFound
			}
			senders = senders[:0]
			for _, each := range due {
				senders = append(senders, each.Sender)
			}
		}
		i := has.senders.Next(senders)
		item, sender := due[i].Item, senders[i]
		due, senders = slices.Delete(due, i, i+1), slices.Delete(senders, i, i+1)
		p, err := h.deps.Record.DuePush(ctx, hook.ID, item, time.Now())
		if errors.Is(err, federation.ErrNotFound) {
			continue // no longer due
		}
		if err != nil {
			return err
		}
		err = h.post(ctx, hook, p, has.called)
		alone, over := errors.AsType[*turnEndedError](err)
		if err == nil || over && alone.counted {
			has.senders.Took(sender)
		}
		if over {
			has.until = time.Now().Add(alone.wait)
		}
		if has.called = err == nil; err != nil {
			return err
		}
	}
	return nil
}

// turnEndedError ends the turn of a hook early.
type turnEndedError struct {
	wait    time.Duration
	counted bool // the attempt counts
}

// Error implements error.
func (e *turnEndedError) Error() string { return fmt.Sprintf("webhook: not called for %s", e.wait) }

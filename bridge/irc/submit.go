package irc

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/baton-gateway/baton/federation"
)

const (
	firstAsk = 100 * time.Millisecond
	lastAsk  = 5 * time.Second
)

// judgeGrace bounds the submission of steps already read after the end of a link. A working record
// needs far less.
const judgeGrace = 5 * time.Second

// WithGrace returns a context for submitting the steps read before ctx ended. It ends judgeGrace
// later, or when the caller cancels it.
func WithGrace(ctx context.Context) (submitting context.Context, cancel context.CancelFunc) {
	submitting, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(judgeGrace, end) })
	return submitting, func() {
		stop()
		end()
	}
}

// Retrying a stranger's step here would delay the steps of known users behind it.
func rateLimited(ev federation.Event, stranger *federation.NewDIDLimitError) *federation.RefusalError {
	refused := federation.Refuse(ev, federation.RateLimited, "too many DIDs are new to this gateway; try again later")
	refused.RetryAfter = stranger.RetryAfter
	return refused
}

// SubmitWithRetry submits a step until the gateway accepts or refuses it, or until ctx ends. IRC
// has no temporary error, so this step and all later steps wait here. A refusal is final, even if a
// key is missing. An error that a retry cannot resolve is also final.
func SubmitWithRetry(
	ctx context.Context, log *slog.Logger, ev federation.Event, ask func(ctx context.Context) (federation.Judgement, error),
) (federation.Judgement, error) {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = firstAsk, lastAsk, 2
	once := func() (federation.Judgement, error) {
		answer, err := ask(ctx)
		_, notNow := errors.AsType[*federation.UnavailableError](err)
		if stranger, ok := errors.AsType[*federation.NewDIDLimitError](err); ok {
			err = rateLimited(ev, stranger)
		}
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && (refused || !notNow) {
			return answer, backoff.Permanent(err)
		}
		return answer, err
	}
	return backoff.Retry(ctx, once, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, next time.Duration) {
			log.LogAttrs(ctx, slog.LevelWarn, "step waits", slog.String("event_id", ev.ID.String()),
				slog.String("handoff_id", ev.Handoff.String()), slog.Any("err", err), slog.Duration("next", next))
		}))
}

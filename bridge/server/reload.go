package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
)

// ErrEnding is returned by [Reloads.Ask] of a gateway that ends.
var ErrEnding = errors.New("the gateway is stopping")

// Reloads reads the configuration of a running gateway again, one time after another. The links
// that a reload opens end with the gateway, and not with the request that asked for it. Make one
// with [NewReloads]. Its methods may be called concurrently.
type Reloads[T any] struct {
	reload func(ctx context.Context, dry bool) (T, error)
	asked  chan reloadAsk[T]
	ended  chan struct{} // closed when the gateway begins to end
}

// reloadAsk asks for one reload.
type reloadAsk[T any] struct {
	dry    bool
	answer chan<- reloadAnswer[T] // takes one answer without a reader
}

// reloadAnswer is the result of a reload.
type reloadAnswer[T any] struct {
	done T
	err  error
}

// NewReloads returns Reloads that call reload. With dry, reload only compares.
func NewReloads[T any](reload func(ctx context.Context, dry bool) (T, error)) *Reloads[T] {
	return &Reloads[T]{reload: reload, asked: make(chan reloadAsk[T]), ended: make(chan struct{})}
}

// Run reloads at each signal and at each request, until ctx ends. It logs each failure.
func (r *Reloads[T]) Run(ctx context.Context, signals <-chan os.Signal, log *slog.Logger) {
	context.AfterFunc(ctx, func() { close(r.ended) })
	for {
		var ask reloadAsk[T]
		select {
		case <-signals:
		case ask = <-r.asked:
		case <-ctx.Done():
			return
		}
		done, err := r.reload(ctx, ask.dry)
		if err != nil {
			log.LogAttrs(ctx, slog.LevelError, "configuration not read again", slog.Any("err", err))
		}
		if ask.answer != nil {
			ask.answer <- reloadAnswer[T]{done, err}
		}
	}
}

// Ask has [Reloads.Run] reload, and returns the result. It blocks until the reload is done. It
// returns [ErrEnding] where the gateway ends before that, and the error of ctx where ctx ends.
func (r *Reloads[T]) Ask(ctx context.Context, dry bool) (T, error) {
	var none T
	answer := make(chan reloadAnswer[T], 1)
	select {
	case r.asked <- reloadAsk[T]{dry, answer}:
	case <-ctx.Done():
		return none, ctx.Err()
	case <-r.ended:
		return none, ErrEnding
	}
	select {
	case got := <-answer:
		return got.done, got.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-r.ended:
		return none, ErrEnding
	}
}

package server_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/bridge/server"
)

func TestReloadAnswersItsRequest(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	broken := errors.New("line 3")
	reloads := server.NewReloads(func(_ context.Context, dry bool) (string, error) {
		if dry {
			return "compared", nil
		}
		return "", broken
	})
	var running sync.WaitGroup
	running.Go(func() { reloads.Run(ctx, make(chan os.Signal), slog.New(slog.DiscardHandler)) })
	if done, err := reloads.Ask(t.Context(), true); done != "compared" || err != nil {
		t.Errorf("a dry run: %q, %v", done, err)
	}
	if _, err := reloads.Ask(t.Context(), false); !errors.Is(err, broken) {
		t.Errorf("a failed reload: %v", err)
	}
	end()
	running.Wait()
	if _, err := reloads.Ask(t.Context(), true); !errors.Is(err, server.ErrEnding) {
		t.Errorf("after the end: %v", err)
	}
}

func TestReloadBySignal(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	reloads := server.NewReloads(func(_ context.Context, dry bool) (struct{}, error) {
		if dry {
			t.Error("a signal asked for a dry run")
		}
		end()
		return struct{}{}, nil
	})
	reloads.Run(ctx, signals, slog.New(slog.DiscardHandler))
}

package irc_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func TestSubmitWithRetryRefusesStrangersOverTheLimit(t *testing.T) {
	asked := 0
	stranger := &federation.NewDIDLimitError{Reason: federation.TooManyNewDIDs, RetryAfter: time.Minute}
	ev := federation.Event{ID: federation.EventID{1}, Handoff: federation.EventID{2}}
	_, err := irc.SubmitWithRetry(t.Context(), slog.New(slog.DiscardHandler), ev, func(context.Context) (federation.Judgement, error) {
		asked++
		return federation.Judgement{}, stranger
	})
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code != federation.RateLimited || refused.RetryAfter != time.Minute || refused.Event != ev.ID || refused.Handoff != ev.Handoff {
		t.Errorf("SubmitWithRetry: %v (%+v), want RATE_LIMITED", err, refused)
	}
	if asked != 1 {
		t.Errorf("the gateway was asked %d times, want once", asked)
	}
}

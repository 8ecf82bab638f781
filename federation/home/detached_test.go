package home_test

import (
	"context"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
)

// hangingUp routes steps to no link, and ends the context of the caller: it is asked once a
// step was found good.
type hangingUp struct{ hangUp context.CancelFunc }

func (h hangingUp) Route(context.Context, federation.Event, federation.View) (federation.Fanout, error) {
	h.hangUp()
	return federation.Fanout{}, nil
}

// punctual is a log that files nothing for a caller that left.
type punctual struct{ home.Record }

func (p punctual) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	if ctx.Err() != nil {
		return federation.Entry{}, context.Cause(ctx)
	}
	return p.Record.Append(ctx, f)
}

func TestSubmitFilesAfterItsCallerLeft(t *testing.T) {
	b := newBench(t)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	b.home.Route, b.home.Record = hangingUp{hangUp}.Route, punctual{b.record}
	offer := b.step(1, b.alice, federation.Offer)
	if _, err := b.home.Submit(ctx, offer, b.now); err != nil {
		t.Fatalf("Submit: %v", err)
	}
	if view, err := b.record.View(t.Context(), offer.Handoff); err != nil || view.State != federation.Offered {
		t.Errorf("the handoff is %q, %v; want that it is offered", view.State, err)
	}
}

package server

import (
	"context"
	"log/slog"
	"time"

	"baton/federation"
	"baton/federation/home"
)

// judgeEvery is the interval of looks for deferred steps that are due. It bounds how late a key is noticed
// that arrives without a notification.
const judgeEvery = time.Second

// judgeAgain judges deferred steps again until ctx ends: at once after the start, and then
// every second.
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

// deferralEnded logs and counts the judgement of a deferred step, as Submit does, and files a notice to
// the sender of a refused one.
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
	g.note(ctx, r.Step.Event, r.Judgement, err)
	g.wake(r.Judgement, err)
	g.follow(ctx, r.Judgement, err)
	return nil
}

// refusalOf returns the notice to the sender of a deferred step that was refused. An invalid signature
// proves no sender: then the reader of the notice is the user with the name on the link.
func refusalOf(r home.DeferralEnd, now time.Time) federation.Notice {
	ev := r.Step.Event
	if r.Judgement.Verdict != federation.Valid {
		ev.From, ev.For = "", ""
	}
	return noticeOf(ev, r.Refused, now)
}

// noticeOf returns the notice to the sender of a step that was accepted first and refused later.
func noticeOf(ev federation.Event, refused *federation.RefusalError, now time.Time) federation.Notice {
	return federation.Notice{
		Kind: federation.NoticeRefused, Event: ev, Code: string(refused.Code), Why: refused.Sentence(), At: now,
	}
}

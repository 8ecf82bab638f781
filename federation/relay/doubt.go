package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"baton/federation"
)

// doubtEvery is how often a doubt of one kind about a home is noted at most: a home that
// lies all day costs no more than one that does so now and then.
const doubtEvery = time.Second

// doubted is when doubts about a home were noted last. It may be used concurrently.
type doubted struct {
	mu   sync.Mutex
	last map[federation.DoubtKind]time.Time
}

// due reports whether a doubt is to be noted, and that it is.
func (d *doubted) due(kind federation.DoubtKind, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last[kind]) < doubtEvery {
		return false
	}
	if d.last == nil {
		d.last = make(map[federation.DoubtKind]time.Time)
	}
	d.last[kind] = now
	return true
}

// Doubt tells the log and the record that the other home has signed what this one does not
// believe, once a second for each kind at most. It blocks until that is on disk; a record
// that cannot be written now goes without.
func (p *Peer) Doubt(ctx context.Context, kind federation.DoubtKind, why string) {
	now := p.deps.Now()
	if !p.doubted.due(kind, now) {
		return
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "home is not believed", slog.String("what", string(kind)), slog.String("reason", why))
	if err := p.deps.Record.KeepDoubt(ctx, federation.Doubt{Home: p.cfg.Home, Kind: kind, Last: now, Why: why}); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "doubt not kept", slog.Any("err", err))
	}
}

// vouched returns a refusal for a step that stands for somebody whom none of these homes
// may speak for.
func (p *Peer) vouched(ctx context.Context, ev federation.Event, homes ...federation.HomeID) error {
	if ev.Provenance != federation.Vouched || ev.For == "" || p.believed(ctx, ev.For, homes...) != "" {
		return nil
	}
	p.Doubt(ctx, federation.DoubtfulVoice, string(ev.Verb)+" "+ev.ID.String()+" in the name of "+string(ev.For))
	return federation.Refuse(ev, federation.WrongSender, "it stands for somebody whose mailbox is elsewhere")
}

// weigh looks whether a step was judged to be nobody's, which the other home had to see.
func (p *Peer) weigh(ctx context.Context, ev federation.Event, verdict federation.Verdict) {
	if verdict == federation.Invalid {
		p.Doubt(ctx, federation.DoubtfulStep, string(ev.Verb)+" "+ev.ID.String()+" in the name of "+string(ev.From))
	}
}

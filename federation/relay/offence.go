package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"baton/federation"
)

// offenceEvery is the shortest interval between two notes of offences of one kind. It bounds what a
// home costs that lies all the time.
const offenceEvery = time.Second

// reported is when offences of a home were noted last. It may be used concurrently.
type reported struct {
	mu   sync.Mutex
	last map[federation.OffenceKind]time.Time
}

// due reports whether an offence is to be noted, and counts it as noted.
func (d *reported) due(kind federation.OffenceKind, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last[kind]) < offenceEvery {
		return false
	}
	if d.last == nil {
		d.last = make(map[federation.OffenceKind]time.Time)
	}
	d.last[kind] = now
	return true
}

// ReportOffence writes an offence of the other home to the log and to the record, once a
// second for each kind at most. It blocks until the offence is on disk. An offence that cannot
// be written now is only in the log.
func (p *Peer) ReportOffence(ctx context.Context, kind federation.OffenceKind, why string) {
	now := p.deps.Now()
	if !p.reported.due(kind, now) {
		return
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "home is not believed", slog.String("what", string(kind)), slog.String("reason", why))
	if err := p.deps.Record.KeepOffence(ctx, federation.Offence{Home: p.cfg.Home, Kind: kind, Last: now, Why: why}); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "offence not kept", slog.Any("err", err))
	}
}

// vouched refuses a vouched step for a DID whose mailbox is at none of these homes.
func (p *Peer) vouched(ctx context.Context, ev federation.Event, homes ...federation.HomeID) error {
	if ev.Provenance != federation.Vouched || ev.For == "" || p.trustedParty(ctx, ev.For, homes...) != "" {
		return nil
	}
	p.ReportOffence(ctx, federation.OffenceVoice, string(ev.Verb)+" "+ev.ID.String()+" in the name of "+string(ev.For))
	return federation.Refuse(ev, federation.WrongSender, "it stands for a DID whose mailbox is at another home")
}

// reportInvalid reports the offence of a home that sent a step with an invalid signature: each home
// verifies steps before it sends them.
func (p *Peer) reportInvalid(ctx context.Context, ev federation.Event, verdict federation.Verdict) {
	if verdict == federation.Invalid {
		p.ReportOffence(ctx, federation.OffenceStep, string(ev.Verb)+" "+ev.ID.String()+" in the name of "+string(ev.From))
	}
}

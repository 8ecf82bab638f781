package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
)

type move struct {
	heading

	DID federation.DID `json:"did"`
}

type moved struct {
	answerHeading

	Taken bool   `json:"taken"`
	Why   string `json:"why,omitempty"` // for people; only after a refusal
}

func parseMove(text []byte, to federation.HomeID) (move, error) {
	var m move
	if err := parse(text, &m); err != nil {
		return m, err
	}
	if _, err := federation.ParseDID(string(m.DID)); err != nil {
		return m, err
	}
	return m, m.check(typeMove, to)
}

// Move moves a DID's mailbox to the other home. It blocks on the network. A refusal is a
// [*federation.RefusalError].
func (p *Peer) Move(ctx context.Context, did federation.DID) error {
	if p.Mode() == Hold || p.Mode() == Block {
		return p.unavailable(errHeld)
	}
	asked := move{heading: p.deps.ask(typeMove, p.cfg.Home), DID: did}
	body, err := json.Marshal(asked)
	if err != nil {
		return fmt.Errorf("write move for %s: %w", p.cfg.Home, err)
	}
	text, err := p.request(ctx, Envelope{Body: body, Path: []federation.HomeID{p.deps.Home}})
	if err != nil {
		return err
	}
	var answer moved
	if err := parse(text, &answer); err != nil {
		return p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	switch {
	case !answer.is(asked.answers(typeMoved, body)):
		return p.unavailable(errOtherAnswer)
	case !answer.Taken:
		return federation.Refuse(federation.Event{}, federation.PolicyDenied, answer.Why)
	}
	return nil
}

// An error means that this home cannot decide now.
func (p *Peer) takeOver(ctx context.Context, asked move, body []byte) (moved, error) {
	answer := moved{answerHeading: p.deps.answers(asked.heading, typeMoved, body)}
	why, err := p.deps.Mailboxes.TakeOver(ctx, asked.DID, p.cfg.Home, p.deps.Now())
	answer.Taken, answer.Why = err == nil && why == "", why
	return answer, err
}

// Each result repeats moved mailboxes, so a write may fail.
func (p *Peer) learn(ctx context.Context, gone []federation.MovedMailbox) {
	for _, each := range gone {
		if err := p.deps.Mailboxes.LearnMove(ctx, each, p.cfg.Home, p.deps.Now()); err != nil {
			p.log.LogAttrs(ctx, slog.LevelWarn, "home of a DID not stored", slog.String("did", string(each.DID)), slog.Any("err", err))
		}
	}
}

// offenceEvery bounds the cost of constant false claims.
const offenceEvery = time.Second

// Safe for concurrent use.
type reported struct {
	mu   sync.Mutex
	last map[federation.MisbehaviorKind]time.Time
}

// If it returns true, the offence counts as recorded.
func (d *reported) due(kind federation.MisbehaviorKind, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last[kind]) < offenceEvery {
		return false
	}
	if d.last == nil {
		d.last = make(map[federation.MisbehaviorKind]time.Time)
	}
	d.last[kind] = now
	return true
}

// ReportMisbehavior writes an offence of the other home to the log and the record, at most once per
// second and kind. It blocks until the offence is on disk. A failed write is only logged.
func (p *Peer) ReportMisbehavior(ctx context.Context, kind federation.MisbehaviorKind, why string) {
	now := p.deps.Now()
	if !p.reported.due(kind, now) {
		return
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "misbehavior of another home", slog.String("what", string(kind)), slog.String("reason", why))
	if err := p.deps.Record.KeepMisbehavior(ctx, federation.Misbehavior{Home: p.cfg.Home, Kind: kind, Last: now, Why: why}); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "misbehavior of another home not stored", slog.Any("err", err))
	}
}

// The mailbox must be at one of these homes.
func (p *Peer) vouched(ctx context.Context, ev federation.Event, homes ...federation.HomeID) error {
	if ev.Provenance != federation.Vouched || ev.For == "" {
		return nil
	}
	if party, err := p.trustedParty(ctx, ev.For, homes...); party != "" || err != nil {
		return err
	}
	return p.foreignVoice(ctx, ev.Verb, ev.ID, ev.For)
}

func (p *Peer) foreignVoice(ctx context.Context, verb federation.Verb, id federation.EventID, did federation.DID) error {
	p.ReportMisbehavior(ctx, federation.MisbehaviorVoice, string(verb)+" "+id.String()+" in the name of "+string(did))
	return &federation.RefusalError{Code: federation.WrongSender, Event: id, Detail: "it stands for a DID whose mailbox is at another home"}
}

// Each home must verify steps before it sends them.
func (p *Peer) reportInvalid(ctx context.Context, ev federation.Event, verdict federation.Verdict) {
	if verdict == federation.Invalid {
		p.ReportMisbehavior(ctx, federation.MisbehaviorStep, string(ev.Verb)+" "+ev.ID.String()+" in the name of "+string(ev.From))
	}
}

// Homes can send invalid messages at any rate.
const reportEvery = time.Minute

// A reportLimiter admits one log line per interval and key. Its keys are peer names and codes, which
// are closed sets. Safe for concurrent use; the zero value is ready.
type reportLimiter struct {
	mu   sync.Mutex
	last map[reportKey]reportCount
}

type reportKey struct {
	from federation.HomeID // "" over HTTPS, which is open to any client
	code string
}

type reportCount struct {
	passed  time.Time
	skipped int
}

// pass also returns the number of skipped lines.
func (r *reportLimiter) pass(key reportKey, now time.Time) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.last[key]
	if !count.passed.IsZero() && now.Sub(count.passed) < reportEvery {
		count.skipped++
		r.last[key] = count
		return 0, false
	}
	if r.last == nil {
		r.last = map[reportKey]reportCount{}
	}
	r.last[key] = reportCount{passed: now}
	return count.skipped, true
}

// An unverifiable message is logged as a warning, because it is retried.
func (h *PeerHandler) report(ctx context.Context, from federation.HomeID, p problem) {
	if h.Deps.BadInput != nil && p.code != codeLater {
		h.Deps.BadInput(from, p.code)
	}
	skipped, ok := h.reports.pass(reportKey{from, p.code}, h.Deps.Now())
	if !ok {
		return
	}
	log := h.Deps.Log.With(slog.String("network", Network), slog.String("peer", string(from)), slog.String("code", p.code), slog.Int("more", skipped))
	if p.code == codeUnverifiable {
		log.LogAttrs(ctx, slog.LevelWarn, "message of another home not verified", slog.Any("err", p.err))
		return
	}
	log.LogAttrs(ctx, slog.LevelInfo, "message of another home not accepted", slog.Any("err", p.err))
}

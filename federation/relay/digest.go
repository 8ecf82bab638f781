package relay

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Each start of either home causes a comparison; a reconnection does not.
const (
	compareEvery = 24 * time.Hour
	compareAgain = time.Hour           // minimum interval without a restart of the other home
	compareRetry = time.Minute         // after a failure
	compareBack  = 30 * 24 * time.Hour // the other home may have pruned older handoffs
)

// A digest lists the latest local versions of handoffs of both homes.
type digest struct {
	heading

	Handoffs []reach `json:"handoffs"`
	Yours    []reach `json:"yours,omitempty"` // of the other home
}

type reach struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"`
	Chain   string               `json:"chain"`          // hexadecimal; see [federation.Link]
	Over    bool                 `json:"over,omitempty"` // in Yours, for earlier versions: a missing ended handoff is not restored
}

type comparison struct {
	answerHeading

	Lacks []lack `json:"lacks"`
	Lost  []lack `json:"lost,omitempty"` // among Yours
}

type lack struct {
	Handoff federation.HandoffID `json:"handoff"`
	Have    federation.Version   `json:"have"` // latest version here
}

// Compared is the result of a comparison with another home.
type Compared struct {
	Handoffs int
	Sent     int    // handoffs of this home, whose missing steps were sent
	Restored int    // handoffs of the other home, whose lost steps were restored
	Lost     []Loss // handoffs of the other home, whose lost steps it refused
}

func parseDigest(text []byte, to federation.HomeID) (digest, error) {
	var d digest
	if err := parse(text, &d); err != nil {
		return d, err
	}
	if len(d.Handoffs)+len(d.Yours) > maxItems {
		return d, fmt.Errorf("more than %d handoffs", maxItems)
	}
	return d, d.check(typeDigest, to)
}

// Histories are compared now, every day, and after each start of the other home. A failed comparison
// is repeated after a minute.
func (p *Peer) compareHistories(ctx context.Context) error {
	for {
		wait := compareEvery
		if boot, due := p.history.due(p.deps.Now()); due && p.Mode() != Hold {
			done, err := p.Compare(ctx)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				wait = compareRetry
				p.log.LogAttrs(ctx, slog.LevelInfo, "not compared with another home", slog.Any("err", err))
			default:
				p.history.record(boot, done.Lost, p.deps.Now())
				p.reportCompared(ctx, done)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.history.restarted:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (p *Peer) reportCompared(ctx context.Context, done Compared) {
	if done.Sent > 0 {
		p.log.LogAttrs(ctx, slog.LevelWarn, "another home had lost steps, which were sent again", slog.Int("handoffs", done.Sent))
	}
	if done.Restored > 0 {
		p.log.LogAttrs(ctx, slog.LevelWarn, "another home had lost steps of its own handoffs, which were restored", slog.Int("handoffs", done.Restored))
	}
	for _, l := range done.Lost {
		p.log.LogAttrs(ctx, slog.LevelWarn, "handoff orphaned: its home has lost steps", slog.String("handoff_id", l.Handoff.String()), slog.String("reason", l.Why))
	}
}

// CompareNow compares the histories of both homes for an operator, and stores the result. [Peer.Run]
// must be running. It blocks until all handoffs are compared.
func (p *Peer) CompareNow(ctx context.Context) (Compared, error) {
	boot, _ := p.history.due(p.deps.Now())
	done, err := p.Compare(ctx)
	if err == nil {
		p.history.record(boot, done.Lost, p.deps.Now())
	}
	return done, err
}

// Lost returns the other home's loss in its handoff, according to the last comparison.
func (p *Peer) Lost(id federation.HandoffID) (Loss, bool) { return p.history.lostOf(id) }

// LostSteps is [Peer.Lost] with only the readable reason of the loss.
func (p *Peer) LostSteps(id federation.HandoffID) (why string, lost bool) {
	l, lost := p.Lost(id)
	return l.Why, lost
}

// Compare sends the other home the latest local versions of both homes' handoffs, and then its missing
// steps. [Peer.Run] must be running. It blocks until all handoffs are compared.
func (p *Peer) Compare(ctx context.Context) (Compared, error) {
	var done Compared
	if mode := p.Mode(); mode == Hold || mode == Block {
		return done, p.unavailable(errHeld)
	}
	first, err := federation.NewEventID(p.deps.Now().Add(-compareBack), bytes.NewReader(make([]byte, 10)))
	if err != nil {
		return done, err
	}
	err = p.pages(ctx, first, p.deps.Record.Shared, func(page []federation.HandoffID) error { return p.compareOurs(ctx, page, &done) })
	if err != nil {
		return done, err
	}
	return done, p.pages(ctx, first, p.deps.Record.OfHome, func(page []federation.HandoffID) error { return p.compareTheirs(ctx, page, &done) })
}

func (p *Peer) pages(ctx context.Context, after federation.HandoffID,
	read func(context.Context, federation.HomeID, federation.HandoffID, int) ([]federation.HandoffID, error), do func(page []federation.HandoffID) error,
) error {
	for {
		page, err := read(ctx, p.cfg.Home, after, maxItems)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1]
		if err := do(page); err != nil {
			return err
		}
	}
}

func (p *Peer) compareOurs(ctx context.Context, page []federation.HandoffID, done *Compared) error {
	d := digest{heading: p.deps.ask(typeDigest, p.cfg.Home)}
	var err error
	if d.Handoffs, err = p.deps.reaches(ctx, p.deps.Home, page); err != nil {
		return err
	}
	answer, err := p.compare(ctx, d)
	if err != nil {
		return err
	}
	done.Handoffs += len(d.Handoffs)
	for _, l := range answer.Lacks {
		if err := p.sendLacking(ctx, d, l); err != nil {
			return err
		}
		done.Sent++
	}
	return nil
}

func (p *Peer) compareTheirs(ctx context.Context, page []federation.HandoffID, done *Compared) error {
	d := digest{heading: p.deps.ask(typeDigest, p.cfg.Home), Handoffs: []reach{}}
	var err error
	if d.Yours, err = p.deps.reaches(ctx, p.cfg.Home, page); err != nil {
		return err
	}
	answer, err := p.compare(ctx, d)
	if err != nil {
		return err
	}
	done.Handoffs += len(d.Yours)
	for _, l := range answer.Lost {
		i := slices.IndexFunc(d.Yours, func(r reach) bool { return r.Handoff == l.Handoff && r.Version > l.Have })
		if i < 0 {
			return p.unavailable(errOtherAnswer)
		}
		why, err := p.returnSteps(ctx, d.Yours[i], l.Have)
		switch {
		case err != nil:
			return err
		case why == "":
			done.Restored++
		default:
			done.Lost = append(done.Lost, Loss{Handoff: l.Handoff, Version: d.Yours[i].Version, Have: l.Have, Why: why})
		}
	}
	return nil
}

const erasedDetail = "an operator erased its content"

// The reason is "" unless the steps are refused.
func (p *Peer) returnSteps(ctx context.Context, ours reach, have federation.Version) (why string, err error) {
	for entry, err := range p.deps.Record.Log(ctx, ours.Handoff, have) {
		if err != nil {
			return "", fmt.Errorf("read log of %s: %w", ours.Handoff, err)
		}
		if entry.Version > ours.Version {
			break
		}
		if entry.Event.Erased != nil {
			return erasedDetail, nil
		}
		it, err := p.deps.filed(ctx, p.cfg.Home, entry)
		if errors.Is(err, federation.ErrNotFound) {
			return "it signed no ruling on step " + entry.Event.ID.String(), nil
		}
		if err != nil {
			return "", err
		}
		r, err := p.ask(ctx, []federation.HomeID{p.deps.Home}, it)
		if err != nil {
			return "", err
		}
		switch r.Outcome {
		case outcomeStored, outcomeDuplicate:
		case outcomeRefused, outcomeConflict:
			return fmt.Sprintf("it has %d of %d steps, and refuses the rest: %s %s", have, ours.Version, r.Code, r.Detail), nil
		case outcomeGap, outcomeLater:
			return "", p.unavailable(fmt.Errorf("it answers %q", r.Outcome))
		}
	}
	return "", nil
}

// Pruned handoffs are omitted, as are orphaned handoffs ended by an operator.
func (d Deps) reaches(ctx context.Context, of federation.HomeID, ids []federation.HandoffID) ([]reach, error) {
	found := []reach{}
	for _, id := range ids {
		view, err := d.Record.View(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("read handoff %s: %w", id, err)
		}
		if !view.Exists() || view.Home != of || of != d.Home && !view.Numbered {
			continue
		}
		if of != d.Home && view.Over {
			_, _, err := d.Record.RulingOn(ctx, id, view.Version)
			if errors.Is(err, federation.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		chain, err := d.Record.Chain(ctx, id, view.Version)
		if err != nil {
			return nil, err
		}
		found = append(found, reach{Handoff: id, Version: view.Version, Chain: hex.EncodeToString(chain[:]), Over: of != d.Home && view.Over})
	}
	return found, nil
}

func (p *Peer) compare(ctx context.Context, d digest) (comparison, error) {
	var c comparison
	body, err := json.Marshal(d)
	if err != nil {
		return c, fmt.Errorf("write digest for %s: %w", p.cfg.Home, err)
	}
	text, err := p.request(ctx, Envelope{Body: body, Path: []federation.HomeID{p.deps.Home}})
	if err != nil {
		return c, err
	}
	if err := parse(text, &c); err != nil {
		return c, p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	if !c.is(d.answers(typeComparison, body)) || len(c.Lacks) > len(d.Handoffs) || len(c.Lost) > len(d.Yours) {
		return c, p.unavailable(errOtherAnswer)
	}
	return c, nil
}

func (p *Peer) compareWith(ctx context.Context, asked digest, body []byte) (comparison, error) {
	answer := comparison{answerHeading: p.deps.answers(asked.heading, typeComparison, body)}
	var err error
	if answer.Lacks, err = p.lacks(ctx, asked); err != nil {
		return answer, err
	}
	answer.Lost, err = p.deps.lost(ctx, asked)
	return answer, err
}

// lost returns the handoffs of this home with more or different steps at the other home, except pruned
// ones.
func (d Deps) lost(ctx context.Context, asked digest) ([]lack, error) {
	var lost []lack
	for _, reached := range asked.Yours {
		view, err := d.Record.View(ctx, reached.Handoff)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read handoff %s: %w", reached.Handoff, err)
		case view.Exists() && view.Home != d.Home:
			continue
		case !view.Exists():
			pruned, err := d.Record.Pruned(ctx, reached.Handoff)
			if err != nil {
				return nil, err
			}
			if pruned {
				continue
			}
		}
		if view.Version < reached.Version {
			lost = append(lost, lack{reached.Handoff, view.Version})
			continue
		}
		chain, err := d.Record.Chain(ctx, reached.Handoff, reached.Version)
		if err != nil {
			return nil, err
		}
		if reached.Version > 0 && hex.EncodeToString(chain[:]) != reached.Chain {
			lost = append(lost, lack{reached.Handoff, reached.Version - 1})
		}
	}
	return lost, nil
}

func (p *Peer) sendLacking(ctx context.Context, d digest, l lack) error {
	for _, reached := range d.Handoffs {
		if reached.Handoff != l.Handoff || l.Have >= reached.Version {
			continue
		}
		_, err := p.refill(ctx, p.deps.Home, federation.Entry{Event: federation.Event{Handoff: reached.Handoff}, Version: reached.Version}, l.Have)
		return err
	}
	return p.unavailable(errOtherAnswer)
}

// A different step is requested, because its ruling is the proof of a fork.
func (p *Peer) lacks(ctx context.Context, d digest) ([]lack, error) {
	lacks := []lack{}
	for _, reached := range d.Handoffs {
		view, err := p.deps.Record.View(ctx, reached.Handoff)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read handoff %s: %w", reached.Handoff, err)
		case view.Exists() && view.Home != p.cfg.Home:
			continue // the local handoff with this ID belongs to another home
		case view.Version < reached.Version:
			lacks = append(lacks, lack{reached.Handoff, view.Version})
			continue
		}
		forked, err := p.deps.Record.Forked(ctx, reached.Handoff)
		if err != nil {
			return nil, err
		}
		chain, err := p.deps.Record.Chain(ctx, reached.Handoff, reached.Version)
		if err != nil {
			return nil, err
		}
		if !forked && hex.EncodeToString(chain[:]) != reached.Chain {
			lacks = append(lacks, lack{reached.Handoff, reached.Version - 1})
		}
	}
	return lacks, nil
}

// maxBoots exceeds the replicas of a home.
const maxBoots = 64

// Loss is a handoff with steps that its home lost in a restore, and then refused.
type Loss struct {
	Handoff federation.HandoffID
	Version federation.Version // steps here
	Have    federation.Version // steps at the home
	Why     string             // reason for the refusal, for people
}

// In memory, so that the first connection after a start compares again. Safe for concurrent use.
type history struct {
	restarted chan struct{} // holds a token after a start of the other home

	mu       sync.Mutex
	boot     string               // latest one of the other home
	compared map[string]time.Time // by boot ID of the other home
	lost     []Loss
}

func newHistory() history {
	return history{restarted: make(chan struct{}, 1), compared: map[string]time.Time{}}
}

func bootOf(body []byte) string {
	var message struct {
		Boot string `json:"boot"`
	}
	if federation.DecodeJSON(body, &message) != nil {
		return ""
	}
	return message.Boot
}

func (h *history) started(boot string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if boot == h.boot {
		return
	}
	h.boot = boot
	select {
	case h.restarted <- struct{}{}:
	default: // one token covers several starts
	}
}

func (h *history) due(now time.Time) (boot string, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.compared[h.boot]
	return h.boot, !known || now.Sub(last) >= compareAgain
}

func (h *history) record(boot string, lost []Loss, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.compared) >= maxBoots {
		clear(h.compared)
	}
	h.compared[boot], h.lost = now, lost
}

func (h *history) lostOf(id federation.HandoffID) (Loss, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.lost, func(l Loss) bool { return l.Handoff == id })
	if i < 0 {
		return Loss{}, false
	}
	return h.lost[i], true
}

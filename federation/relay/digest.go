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
	"time"

	"baton/federation"
)

// When two homes compare what they have. A connection that comes and goes costs no comparison
// each time, unless one of the homes has started since the last one.
const (
	compareEvery = 24 * time.Hour
	compareAgain = time.Hour           // at the earliest, with the same start of the other home
	compareRetry = time.Minute         // after a comparison that failed
	compareBack  = 30 * 24 * time.Hour // handoffs that opened before are left out: the other home may have pruned them
)

// digest says how far handoffs go here: the handoffs of this home of which the other one has taken
// steps, or the handoffs of the other home.
type digest struct {
	heading

	Handoffs []reach `json:"handoffs"`
	Yours    []reach `json:"yours,omitempty"` // of the home that is asked
}

// reach is how far the log of one handoff goes.
type reach struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"`
	Chain   string               `json:"chain"`          // hexadecimal; see [federation.Link]
	Over    bool                 `json:"over,omitempty"` // of Yours: its home may have pruned it
}

// comparison is the answer to a digest: the handoffs of it that the answerer has less of,
// or other steps.
type comparison struct {
	foot

	Lacks []lack `json:"lacks"`
	Lost  []lack `json:"lost,omitempty"` // of Yours
}

// lack is one handoff of which steps are missing.
type lack struct {
	Handoff federation.HandoffID `json:"handoff"`
	Have    federation.Version   `json:"have"` // send what follows
}

// Compared is the result of a comparison with another home.
type Compared struct {
	Handoffs int    // that were compared
	Sent     int    // of this home: the other one lacked steps, and has them now
	Restored int    // of the other home, which had lost steps, and has them back
	Lost     []Loss // of the other home, which has lost steps for good
}

// parseDigest reads a digest that is for a home.
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

// agree compares the histories of both homes until ctx ends: now and every day, and when the
// other home has started since. It tries a comparison that failed again after a minute.
func (p *Peer) agree(ctx context.Context) error {
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
				p.history.note(boot, done.Lost, p.deps.Now())
				p.tellCompared(ctx, done)
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

// tellCompared logs what a comparison found missing.
func (p *Peer) tellCompared(ctx context.Context, done Compared) {
	if done.Sent > 0 {
		p.log.LogAttrs(ctx, slog.LevelWarn, "another home had lost steps, which were sent again", slog.Int("handoffs", done.Sent))
	}
	if done.Restored > 0 {
		p.log.LogAttrs(ctx, slog.LevelWarn, "another home had lost steps of its own handoffs, which it has back", slog.Int("handoffs", done.Restored))
	}
	for _, l := range done.Lost {
		p.log.LogAttrs(ctx, slog.LevelWarn, "handoff orphaned: its home has lost steps", slog.String("handoff_id", l.Handoff.String()), slog.String("reason", l.Why))
	}
}

// CompareNow compares the histories of both homes for an operator, keeps the result and returns
// it. It blocks while [Peer.Run] runs, until all handoffs are compared.
func (p *Peer) CompareNow(ctx context.Context) (Compared, error) {
	boot, _ := p.history.due(p.deps.Now())
	done, err := p.Compare(ctx)
	if err == nil {
		p.history.note(boot, done.Lost, p.deps.Now())
	}
	return done, err
}

// Lost returns what the other home has lost of one of its handoffs, as the last comparison
// found, and whether it has lost anything.
func (p *Peer) Lost(id federation.HandoffID) (Loss, bool) { return p.history.lostOf(id) }

// LostSteps returns why a handoff of the other home cannot go on there, as the last comparison
// found, and whether it cannot.
func (p *Peer) LostSteps(id federation.HandoffID) (why string, lost bool) {
	l, lost := p.Lost(id)
	return l.Why, lost
}

// Compare tells the other home how far the handoffs of both homes go here, and sends what it
// lacks: steps of handoffs of this home, and steps that it ruled on itself before its record was
// restored. It blocks while [Peer.Run] runs, until all are compared.
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

// pages calls do with the handoffs that read returns after one, page by page.
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

// compareOurs compares handoffs of this home, and sends what the other home lacks.
func (p *Peer) compareOurs(ctx context.Context, page []federation.HandoffID, done *Compared) error {
	d := digest{heading: p.deps.ask(typeDigest, p.cfg.Home)}
	var err error
	if d.Handoffs, err = p.deps.reaches(ctx, p.deps.Home, page); err != nil {
		return err
	}
	said, err := p.compare(ctx, d)
	if err != nil {
		return err
	}
	done.Handoffs += len(d.Handoffs)
	for _, l := range said.Lacks {
		if err := p.heal(ctx, d, l); err != nil {
			return err
		}
		done.Sent++
	}
	return nil
}

// compareTheirs compares handoffs of the other home. It sends the steps that the other home has
// lost back, with the rulings that it signed, and notes what it does not take.
func (p *Peer) compareTheirs(ctx context.Context, page []federation.HandoffID, done *Compared) error {
	d := digest{heading: p.deps.ask(typeDigest, p.cfg.Home), Handoffs: []reach{}}
	var err error
	if d.Yours, err = p.deps.reaches(ctx, p.cfg.Home, page); err != nil {
		return err
	}
	said, err := p.compare(ctx, d)
	if err != nil {
		return err
	}
	done.Handoffs += len(d.Yours)
	for _, l := range said.Lost {
		i := slices.IndexFunc(d.Yours, func(r reach) bool { return r.Handoff == l.Handoff && r.Version > l.Have })
		if i < 0 {
			return p.unavailable(errOtherAnswer)
		}
		why, err := p.giveBack(ctx, d.Yours[i], l.Have)
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

// giveBack sends the steps of a handoff of the other home that it lacks, each with the
// ruling that it signed. It returns why the other home does not take them, "" where it does.
func (p *Peer) giveBack(ctx context.Context, ours reach, have federation.Version) (why string, err error) {
	for entry, err := range p.deps.Record.Log(ctx, ours.Handoff) {
		if err != nil {
			return "", fmt.Errorf("read log of %s: %w", ours.Handoff, err)
		}
		if entry.Version <= have || entry.Version > ours.Version {
			continue
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

// reaches returns how far handoffs of a home go here. It leaves out one that was pruned in
// between, and one that an operator ended here after its home had lost it.
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

// compare sends a digest and returns what the other home signed about it.
func (p *Peer) compare(ctx context.Context, d digest) (comparison, error) {
	var c comparison
	body, err := json.Marshal(d)
	if err != nil {
		return c, fmt.Errorf("write digest for %s: %w", p.cfg.Home, err)
	}
	text, err := p.say(ctx, []federation.HomeID{p.deps.Home}, body)
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

// compareWith answers a digest of the other home.
func (p *Peer) compareWith(ctx context.Context, asked digest, body []byte) (comparison, error) {
	said := comparison{foot: p.deps.answers(asked.heading, typeComparison, body)}
	var err error
	if said.Lacks, err = p.lacks(ctx, asked); err != nil {
		return said, err
	}
	said.Lost, err = p.deps.lost(ctx, asked)
	return said, err
}

// lost returns the handoffs of this home of which the other one has more steps, or others: the
// record of this home was restored to before them. One that is over may have been pruned here.
func (d Deps) lost(ctx context.Context, asked digest) ([]lack, error) {
	var lost []lack
	for _, said := range asked.Yours {
		view, err := d.Record.View(ctx, said.Handoff)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read handoff %s: %w", said.Handoff, err)
		case view.Exists() && view.Home != d.Home, !view.Exists() && said.Over:
			continue
		case view.Version < said.Version:
			lost = append(lost, lack{said.Handoff, view.Version})
			continue
		}
		chain, err := d.Record.Chain(ctx, said.Handoff, said.Version)
		if err != nil {
			return nil, err
		}
		if said.Version > 0 && hex.EncodeToString(chain[:]) != said.Chain {
			lost = append(lost, lack{said.Handoff, said.Version - 1})
		}
	}
	return lost, nil
}

// heal sends what the other home lacks of a handoff of the digest. What it refuses it
// knows better than a digest does.
func (p *Peer) heal(ctx context.Context, d digest, l lack) error {
	for _, said := range d.Handoffs {
		if said.Handoff != l.Handoff || l.Have >= said.Version {
			continue
		}
		_, err := p.refill(ctx, p.deps.Home, federation.Entry{Event: federation.Event{Handoff: said.Handoff}, Version: said.Version}, l.Have)
		return err
	}
	return p.unavailable(errOtherAnswer)
}

// lacks answers a digest of the other home. Where the other home has other steps than
// this one filed, this home asks for the last one: its ruling is the proof.
func (p *Peer) lacks(ctx context.Context, d digest) ([]lack, error) {
	lacks := []lack{}
	for _, said := range d.Handoffs {
		view, err := p.deps.Record.View(ctx, said.Handoff)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read handoff %s: %w", said.Handoff, err)
		case view.Exists() && view.Home != p.cfg.Home:
			continue // it has that of another home under the same id, which is its right
		case view.Version < said.Version:
			lacks = append(lacks, lack{said.Handoff, view.Version})
			continue
		}
		forked, err := p.deps.Record.Forked(ctx, said.Handoff)
		if err != nil {
			return nil, err
		}
		chain, err := p.deps.Record.Chain(ctx, said.Handoff, said.Version)
		if err != nil {
			return nil, err
		}
		if !forked && hex.EncodeToString(chain[:]) != said.Chain {
			lacks = append(lacks, lack{said.Handoff, said.Version - 1})
		}
	}
	return lacks, nil
}

package relay

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"baton/federation"
)

// When two homes compare what they have. A connection that comes and goes costs no
// comparison each time.
const (
	compareEvery = 24 * time.Hour
	compareAgain = time.Hour           // at the earliest, with a new connection
	compareBack  = 30 * 24 * time.Hour // handoffs that opened before are let be: the other home may have pruned them
)

// digest says how far the handoffs of a home go, of which the other one has taken steps.
type digest struct {
	heading

	Handoffs []reach `json:"handoffs"`
}

// reach is how far the log of one handoff goes.
type reach struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"`
	Chain   string               `json:"chain"` // hexadecimal; see [federation.Link]
}

// comparison is the answer to a digest: the handoffs of it that the answerer has less of,
// or other steps.
type comparison struct {
	foot

	Lacks []lack `json:"lacks"`
}

// lack is one handoff of which steps are missing.
type lack struct {
	Handoff federation.HandoffID `json:"handoff"`
	Have    federation.Version   `json:"have"` // send what follows
}

// parseDigest reads a digest that is for a home.
func parseDigest(text []byte, to federation.HomeID) (digest, error) {
	var d digest
	if err := parse(text, &d); err != nil {
		return d, err
	}
	if len(d.Handoffs) > maxItems {
		return d, fmt.Errorf("more than %d handoffs", maxItems)
	}
	return d, d.check(typeDigest, to)
}

// agree compares what the other home has with what it was told, now and every day, until
// ctx ends, and sends what it lacks. What fails is tried the next time.
func (p *Peer) agree(ctx context.Context) error {
	for {
		now := p.deps.Now()
		if last := time.Unix(0, p.compared.Load()); now.Sub(last) >= compareAgain {
			sent, err := p.Compare(ctx)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				p.log.LogAttrs(ctx, slog.LevelInfo, "not compared with another home", slog.Any("err", err))
			default:
				p.compared.Store(now.UnixNano())
			}
			if sent > 0 {
				p.log.LogAttrs(ctx, slog.LevelWarn, "another home had lost steps, which were sent again", slog.Int("handoffs", sent))
			}
		}
		timer := time.NewTimer(compareEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Compare tells the other home how far the handoffs of this one go that it has taken
// steps of, and sends what it lacks. It returns of how many handoffs that was, and
// blocks while [Peer.Run] runs, until all are compared.
func (p *Peer) Compare(ctx context.Context) (sent int, err error) {
	if mode := p.Mode(); mode == Hold || mode == Block {
		return 0, nil
	}
	after, err := federation.NewEventID(p.deps.Now().Add(-compareBack), bytes.NewReader(make([]byte, 10)))
	if err != nil {
		return 0, err
	}
	for {
		page, err := p.deps.Record.Shared(ctx, p.cfg.Home, after, maxItems)
		if err != nil || len(page) == 0 {
			return sent, err
		}
		after = page[len(page)-1]
		d, err := p.deps.digest(ctx, p.cfg.Home, page)
		if err != nil {
			return sent, err
		}
		lacks, err := p.compare(ctx, d)
		if err != nil {
			return sent, err
		}
		for _, l := range lacks {
			if err := p.heal(ctx, d, l); err != nil {
				return sent, err
			}
			sent++
		}
	}
}

// digest returns how far handoffs go. One that was pruned in between is left out.
func (d Deps) digest(ctx context.Context, to federation.HomeID, ids []federation.HandoffID) (digest, error) {
	said := digest{heading: d.ask(typeDigest, to), Handoffs: []reach{}}
	for _, id := range ids {
		view, err := d.Record.View(ctx, id)
		if err != nil {
			return said, fmt.Errorf("read handoff %s: %w", id, err)
		}
		if !view.Exists() || view.Home != d.Home {
			continue
		}
		chain, err := d.Record.Chain(ctx, id, view.Version)
		if err != nil {
			return said, err
		}
		said.Handoffs = append(said.Handoffs, reach{id, view.Version, hex.EncodeToString(chain[:])})
	}
	return said, nil
}

// compare sends a digest and returns what the other home signed that it lacks.
func (p *Peer) compare(ctx context.Context, d digest) ([]lack, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write digest for %s: %w", p.cfg.Home, err)
	}
	text, err := p.say(ctx, []federation.HomeID{p.deps.Home}, body)
	if err != nil {
		return nil, err
	}
	var c comparison
	if err := parse(text, &c); err != nil {
		return nil, p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	if c.foot != d.answers(typeComparison, body) || len(c.Lacks) > len(d.Handoffs) {
		return nil, p.unavailable(errOtherAnswer)
	}
	return c.Lacks, nil
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

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"baton/federation"
)

// Deliver sends a filed step with the ruling of the home of its handoff, after the steps that the
// other home lacks. It blocks until the other home answers. Nil means that the other home signed
// that the step is on its disk. A [*federation.RefusalError] is final, and so is the
// [*federation.GivenUpError] for a home that an operator blocked.
func (p *Peer) Deliver(ctx context.Context, d federation.Delivery) error {
	path := p.deps.hops(d.View.Home, d.Entry.Event)
	switch isText := d.Entry.Event.IsMessage(); {
	case d.Entry.Version == 0 && !isText:
		return nil // a receipt: homes get the ruling instead
	case p.Mode() == Block:
		return &federation.GivenUpError{Reason: federation.DeadBlocked, Why: "home " + p.Name() + " is blocked"}
	case isText:
		return p.deliverText(ctx, d.Entry.Event)
	case slices.Contains(path, p.cfg.Home):
		return nil // the step came through that home
	}
	it, err := p.deps.filed(ctx, d.View.Home, d.Entry)
	if err != nil {
		return err
	}
	r, err := p.ask(ctx, path, it)
	if err == nil && r.Outcome == outcomeGap {
		r, err = p.refill(ctx, d.View.Home, d.Entry, r.Have)
	}
	if err != nil {
		return err
	}
	p.learn(ctx, r.Moved)
	return p.deliveryError(d.Entry.Event, r)
}

// refill sends the steps of a handoff that the other home lacks, up to a step, and returns the
// result of that step.
func (p *Peer) refill(ctx context.Context, of federation.HomeID, upTo federation.Entry, have federation.Version) (result, error) {
	var last result
	for entry, err := range p.deps.Record.Log(ctx, upTo.Event.Handoff, have) {
		if err != nil {
			return last, fmt.Errorf("read log of %s: %w", upTo.Event.Handoff, err)
		}
		if entry.Event.Erased != nil {
			return result{Outcome: outcomeRefused, Code: string(federation.TerminalHandoff), Detail: erasedDetail}, nil
		}
		it, err := p.deps.filed(ctx, of, entry)
		if err != nil {
			return last, err
		}
		if last, err = p.ask(ctx, p.deps.hops(of, entry.Event), it); err != nil {
			return last, err
		}
		if entry.Version == upTo.Version || last.Outcome != outcomeStored && last.Outcome != outcomeDuplicate {
			break
		}
	}
	return last, nil
}

// deliveryError returns nil for a delivered step, a refusal, or why the delivery is retried.
func (p *Peer) deliveryError(ev federation.Event, r result) error {
	switch r.Outcome {
	case outcomeStored, outcomeDuplicate:
		return nil
	case outcomeRefused, outcomeConflict:
		return federation.Refuse(ev, federation.RefusalCode(r.Code), r.Detail)
	case outcomeGap, outcomeLater:
	}
	return p.unavailable(fmt.Errorf("it answers %q", r.Outcome))
}

// filed returns a step with the ruling of the home of its handoff: a new one for a handoff of this
// home, else the ruling by which the step was filed here.
func (d Deps) filed(ctx context.Context, of federation.HomeID, entry federation.Entry) (item, error) {
	it, err := d.carry(ctx, entry.Event)
	if err != nil {
		return it, err
	}
	if of != d.Home {
		it.Ruling = &signed{}
		it.Ruling.Document, it.Ruling.Signature, err = d.Record.RulingOn(ctx, entry.Event.Handoff, entry.Version)
		return it, err
	}
	chain, err := d.Record.Chain(ctx, entry.Event.Handoff, entry.Version)
	if err != nil {
		return item{}, err
	}
	document, err := writeRuling(d.Home, entry, chain)
	if err != nil {
		return item{}, fmt.Errorf("write ruling on %s: %w", entry.Event.ID, err)
	}
	signature, err := d.Signer.Sign(ctx, document)
	if err != nil {
		return item{}, fmt.Errorf("sign ruling on %s: %w", entry.Event.ID, err)
	}
	it.Ruling = &signed{Document: string(document), Signature: signature}
	return it, nil
}

// carry returns a step with the evidence behind it.
func (d Deps) carry(ctx context.Context, ev federation.Event) (item, error) {
	var original []byte
	if ev.Evidence != nil {
		var err error
		if original, err = d.Record.Evidence(ctx, ev.Evidence.Digest); err != nil {
			return item{}, fmt.Errorf("read evidence of %s: %w", ev.ID, err)
		}
	}
	return item{Step: carry(ev, original)}, nil
}

// textVerb stands for the verb of a step in a [textDocument]. No verb has a space: a home of a
// version that knows no text refuses the document with [federation.UnknownVerb], and does not ask
// for it again.
const textVerb = "private text"

// textDocument is private text in the place of the document of a step. Its members have the names
// of a step's, so that every version of a home reads to the verb.
type textDocument struct {
	From    federation.DID       `json:"from"`
	Venue   string               `json:"target"`
	Handoff federation.HandoffID `json:"handoff-id"` // the conversation, whose text stays in order
	Verb    string               `json:"handoff"`
	Message string               `json:"message"` // as the home of its author signed it
}

// textItem returns private text in its wire form.
func textItem(ev federation.Event) (item, error) {
	document, err := json.Marshal(textDocument{From: ev.From, Venue: ev.Venue, Handoff: ev.Handoff, Verb: textVerb, Message: ev.Signature.Document})
	if err != nil {
		return item{}, fmt.Errorf("write text %s: %w", ev.ID, err)
	}
	ev.Evidence = nil // it stays at the home of the author
	step := carry(ev, nil)
	step.Document = string(document)
	return item{Step: step}, nil
}

// read returns the step, or the private text, of an item.
func (d Deps) read(c carried) (federation.Event, error) {
	var text textDocument
	if !strings.Contains(c.Document, textVerb) || parse([]byte(c.Document), &text) != nil || text.Verb != textVerb {
		return c.decode(d.Read)
	}
	ev, err := d.ReadText(text.Message, c.Signature)
	if err == nil && (ev.ID != c.ID || ev.From != text.From) {
		err = federation.Refuse(ev, federation.InvalidEventID, "it is signed under another one")
	}
	ev.Arrival.Name = c.Name
	return ev, err
}

// deliverText sends private text to the mailbox home of its recipient, as [Peer.Deliver] sends a
// step: nil means that the other home signed that the text is on its disk.
func (p *Peer) deliverText(ctx context.Context, ev federation.Event) error {
	it, err := textItem(ev)
	if err != nil {
		return err
	}
	r, err := p.ask(ctx, []federation.HomeID{p.deps.Home}, it)
	if err != nil {
		return err
	}
	if r.Outcome == outcomeRefused && federation.RefusalCode(r.Code) == federation.UnknownVerb {
		return federation.Refuse(ev, federation.UnknownVerb, "messages are not supported by home "+p.Name()+": it runs an earlier version")
	}
	return p.deliveryError(ev, r)
}

// judgeText files private text of a participant of the other home for one of this home.
func (p *Peer) judgeText(ctx context.Context, ev federation.Event, it item, r *result) {
	ev = p.arrive(ev, it)
	err := p.vouched(ctx, ev, p.cfg.Home)
	known := false
	if err == nil {
		known, err = p.deps.Gateway.Say(ctx, ev)
	}
	r.note(federation.Judgement{Duplicate: known}, err)
}

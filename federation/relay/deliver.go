package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/federation"
)

// Deliver sends a filed step with its ruling, after any steps missing at the other home. It blocks
// until the other home answers, and returns nil only for a signed receipt. A [*federation.RefusalError]
// is final, as is the [*federation.DeadLetterError] for a blocked home.
func (p *Peer) Deliver(ctx context.Context, d federation.Delivery) error {
	path := p.deps.hops(d.View.Home, d.Entry.Event)
	switch {
	case d.Entry.Version == 0:
		return nil // a receipt: homes get the ruling instead
	case p.Mode() == Block:
		return p.blocked()
	case slices.Contains(path, p.cfg.Home):
		return nil // arrived from that home
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
	return p.deliveryError(d.Entry.Event.ID, r)
}

func (p *Peer) blocked() error {
	return &federation.DeadLetterError{Reason: federation.DeadBlocked, Why: "home " + p.Name() + " is blocked"}
}

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

// deliveryError returns nil for a delivered step, a refusal, or the reason for a retry.
func (p *Peer) deliveryError(id federation.EventID, r result) error {
	switch r.Outcome {
	case outcomeStored, outcomeDuplicate:
		return nil
	case outcomeRefused, outcomeConflict:
		return &federation.RefusalError{Code: federation.RefusalCode(r.Code), Event: id, Detail: r.Detail}
	case outcomeGap, outcomeLater:
	}
	return p.unavailable(fmt.Errorf("it answers %q", r.Outcome))
}

// The ruling is new if this home owns the handoff, otherwise the stored one.
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

// The space makes it an unknown verb: a home without support for text refuses it with
// [federation.UnknownVerb].
const textVerb = "private text"

// The member names are the same as in a step, so that every version of a home can read the verb.
type textDocument struct {
	From    federation.DID       `json:"from"`
	Venue   string               `json:"target"`
	Handoff federation.HandoffID `json:"handoff-id"` // order key of the conversation
	Verb    string               `json:"handoff"`
	Message string               `json:"message"` // as signed by the author's home
}

// The evidence stays at the author's home.
func textItem(t federation.Text) (item, error) {
	document, err := json.Marshal(textDocument{From: t.From, Venue: t.Venue, Handoff: t.Order, Verb: textVerb, Message: t.Signature.Document})
	if err != nil {
		return item{}, fmt.Errorf("write text %s: %w", t.ID, err)
	}
	return item{Step: carried{
		Document: string(document), Signature: t.Signature.Text, ID: t.ID, Provenance: federation.Vouched,
		Name: t.Arrival.Name, MessageID: t.Arrival.MessageID, Received: t.Arrival.Received.UTC(),
	}}, nil
}

func (d Deps) readText(c carried) (t federation.Text, isText bool, err error) {
	var text textDocument
	isText = strings.Contains(c.Document, textVerb) && parse([]byte(c.Document), &text) == nil && text.Verb == textVerb
	if !isText {
		return t, false, nil
	}
	t, err = d.ReadText(text.Message, c.Signature)
	if err == nil && (t.ID != c.ID || t.From != text.From) {
		err = t.Refuse(federation.InvalidEventID, "it is signed under another one")
	}
	t.Arrival.Name = c.Name
	return t, true, err
}

// DeliverText sends private text to the recipient's mailbox home. It returns like [Peer.Deliver].
func (p *Peer) DeliverText(ctx context.Context, t federation.Text) error {
	if p.Mode() == Block {
		return p.blocked()
	}
	it, err := textItem(t)
	if err != nil {
		return err
	}
	r, err := p.ask(ctx, []federation.HomeID{p.deps.Home}, it)
	if err != nil {
		return err
	}
	if r.Outcome == outcomeRefused && federation.RefusalCode(r.Code) == federation.UnknownVerb {
		return t.Refuse(federation.UnknownVerb, "messages are not supported by home "+p.Name()+": it runs an earlier version")
	}
	return p.deliveryError(t.ID, r)
}

func (p *Peer) judgeText(ctx context.Context, t federation.Text, it item, r *result) {
	t.Arrival = p.arrive(t.Arrival, false, it)
	author, err := p.trustedParty(ctx, t.Author, p.cfg.Home)
	if author == "" && err == nil {
		err = p.foreignVoice(ctx, federation.TextVerb, t.ID, t.Author)
	}
	if err != nil {
		r.fail(err)
		return
	}
	known, err := p.deps.Gateway.Say(ctx, t)
	r.set(federation.Judgement{Duplicate: known}, err)
}

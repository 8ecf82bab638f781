package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"baton/federation"
)

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

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"baton/federation"
)

// voucher is what a home signs about a step of its own people's in a handoff of another
// home, where it is their step by its word alone.
type voucher struct {
	Type    string               `json:"type"`
	V       int                  `json:"v"`
	Home    federation.HomeID    `json:"home"`
	Handoff federation.HandoffID `json:"handoff"`
	Event   federation.EventID   `json:"event"`
	Step    string               `json:"step"`            // SHA-256 of its document, hexadecimal
	Party   federation.DID       `json:"party,omitempty"` // the DID that the home knows the signer by
	Sent    time.Time            `json:"sent"`
}

// ofParty returns the home that says that a step is of a party; "" where none does.
func (v voucher) ofParty(party federation.DID) federation.HomeID {
	if v.Party != party {
		return ""
	}
	return v.Home
}

// restsOnWord reports whether a step is of a party by the word of a home alone: a gateway signed
// it for the party, or the party signed it under another DID.
func restsOnWord(ev federation.Event, party federation.DID) bool {
	return ev.Provenance == federation.Vouched && ev.For != "" || party != ""
}

// vouch returns a step with the voucher of this home for its party. The home of its handoff
// passes the voucher on with the step.
func (d Deps) vouch(ctx context.Context, ev federation.Event) (federation.Event, error) {
	if !restsOnWord(ev, ev.Arrival.Party) {
		return ev, nil
	}
	document, err := json.Marshal(voucher{
		Type: typeVoucher, V: Version, Home: d.Home, Handoff: ev.Handoff, Event: ev.ID, Step: digestOf(ev.Signature.Document),
		Party: ev.Arrival.Party, Sent: d.Now().UTC(),
	})
	if err != nil {
		return ev, fmt.Errorf("write voucher for %s: %w", ev.ID, err)
	}
	signature, err := d.Signer.Sign(ctx, document)
	if err != nil {
		return ev, fmt.Errorf("sign voucher for %s: %w", ev.ID, err)
	}
	ev.Arrival.Voucher = &federation.Voucher{Document: string(document), Signature: signature}
	return ev, nil
}

// attested returns a step that the other home asks a ruling on, with the party that the other
// home names. The other home has to sign that in a voucher, which this home passes on.
func (p *Peer) attested(ctx context.Context, ev federation.Event, document string) (federation.Event, error) {
	ev.Arrival.Party = p.believed(ctx, ev.Arrival.Party, p.cfg.Home)
	if err := p.vouched(ctx, ev, p.cfg.Home); err != nil {
		return ev, err
	}
	if !restsOnWord(ev, ev.Arrival.Party) {
		ev.Arrival.Voucher = nil
		return ev, nil
	}
	said, err := p.deps.voucherOf(ctx, ev, document, p.cfg.Home)
	if err == nil && (said.Home == "" || ev.Arrival.Party != "" && said.Party != ev.Arrival.Party) {
		err = federation.Refuse(ev, federation.MissingRequirement, "a voucher: whose step it is, signed by the home that says so")
	}
	return ev, err
}

// attributed returns a step that a home ruled on, with the party that the ruling names: where
// the mailbox of the party is at that home, or the home that the step came through vouched for it.
func (p *Peer) attributed(ctx context.Context, ev federation.Event, document string, ruled federation.Ruling) (federation.Event, error) {
	var said voucher
	if ruled.Via != "" && restsOnWord(ev, ruled.Party) {
		var err error
		if said, err = p.deps.voucherOf(ctx, ev, document, ruled.Via); err != nil {
			return ev, err
		}
	}
	if said.Home == "" {
		ev.Arrival.Voucher = nil
	}
	ev.Arrival.Party = p.believed(ctx, ruled.Party, ruled.Home, said.ofParty(ruled.Party))
	return ev, p.vouched(ctx, ev, ruled.Home, said.Home)
}

// voucherOf returns what a home said about a step, of which the document is as it was sent:
// the zero value where it said nothing that holds. It was signed when it says so, or this
// moment where that is to come: the home may have another key by now. An error
// means that the key cannot be had now.
func (d Deps) voucherOf(ctx context.Context, ev federation.Event, document string, home federation.HomeID) (voucher, error) {
	var said voucher
	by := ev.Arrival.Voucher
	if by == nil {
		return voucher{}, nil
	}
	if err := parse([]byte(by.Document), &said); err != nil {
		return voucher{}, nil //nolint:nilerr // what cannot be read says nothing
	}
	if said.Type != typeVoucher || said.V != Version || said.Home != home ||
		said.Handoff != ev.Handoff || said.Event != ev.ID || said.Step != digestOf(document) {
		return voucher{}, nil
	}
	at := d.Now()
	if said.Sent.Before(at) {
		at = said.Sent
	}
	switch verdict, err := d.Signer.Verify(ctx, home, at, []byte(by.Document), by.Signature); verdict {
	case federation.Valid:
		return said, nil
	case federation.Unverifiable:
		return voucher{}, fmt.Errorf("voucher of %s for %s: %w", home, ev.ID, err)
	case federation.Invalid:
	}
	return voucher{}, nil
}

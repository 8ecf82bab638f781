package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// PathHeader names the homes that the steps passed through, the sender last. It is not signed.
const PathHeader = "Baton-Path"

// TraceHeader is the W3C Trace Context header.
const TraceHeader = "Traceparent"

// Envelope is a message between homes.
type Envelope struct {
	Body      []byte
	Signature string
	// Path lists the homes that the steps passed through, from the home of the handoff to the sender.
	// It is not signed, and is used only to stop loops early.
	Path []federation.HomeID
	// Trace is the span that sent the first step, or "". It is not signed.
	Trace string
}

// NewEnvelope returns the envelope of a body and its HTTP or NATS header.
func NewEnvelope(body []byte, header http.Header) Envelope {
	e := Envelope{Body: body, Signature: header.Get(federation.SignatureHeader), Trace: header.Get(TraceHeader)}
	if path := header.Get(PathHeader); path != "" {
		for name := range strings.SplitSeq(path, ",") {
			e.Path = append(e.Path, federation.HomeID(strings.TrimSpace(name)))
		}
	}
	return e
}

// Header returns the header with the signature and the path.
func (e Envelope) Header() http.Header {
	header := http.Header{federation.SignatureHeader: {e.Signature}}
	if len(e.Path) > 0 {
		names := make([]string, len(e.Path))
		for i, home := range e.Path {
			names[i] = string(home)
		}
		header.Set(PathHeader, strings.Join(names, ", "))
	}
	if e.Trace != "" {
		header.Set(TraceHeader, e.Trace)
	}
	return header
}

// Without a path, an envelope passed only through its sender.
func (e Envelope) through(from federation.HomeID) ([]federation.HomeID, error) {
	if len(e.Path) == 0 {
		return []federation.HomeID{from}, nil
	}
	if e.Path[len(e.Path)-1] != from {
		return nil, fmt.Errorf("its path does not end at %q", from)
	}
	return e.Path, nil
}

func (d Deps) hops(of federation.HomeID, ev federation.Event) []federation.HomeID {
	switch {
	case of == d.Home:
		return []federation.HomeID{d.Home}
	case len(ev.Arrival.Path) == 0: // entered here
		return []federation.HomeID{of, d.Home}
	}
	return append(slices.Clone(ev.Arrival.Path), d.Home)
}

// A step must not pass through this home twice, or through too many homes.
func (d Deps) checkPath(id federation.EventID, path []federation.HomeID) error {
	switch most := d.MaxHops(); {
	case slices.Contains(path, d.Home):
		return &federation.RefusalError{Code: federation.PolicyDenied, Event: id, Detail: "it loops: it has passed through this home before"}
	case most > 0 && len(path) > most:
		return &federation.RefusalError{Code: federation.PolicyDenied, Event: id, Detail: fmt.Sprintf("it passed through more than %d homes", most)}
	}
	return nil
}

// checkForwarded refuses a step forwarded with the ruling of a third home, unless an operator moved the
// mailbox of a party from there to here. Any mailbox moved from there suffices if the parties are
// unknown: for an open offer, or a later step of an unknown handoff. The latter returns a
// [*federation.GapError], because the offer must come first.
func (d Deps) checkForwarded(ctx context.Context, from federation.HomeID, ev federation.Event, ruled federation.Ruling) error {
	view, err := d.Record.View(ctx, ev.Handoff)
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	parties := append(view.Others(""), ev.Actor())
	if ev.To != "" {
		parties = append(parties, ev.To)
	}
	var moved bool
	for _, did := range parties {
		if moved, err = d.Mailboxes.MovedHere(ctx, did, from); moved || err != nil {
			break
		}
	}
	if !moved && err == nil && !view.Exists() && ev.To == "" {
		moved, err = d.Mailboxes.MovedFrom(ctx, from)
	}
	switch {
	case err != nil:
		return fmt.Errorf("look up mailboxes moved from %s: %w", from, err)
	case !moved:
		return federation.Refuse(ev, federation.WrongSender, "the ruling is not the sender's own, nor of a party that moved here from there")
	case !view.Exists() && ev.Verb != federation.Offer:
		return &federation.GapError{Want: ruled.Version}
	}
	return nil
}

// A voucher is sent if nothing else proves that a step is from the home's user.
type voucher struct {
	Type    string               `json:"type"`
	V       int                  `json:"v"`
	Home    federation.HomeID    `json:"home"`
	Handoff federation.HandoffID `json:"handoff"`
	Event   federation.EventID   `json:"event"`
	Step    string               `json:"step"`            // SHA-256 of the document, hexadecimal
	Party   federation.DID       `json:"party,omitempty"` // the home's DID for the signer
	Sent    time.Time            `json:"sent"`
}

func (v voucher) ofParty(party federation.DID) federation.HomeID {
	if v.Party != party {
		return ""
	}
	return v.Home
}

// A voucher is needed if a gateway signed the step for the party, or the party signed it as another
// DID.
func needsVoucher(ev federation.Event, party federation.DID) bool {
	return ev.Provenance == federation.Vouched && ev.For != "" || party != ""
}

func (d Deps) vouch(ctx context.Context, ev federation.Event) (federation.Event, error) {
	if !needsVoucher(ev, ev.Arrival.ActingFor) {
		return ev, nil
	}
	document, err := json.Marshal(voucher{
		Type: typeVoucher, V: Version, Home: d.Home, Handoff: ev.Handoff, Event: ev.ID, Step: digestOf(ev.Signature.Document),
		Party: ev.Arrival.ActingFor, Sent: d.Now().UTC(),
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

// attested adds the party from the other home's voucher, which is forwarded with the step.
func (p *Peer) attested(ctx context.Context, ev federation.Event, document string) (federation.Event, error) {
	var err error
	if ev.Arrival.ActingFor, err = p.trustedParty(ctx, ev.Arrival.ActingFor, p.cfg.Home); err != nil {
		return ev, err
	}
	if err := p.vouched(ctx, ev, p.cfg.Home); err != nil {
		return ev, err
	}
	if !needsVoucher(ev, ev.Arrival.ActingFor) {
		ev.Arrival.Voucher = nil
		return ev, nil
	}
	found, err := p.deps.voucherOf(ctx, ev, document, p.cfg.Home)
	if err == nil && (found.Home == "" || ev.Arrival.ActingFor != "" && found.Party != ev.Arrival.ActingFor) {
		err = federation.Refuse(ev, federation.MissingRequirement, "a voucher: whose step it is, signed by the home that says so")
	}
	return ev, err
}

// attributed adds the party from a ruling. The party's mailbox must be at the home that ruled, or that
// vouched for the step.
func (p *Peer) attributed(ctx context.Context, ev federation.Event, document string, ruled federation.Ruling) (federation.Event, error) {
	var found voucher
	var err error
	if ruled.Via != "" && needsVoucher(ev, ruled.Party) {
		if found, err = p.deps.voucherOf(ctx, ev, document, ruled.Via); err != nil {
			return ev, err
		}
	}
	if found.Home == "" {
		ev.Arrival.Voucher = nil
	}
	if ev.Arrival.ActingFor, err = p.trustedParty(ctx, ruled.Party, ruled.Home, found.ofParty(ruled.Party)); err != nil {
		return ev, err
	}
	return ev, p.vouched(ctx, ev, ruled.Home, found.Home)
}

// Without a valid voucher, the result is zero. The keys are the keys at the time when it was sent. An
// error means that a key cannot be fetched now.
func (d Deps) voucherOf(ctx context.Context, ev federation.Event, document string, home federation.HomeID) (voucher, error) {
	var found voucher
	by := ev.Arrival.Voucher
	if by == nil {
		return voucher{}, nil
	}
	if err := parse([]byte(by.Document), &found); err != nil {
		return voucher{}, nil //nolint:nilerr // an unreadable voucher counts as none
	}
	if found.Type != typeVoucher || found.V != Version || found.Home != home ||
		found.Handoff != ev.Handoff || found.Event != ev.ID || found.Step != digestOf(document) {
		return voucher{}, nil
	}
	at := d.Now()
	if found.Sent.Before(at) {
		at = found.Sent
	}
	switch verdict, err := d.Signer.Verify(ctx, home, at, []byte(by.Document), by.Signature); verdict {
	case federation.Valid:
		return found, nil
	case federation.Unverifiable:
		return voucher{}, fmt.Errorf("voucher of %s for %s: %w", home, ev.ID, err)
	case federation.Invalid:
	}
	return voucher{}, nil
}

package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Servers send each step twice at once, so the receipt of a newer step is not repeated.
const repeatAfter = 2 * time.Second

type outbound struct {
	did          federation.DID // empty for the gateway itself
	shown        federation.DID // empty for the gateway itself
	name         string
	venue        string
	wireMessages []wireMessage // without the sender's nick
	line         string
	described    *translate.Step // nil if no private line describes a step
	to           federation.DID
	text         *federation.Text // private text, or text in a channel; nil for a step
	guest        string
	notice       *irc.Reply // nil for text and steps
	about        string     // subject of a line superseded by later ones
	step         federation.EventID
	ref          federation.HandoffID
	done         chan error // capacity: one answer

	// Owned by the session.
	unproven int // messages not yet seen in the peer's log
	answered bool

	foreign bool
	waits   bool // until its reader is present
	// ends is the reason for a rejection by the server, or nil. It ends the delivery once the line
	// is written.
	ends error
}

// Deliver implements [bridge.Link]. It returns nil once the log of the peer has the step.
//
// In a handoff introduced by this gateway, a step from another network is a TAGMSG from the
// pseudo-client of its actor. A receipt follows each step that changed the state. In a handoff of
// the server, only steps without a state change are written, because the server has confirmed the
// others. A step that the server would ignore becomes one line and is then refused. A private step
// waits until its reader is present, because a server does not show it to users that join later. A
// step from another network has one best-effort readable line. Retries use the same message ID, so
// the server accepts the line once.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	has, err := l.has(ctx, s, d.Entry.Event)
	if err != nil {
		return err
	}
	r, err := l.row(ctx, d, has)
	if err != nil {
		return err
	}
	if len(r.wireMessages) == 0 && r.line == "" && r.described == nil {
		return r.ends
	}
	return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
}

// DeliverText implements [bridge.TextLink].
func (l *Link) DeliverText(ctx context.Context, t federation.Text) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	t, err := irc.Answering(ctx, l.deps.Ports, l.cfg.Name, t)
	if err != nil || !irc.Shows(t) {
		return err
	}
	row := l.textRow
	if t.InChannel() {
		row = l.chatRow
	}
	r, err := row(ctx, t)
	if err != nil {
		return err
	}
	return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
}

// row uses no state of the connection. The error is a refusal if the step can never be written
// here.
func (l *Link) row(ctx context.Context, d federation.Delivery, has bool) (*outbound, error) {
	ev := d.Entry.Event
	r := &outbound{step: ev.ID, ref: ev.Handoff, done: make(chan error, 1), foreign: l.endpoint(ev.Arrival.Home) != ""}
	if written, err := l.writes(ctx, d.View); err != nil || !written {
		return nil, irc.NoPlace(ev, l.cfg.Name, err)
	}
	if d.Entry.Version == 0 {
		return r, nil // the receipt is sent with its step
	}
	here := ev.Arrival.Link == l.cfg.Name
	has = has || here && !ev.Arrival.ViaCommand
	place, err := l.place(ctx, d.View)
	if err != nil {
		return nil, err
	}
	d.View.Dialect, d.View.Venue = federation.ActTags, place
	r.venue = d.View.Venue
	r.waits = d.View.Home != l.Home()
	moves, introduces := l.deps.Rulings.Moves(d.View, ev.Verb), l.introduces(d.View)
	step := irc.Named(ctx, l.deps.Gateway, d)
	if d.View.Home != l.Home() && slices.Contains(d.View.Partial, l.cfg.Name) {
		return r, l.addLine(ctx, r, d, step, here)
	}
	if !has {
		tags := d.View.Home != l.Home() || !moves
		if d.View.Home != l.Home() && !introduces && !l.peers.expects(l.endpoint(d.View.Home)) {
			r.ends, tags = federation.Refuse(ev, federation.IllegalStep, "the server accepts rulings on this handoff only from "+
				string(d.View.Home)+", which is not its peer now"), false
		}
		if err := l.write(ctx, r, d, step, tags); err != nil {
			return nil, err
		}
	}
	if moves && introduces && r.ends == nil {
		receipt, err := l.receipt(ctx, d)
		if err != nil {
			return nil, err
		}
		r.wireMessages = append(r.wireMessages, receipt)
	}
	return r, nil
}

// The signatures of a handoff cover its place. In a private step, a server requires the signer to
// be one of its pair. Steps in a different dialect are signed with the gateway's keys, so the pair
// consists of these keys.
func (l *Link) place(ctx context.Context, v federation.View) (string, error) {
	if v.Home == l.Home() && v.Signed != "" {
		return v.Signed, nil
	}
	a, b, private := federation.Parties(v.Venue)
	if !private || v.Home == l.Home() || v.Dialect == federation.ActTags {
		return l.channels.Out(v.Venue), nil
	}
	a, err := l.signer(ctx, a)
	if err != nil {
		return "", err
	}
	if b, err = l.signer(ctx, b); err != nil {
		return "", err
	}
	return federation.PrivateVenue(a, b), nil
}

func (l *Link) signer(ctx context.Context, did federation.DID) (federation.DID, error) {
	if did == l.deps.Home.DID() {
		return did, nil
	}
	ours, err := l.deps.Rulings.Ours(ctx, did, l.cfg.Name)
	if err != nil || !ours {
		return did, err
	}
	owner, err := l.deps.Gateway.Owner(ctx, did)
	if err != nil {
		return did, err
	}
	return l.deps.Signer.Kept("person:" + string(owner)).DID, nil
}

// A DID of the handoff may be that of a kept key.
func (l *Link) ours(ctx context.Context, v federation.View, did federation.DID) (bool, error) {
	ours, err := l.deps.Rulings.Ours(ctx, did, l.cfg.Name)
	if err != nil || ours {
		return ours, err
	}
	for _, party := range v.Others("") {
		if party == did {
			continue
		}
		if kept, err := l.signer(ctx, party); err != nil || kept == did {
			return err == nil, err
		}
	}
	return false, nil
}

// write omits the tags if the server already has the step or would ignore it.
func (l *Link) write(ctx context.Context, r *outbound, d federation.Delivery, step translate.Step, tags bool) error {
	render := l.render
	if tags {
		render = l.legal
	}
	rendered, losses, err := render(ctx, d)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok && tags && !rendered.ID.IsZero() {
		r.ends, tags, err = refused, false, nil
	}
	if err != nil {
		return fmt.Errorf("render %s: %w", d.Entry.Event.ID, err)
	}
	irc.LogLosses(ctx, l.log, rendered, losses)
	r.did, r.shown = l.shown(rendered)
	r.name = step.Name(d.Entry.Event.Actor())
	if tags {
		m, err := l.message(ctx, rendered, d.View)
		if err != nil {
			return err
		}
		if r.shown != "" {
			m.Account = string(r.shown)
		}
		r.wireMessages = append(r.wireMessages, m)
	}
	return l.describe(ctx, r, step, rendered, d.View)
}

// The server cannot file the step, because an earlier step of the handoff is missing there. That
// step was a user's command, and a server does not accept it from another signer.
func (l *Link) addLine(ctx context.Context, r *outbound, d federation.Delivery, step translate.Step, here bool) error {
	if !here {
		return l.write(ctx, r, d, step, false)
	}
	if !federation.Private(r.venue) {
		if l.cfg.Summaries {
			r.line = irc.Summary(step)
		}
		return nil
	}
	for _, did := range d.View.Others(d.Entry.Event.Actor()) {
		ours, err := l.deps.Rulings.Ours(ctx, did, l.cfg.Name)
		if err != nil {
			return err
		}
		if !ours {
			r.described, r.to = &step, did
		}
	}
	return nil
}

func (l *Link) describe(ctx context.Context, r *outbound, step translate.Step, rendered federation.Event, v federation.View) error {
	switch {
	case federation.Private(r.venue):
		to, err := l.target(ctx, rendered, v)
		if err != nil {
			return err
		}
		r.described, r.to = &step, federation.DID(to)
	case l.cfg.Summaries:
		r.line = irc.Summary(step)
		if r.shown != "" {
			r.line = withDID(r.line, r.shown)
		}
		if rendered.Verb == federation.Progress {
			r.about = rendered.Handoff.String()
		}
	}
	return nil
}

// A server accepts answers only from the DID of the key that signs the actor's steps. Both results
// are "" for the gateway itself.
func (l *Link) shown(written federation.Event) (actor, shown federation.DID) {
	if written.From == l.deps.Home.DID() {
		return "", ""
	}
	return written.Actor(), written.From
}

// Users need the DID to address the speaker, and freeq clients do not show it.
func withDID(line string, did federation.DID) string {
	tail := " <" + string(did) + ">"
	return irc.Cut(line, max(3, irc.MaxTextBytes-len(tail))) + tail
}

// A server has one DID per user. A step by a second signer of a party is therefore written in that
// party's name.
func (l *Link) render(ctx context.Context, d federation.Delivery) (federation.Event, []federation.Loss, error) {
	another := d.View.Home != l.deps.Home && l.introduces(d.View)
	if ev := d.Entry.Event; another && ev.From == d.View.Home.DID() && serverVerb(ev.Verb) {
		d.Entry.Event.From = l.deps.Home.DID()
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	if ev := d.Entry.Event; ev.Arrival.ActingFor != "" && ev.Arrival.ActingFor != ev.From && ev.Provenance == federation.Signed {
		d.Entry.Event.Arrival.ActingFor = ""
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	if ev := d.Entry.Event; ev.Verb == federation.Offer && ev.To != "" && d.View.Home != l.Home() {
		to, err := l.answersAs(ctx, ev, d.View)
		if err != nil {
			return ev, nil, err
		}
		asSigned := ev.Provenance == federation.Signed && ev.Dialect == d.View.Dialect && ev.Venue == d.View.Venue
		if to != ev.To && !asSigned {
			d.Entry.Event.To = to
			return irc.Vouch(ctx, l.deps.Ports, d)
		}
	}
	return irc.Render(ctx, l.deps.Ports, d)
}

func (l *Link) message(ctx context.Context, ev federation.Event, v federation.View) (wireMessage, error) {
	ours, msgid := ev.From == l.deps.Home.DID(), ""
	if ours {
		msgid = ev.ID.String()
	}
	target, err := l.target(ctx, ev, v)
	if err != nil {
		return wireMessage{}, err
	}
	tags, err := irc.Tags(ev, v, msgid)
	message := wireMessage{Type: typeTagmsg, Target: target, Tags: tags, Account: string(ev.From)}
	if ours {
		message.From = string(l.deps.Home)
	}
	return message, err
}

func (l *Link) receipt(ctx context.Context, d federation.Delivery) (wireMessage, error) {
	receipt, err := l.deps.Rulings.Receipt(ctx, d.Entry, d.View)
	if err != nil {
		return wireMessage{}, fmt.Errorf("confirm %s: %w", d.Entry.Event.ID, err)
	}
	return l.message(ctx, receipt, d.View)
}

// A private step goes to the DID of the other party, because a server finds users only by their DIDs.
func (l *Link) target(ctx context.Context, ev federation.Event, v federation.View) (string, error) {
	a, b, private := federation.Parties(v.Venue)
	if !private {
		return v.Venue, nil
	}
	if a == ev.From {
		return string(b), nil
	}
	if b == ev.From {
		return string(a), nil
	}
	ours, err := l.ours(ctx, v, a)
	if ours {
		a = b
	}
	return string(a), err
}

// The row is answered once the peer's log shows its steps or, without steps, its line.
func (s *session) deliver(r *outbound) {
	switch {
	case r.notice != nil:
		s.deliverNotice(r)
		return
	case r.text != nil && r.text.InChannel():
		s.deliverChat(r)
		return
	case r.text != nil:
		s.deliverText(r)
		return
	case r.waits && r.described != nil && s.misses(r):
		return
	}
	from := s.speaker(r.did, r.shown, r.name, r.venue)
	for _, m := range r.wireMessages {
		if m.From == "" {
			m.From = from.Nick
		}
		tags := m.Tags
		s.queueProved(steps, &proof{id: tags[vendorPrefix+"eventid"], signature: tags[vendorPrefix+"sig"], message: &m, row: r}, "")
	}
	s.queueLine(r, from.Nick)
	if r.unproven == 0 {
		r.answer(r.ends) // all parts are on file
	}
}

// The reader may connect or disconnect while the line is queued.
func (s *session) aim(message any) {
	line, ok := message.(*wireMessage)
	if !ok || line.Reader == "" {
		return
	}
	line.Target = line.Reader
	if reader := s.theirs.dids[federation.DID(line.Reader)]; reader != nil {
		line.Target = reader.nick
	}
}

// A server files no private line of the gateway itself, which has no DID there.
func (s *session) queueLine(r *outbound, from string) {
	id, private := lineID(r.step), r.described != nil
	message := &wireMessage{
		Type: typePrivmsg, From: from, Target: r.venue, Text: r.line, Account: string(r.shown), MsgID: id,
		Tags: map[string]string{irc.RefTag: r.ref.String()},
	}
	if private {
		message.Text, message.Reader = irc.PrivateSummary(*r.described, s.self().Nick), string(r.to)
	}
	line := &proof{id: id, message: message, beside: true}
	switch {
	case message.Text == "":
		return
	case r.did == "" && len(r.wireMessages) == 0, private && r.did == "":
		s.put(lines, message)
		return
	case len(r.wireMessages) == 0:
		line.row = r
	}
	s.queueProved(lines, line, r.about)
}

// lineID is deterministic, because a server drops a line with a known ID. Applying it twice returns
// the ID of the step.
func lineID(step federation.EventID) string {
	for i := clockBytes; i < len(step); i++ {
		step[i] = ^step[i]
	}
	return step.String()
}

const clockBytes = 6

func refsIn(tags map[string]string) irc.Refs {
	refs := irc.RefsIn(tags)
	if id, err := federation.ParseEventID(refs.Reply); err == nil {
		refs.Step = lineID(id)
	}
	return refs
}

func (s *session) repeat(ctx context.Context, in *inbound, answer federation.Judgement) {
	entry, v := answer.Entry, answer.View
	if !in.routed || answer.Awaits || !s.link.introduces(v) || entry.Event.ID != in.ev.ID || !s.link.deps.Rulings.Moves(v, entry.Event.Verb) {
		return
	}
	if in.ev.Arrival.Received.Sub(entry.Filed) < repeatAfter {
		return // still in transit
	}
	place, err := s.link.place(ctx, v)
	var receipt wireMessage
	if err == nil {
		v.Dialect, v.Venue = federation.ActTags, place
		receipt, err = s.link.receipt(ctx, federation.Delivery{Entry: entry, View: v})
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "receipt not repeated", slog.Any("err", err))
		return
	}
	if s.queue.size() <= maxWaiting {
		s.put(steps, &receipt)
	}
}

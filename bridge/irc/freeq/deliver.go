package freeq

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

// repeatAfter is how old a step must be for its receipt to be sent again: servers say
// each step twice at once.
const repeatAfter = 2 * time.Second

// row is one delivery on its way through the session.
type row struct {
	did   federation.DID // as which the step is signed there; empty of the gateway itself
	name  string         // what its user is called when it is new
	venue string
	said  []said            // steps, in order, without the nick that says them
	line  string            // for people in a channel; "" for none
	told  *translate.Step   // of which a private line tells; nil for none
	to    federation.DID    // the recipient of that line
	text  *federation.Event // private text, or text in a channel; nil for a step
	guest string            // the nick of its recipient, where that has no DID
	about string            // of a line that a later one makes needless
	step  federation.EventID
	ref   federation.HandoffID
	done  chan error // has room for the one answer

	// Owned by the session.
	unproven int // messages that the peer's log has to show
	answered bool

	foreign bool // the step came from another freeq server
}

// Deliver implements [bridge.Link]. Nil means that the log of the peer shows the step.
//
// Of a handoff that this gateway introduces, a step from elsewhere is a TAGMSG from the
// pseudo-client of its actor, and the receipt follows each step that moved the handoff.
// Of a handoff of the server, only steps that move nothing are written: the server has
// confirmed the others. A step from elsewhere has one line for people: each attempt writes
// it under the same message ID, under which a server takes it once. A private step is not
// delivered without its line: clients without act tags are shown nothing else.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	if ev := d.Entry.Event; ev.IsChat() {
		r := l.chatRow(ev)
		return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
	}
	if d.Entry.Event.IsMessage() {
		r := l.textRow(ctx, d.Entry.Event)
		return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
	}
	has, err := l.has(ctx, s, d.Entry.Event)
	if err != nil {
		return err
	}
	r, err := l.row(ctx, d, has)
	if err != nil || len(r.said) == 0 && r.line == "" && r.told == nil {
		return err
	}
	return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
}

// row makes all of a delivery that needs no state of the connection. The server may have the
// step from another freeq server. Its error is a refusal where the step can never be written
// here.
func (l *Link) row(ctx context.Context, d federation.Delivery, has bool) (*row, error) {
	ev := d.Entry.Event
	r := &row{step: ev.ID, ref: ev.Handoff, done: make(chan error, 1), foreign: l.endpoint(ev.Arrival.Home) != ""}
	if written, err := l.writes(ctx, d.View); err != nil || !written {
		return nil, irc.NoPlace(ev, l.cfg.Name, err)
	}
	if d.Entry.Version == 0 {
		return r, nil // the receipt goes with its step
	}
	here := ev.Arrival.Link == l.cfg.Name
	has = has || here && !ev.Arrival.Command
	d.View.Dialect, d.View.Venue = federation.ActTags, l.place(ctx, d.View)
	r.venue = d.View.Venue
	moves := l.deps.Rulings.Moves(d.View, ev.Verb)
	step := irc.Named(ctx, l.deps.Gateway, d)
	if d.View.Home != l.Home() && slices.Contains(d.View.Partial, l.cfg.Name) {
		return r, l.tell(ctx, r, d, step, here)
	}
	if !has {
		if err := l.write(ctx, r, d, step, d.View.Home != l.Home() || !moves); err != nil {
			return nil, err
		}
	}
	if moves && l.introduces(d.View) {
		receipt, err := l.receipt(ctx, d)
		if err != nil {
			return nil, err
		}
		r.said = append(r.said, receipt)
	}
	return r, nil
}

// place returns the venue where the steps of a handoff are written here, and which they
// are signed for.
//
// A server takes the signer of a private step for one of its pair. Steps in other tags
// than its own are rendered with the keys that the gateway keeps for their actors, so the
// pair is that of these keys.
func (l *Link) place(ctx context.Context, v federation.View) string {
	if v.Home == l.Home() && v.Signed != "" {
		return v.Signed
	}
	a, b, private := federation.Parties(v.Venue)
	if !private || v.Home == l.Home() || v.Dialect == federation.ActTags {
		return l.channels.Out(v.Venue)
	}
	return federation.PrivateVenue(l.signer(ctx, a), l.signer(ctx, b))
}

// signer returns the DID that signs the steps of a DID here: that of its kept key where
// the DID is of this gateway, or that of such a key, else the DID itself.
func (l *Link) signer(ctx context.Context, did federation.DID) federation.DID {
	if did == l.deps.Home.DID() || !l.deps.Rulings.Ours(ctx, did, l.cfg.Name) {
		return did
	}
	owner, err := l.deps.Gateway.Owner(ctx, did)
	if err != nil {
		return did
	}
	return l.deps.Signer.Kept("person:" + string(owner)).DID
}

// ours reports whether one of the pair of a private handoff is of this gateway, or is the
// kept key of a DID that is.
func (l *Link) ours(ctx context.Context, v federation.View, did federation.DID) bool {
	return l.deps.Rulings.Ours(ctx, did, l.cfg.Name) || slices.ContainsFunc(v.Others(""), func(party federation.DID) bool {
		return party != did && l.signer(ctx, party) == did
	})
}

// write adds a step from elsewhere to a row, with the line beside it. The tags are
// left out where the server has the step already.
func (l *Link) write(ctx context.Context, r *row, d federation.Delivery, step translate.Step, tags bool) error {
	rendered, losses, err := l.render(ctx, d)
	if err != nil {
		return fmt.Errorf("render %s: %w", d.Entry.Event.ID, err)
	}
	irc.LogLosses(ctx, l.log, rendered, losses)
	r.did, r.name = l.shown(rendered), step.Name(d.Entry.Event.Actor())
	if tags {
		m, err := l.say(ctx, rendered, d.View)
		if err != nil {
			return err
		}
		if r.did != "" {
			m.Account = string(r.did)
		}
		r.said = append(r.said, m)
	}
	l.describe(ctx, r, step, rendered, d.View)
	return nil
}

// tell adds the line about a step that the server cannot file, because it lacks an earlier step of
// the handoff: a user took that by a command, and a server takes it from no other signer. Of a
// command on this link the gateway's own user tells the others, its author has an answer.
func (l *Link) tell(ctx context.Context, r *row, d federation.Delivery, step translate.Step, here bool) error {
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
		if !l.deps.Rulings.Ours(ctx, did, l.cfg.Name) {
			r.told, r.to = &step, did
		}
	}
	return nil
}

// describe adds the line for people to a row.
func (l *Link) describe(ctx context.Context, r *row, step translate.Step, rendered federation.Event, v federation.View) {
	switch {
	case federation.Private(r.venue):
		r.told, r.to = &step, federation.DID(l.target(ctx, rendered, v))
	case l.cfg.Summaries:
		r.line = irc.Summary(step)
		if r.did != "" {
			r.line = withDID(r.line, r.did)
		}
		if rendered.Verb == federation.Progress {
			r.about = rendered.Handoff.String()
		}
	}
}

// shown returns the one DID under which users there see the actor of a step, and to which they
// offer: its own, whichever key signed the step there; "" for the gateway itself. A did:web is
// a server's on this network, so that its signing DID stands for it.
func (l *Link) shown(written federation.Event) federation.DID {
	switch {
	case written.From == l.deps.Home.DID():
		return ""
	case written.Actor().Method() == "web":
		return written.From
	}
	return written.Actor()
}

// withDID adds to a line the DID by which users there must address its speaker: no client of
// a freeq server shows it.
func withDID(line string, did federation.DID) string {
	tail := " <" + string(did) + ">"
	return irc.Cut(line, max(3, irc.MaxTextBytes-len(tail))) + tail
}

// render returns a step as it is written here, in the act dialect and for the place
// where the handoff is. A signer that the home took for a party with another DID is written
// as that party: a server knows one DID of each user. A step of another home itself is
// written as a step of this gateway.
func (l *Link) render(ctx context.Context, d federation.Delivery) (federation.Event, []translate.Loss, error) {
	another := d.View.Home != l.deps.Home && l.introduces(d.View)
	if ev := d.Entry.Event; another && ev.From == d.View.Home.DID() && serverVerb(ev.Verb) {
		d.Entry.Event.From = l.deps.Home.DID()
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	if ev := d.Entry.Event; ev.Arrival.Party != "" && ev.Arrival.Party != ev.From && ev.Provenance == federation.Signed {
		d.Entry.Event.Arrival.Party = ""
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	return irc.Render(ctx, l.deps.Ports, d)
}

// say returns a step as a message, without the nick that says it unless that is the
// gateway as a server.
func (l *Link) say(ctx context.Context, ev federation.Event, v federation.View) (said, error) {
	ours, msgid := ev.From == l.deps.Home.DID(), ""
	if ours {
		msgid = ev.ID.String()
	}
	tags, err := irc.Tags(ev, v, msgid)
	message := said{Type: typeTagmsg, Target: l.target(ctx, ev, v), Tags: tags, Account: string(ev.From)}
	if ours {
		message.From = string(l.deps.Home)
	}
	return message, err
}

// receipt returns the receipt of a step as a message from the gateway's server.
func (l *Link) receipt(ctx context.Context, d federation.Delivery) (said, error) {
	receipt, err := l.deps.Rulings.Receipt(ctx, d.Entry, d.View)
	if err != nil {
		return said{}, fmt.Errorf("confirm %s: %w", d.Entry.Event.ID, err)
	}
	return l.say(ctx, receipt, d.View)
}

// target returns the target of a step: its channel, or the DID of the party that is
// theirs, by which alone a server finds a user.
func (l *Link) target(ctx context.Context, ev federation.Event, v federation.View) string {
	a, b, private := federation.Parties(v.Venue)
	switch {
	case !private:
		return v.Venue
	case a == ev.From, b != ev.From && l.ours(ctx, v, a):
		return string(b)
	}
	return string(a)
}

// deliver queues a row. It is answered once the log of the peer shows its steps or, where it
// has none, its line.
func (s *session) deliver(r *row) {
	switch {
	case r.text != nil && r.text.IsChat():
		s.deliverChat(r)
		return
	case r.text != nil:
		s.deliverText(r)
		return
	}
	from := s.speaker(r.did, r.name, r.venue)
	for _, m := range r.said {
		if m.From == "" {
			m.From = from.Nick
		}
		tags := m.Tags
		s.queueProved(steps, &proof{id: tags[vendorPrefix+"eventid"], signature: tags[vendorPrefix+"sig"], message: &m, row: r}, "")
	}
	s.queueLine(r, from.Nick)
	if r.unproven == 0 {
		r.answer(nil) // all of it is there
	}
}

// aim sets where a private line goes as it is written, for a reader that comes and goes while the
// line waits: to a nick, by which the client of its reader knows it, or to the DID of an absent
// reader.
func (s *session) aim(message any) {
	line, ok := message.(*said)
	if !ok || line.Reader == "" {
		return
	}
	line.Target = line.Reader
	if reader := s.theirs.dids[federation.DID(line.Reader)]; reader != nil {
		line.Target = reader.nick
	}
}

// queueLine queues the line of a row, if it has one, from a user. A server files no private line
// of the gateway itself, which has no DID there.
func (s *session) queueLine(r *row, from string) {
	id, private := lineID(r.step), r.told != nil
	message := &said{
		Type: typePrivmsg, From: from, Target: r.venue, Text: r.line, Account: string(r.did), MsgID: id,
		Tags: map[string]string{irc.RefTag: r.ref.String()},
	}
	if private {
		message.Text, message.Reader = irc.PrivateSummary(*r.told, s.speaker("", "", "").Nick), string(r.to)
	}
	line := &proof{id: id, message: message}
	switch {
	case message.Text == "":
		return
	case r.did == "" && len(r.said) == 0, private && r.did == "":
		s.put(lines, message)
		return
	case private || len(r.said) == 0:
		line.row = r
	}
	s.queueProved(lines, line, r.about)
}

// lineID returns the message ID of the line beside a step, the same one each time: a server
// drops a line whose ID it has. It has the clock of the step, and the inverse of the rest, so
// that lineID of that ID is the ID of the step.
func lineID(step federation.EventID) string {
	for i := clockBytes; i < len(step); i++ {
		step[i] = ^step[i]
	}
	return step.String()
}

// clockBytes is how much of an ID is a clock.
const clockBytes = 6

// refsIn reads the tags of a message, which may answer the line beside a step.
func refsIn(tags map[string]string) irc.Refs {
	refs := irc.RefsIn(tags)
	if id, err := federation.ParseEventID(refs.Reply); err == nil {
		refs.Step = lineID(id)
	}
	return refs
}

// repeat answers a step that its sender routed again: it has not had the receipt.
func (s *session) repeat(ctx context.Context, in *inbound, answer federation.Judgement) {
	entry, v := answer.Entry, answer.View
	if !in.routed || answer.Awaits || !s.link.introduces(v) || entry.Event.ID != in.ev.ID || !s.link.deps.Rulings.Moves(v, entry.Event.Verb) {
		return
	}
	if in.ev.Arrival.Received.Sub(entry.Filed) < repeatAfter {
		return // it is on its way
	}
	v.Dialect, v.Venue = federation.ActTags, s.link.place(ctx, v)
	receipt, err := s.link.receipt(ctx, federation.Delivery{Entry: entry, View: v})
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "receipt not repeated", slog.Any("err", err))
		return
	}
	if s.queue.size() <= maxWaiting {
		s.put(steps, &receipt)
	}
}

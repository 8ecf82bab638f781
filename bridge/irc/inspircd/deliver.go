package inspircd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/translate"
)

var (
	errKilled = errors.New("the step's user was killed, maybe before the step was read")
	errAbsent = errors.New("no recipient is there")
	errNoTags = errors.New("the other server has no message tags, so that steps are readable lines alone: load its ircv3_ctctags module")
)

type outbound struct {
	from           federation.DID
	name           string
	venue          string
	to             []party           // of a private step; nil in a channel
	originatedHere bool              // all recipients of a private step may have it already
	tags           map[string]string // nil if the network has the step
	msgid          string
	line           string
	plain          string // replaces the tags on a server without them, or ""
	event          federation.EventID
	described      *translate.Step // nil if no private line describes a step
	ref            federation.HandoffID
	chat           *federation.Text
	lines          []ircmsg.Message // of text; source and target are set later
	named          []ircmsg.Message // the same lines, from the gateway's own user in a channel
	done           chan error       // capacity: one answer

	required []party                              // parties on this network that must receive the step; nil for text
	copies   map[federation.DID]map[string]string // tags of the private copies, for parties outside the channel
	copied   *translate.Step
	open     bool // the channel needs a member
	personal bool // already in the channel: only the copies are written

	// Set at the time of the write.
	uuid       string
	recipients []string                  // UUIDs, for a private row
	reached    map[federation.DID]string // UUIDs of the parties that received it, in the channel or in private
	shown      bool
}

type party struct {
	did      federation.DID
	accounts []string
	nick     string
	holder   string // holder of the nick when text was filed, or ""
	ours     bool   // last signed here, or bound only to an account of this network
}

// Deliver implements [bridge.Link]. It returns nil once the peer has read the step.
//
// A step from another network is a TAGMSG from the pseudo-client of its actor. A step from this
// network is not repeated in its channel, unless it was a command. The readable line is written
// only on the first attempt: a repeated TAGMSG has the same ID, but a repeated line would show
// twice.
//
// A party of this network outside the channel gets a private copy of the step. While the party is
// offline, the result is a [*delivery.AbsentError]. The same applies to an open offer in a channel
// without members.
//
// A private step is a TAGMSG to each other party present, plus a line that shows the command to
// type, because clients may not display a TAGMSG. Each attempt writes both. The step waits until a
// party is present. A private step from this network waits only for parties of this network.
//
// On a server without message tags, the line replaces the step. A step is refused if its user may
// not speak in the channel.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	r, err := l.row(ctx, d)
	if err != nil || r.tags == nil && r.line == "" && r.lines == nil && len(r.required) == 0 {
		return err
	}
	return l.pass(ctx, r)
}

// DeliverText implements [bridge.TextLink].
func (l *Link) DeliverText(ctx context.Context, t federation.Text) error {
	if t.InChannel() {
		t, err := irc.Answering(ctx, l.ports, l.cfg.Name, t)
		if err != nil || !irc.Shows(t) {
			return err
		}
		return l.pass(ctx, l.chatRow(t))
	}
	r, err := l.textRow(ctx, t)
	if err != nil {
		return err
	}
	return l.pass(ctx, r)
}

func (l *Link) pass(ctx context.Context, r *outbound) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
}

// ShowsOnce implements [bridge.OnceShower] for the readable line.
func (l *Link) ShowsOnce(d federation.Delivery) bool {
	return l.cfg.Summaries && d.Entry.Version > 0 && !federation.Private(d.View.Venue)
}

func (l *Link) unavailable(err error) error {
	return irc.Unavailable(l.cfg.Name, err)
}

// The error is a refusal if the step can never be written here.
func (l *Link) row(ctx context.Context, d federation.Delivery) (*outbound, error) {
	ev, private := d.Entry.Event, federation.Private(d.View.Venue)
	if written, err := l.writes(ctx, d.View); err != nil || !written {
		return nil, irc.NoPlace(ev, l.cfg.Name, err)
	}
	d.View.Venue = l.channels.Out(d.View.Venue)
	step := irc.Named(ctx, l.ports.Gateway, d)
	r := &outbound{
		from: l.ports.Home.DID(), venue: d.View.Venue, originatedHere: ev.Arrival.Link == l.cfg.Name,
		msgid: ev.WireID(), event: ev.ID, ref: ev.Handoff, personal: d.Personal, done: make(chan error, 1),
	}
	if !r.originatedHere {
		r.from, r.name = ev.Actor(), step.Name(ev.Actor())
	}
	receipt := d.Entry.Version == 0
	var others []party
	if private || !receipt {
		var err error
		if others, err = l.others(ctx, step); err != nil {
			return nil, err
		}
	}
	if !receipt {
		r.required = slices.DeleteFunc(slices.Clone(others), func(p party) bool { return !p.ours })
	}
	switch {
	case private:
		r.to = others
		if !receipt {
			r.described = &step
		}
	case !receipt:
		r.copied, r.plain = &step, irc.Summary(step)
		r.open = !r.originatedHere && ev.Verb == federation.Offer && ev.To == ""
		if r.open && r.personal && d.View.State != federation.Open {
			return nil, federation.Refuse(ev, federation.InvalidTarget, "no user was in "+r.venue+" while it was open")
		}
		if l.cfg.Summaries && (d.Attempt == 0 || r.open && r.personal) { // no member has seen the line of a waiting offer yet
			r.line = r.plain
		}
	}
	var err error
	if private || r.open || !r.personal && (!r.originatedHere || ev.Arrival.ViaCommand) {
		if r.tags, err = l.tags(ctx, d); err != nil {
			return nil, err
		}
	}
	if !private {
		r.copies, err = l.copy(ctx, d, r)
	}
	return r, err
}

func (l *Link) copy(ctx context.Context, d federation.Delivery, r *outbound) (map[federation.DID]map[string]string, error) {
	s := l.live.Load()
	if s == nil || len(r.required) == 0 {
		return nil, nil
	}
	var outside []federation.DID
	s.Post(ctx, func() {
		for _, p := range s.missingParties(r) {
			if uuid := s.find(p); uuid != "" && (r.personal || !s.net.channels[r.venue].members[uuid]) {
				outside = append(outside, p.did)
			}
		}
	})
	copies := map[federation.DID]map[string]string{}
	for _, did := range outside {
		d.View.Venue = federation.PrivateVenue(d.Entry.Event.Actor(), did)
		tags, err := l.tags(ctx, d)
		if err != nil {
			return nil, err
		}
		copies[did] = tags
	}
	return copies, nil
}

// A party that last signed on another link is found only by account, because its nick may belong to
// another user here.
func (l *Link) others(ctx context.Context, step translate.Step) ([]party, error) {
	var to []party
	for _, did := range step.View.Others(step.Event.Actor()) {
		at, err := irc.SeenOn(ctx, l.ports, did)
		if err != nil {
			return nil, err
		}
		nick := ""
		if at == "" || at == l.cfg.Name {
			nick = step.Name(did)
		}
		p, err := l.party(ctx, did, nick)
		if err != nil {
			return nil, err
		}
		p.ours = at == l.cfg.Name || at == "" && len(p.accounts) > 0
		to = append(to, p)
	}
	return to, nil
}

func (l *Link) tags(ctx context.Context, d federation.Delivery) (map[string]string, error) {
	rendered, losses, err := irc.Render(ctx, l.ports, d)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", rendered.ID, err)
	}
	irc.LogLosses(ctx, l.log, rendered, losses)
	return irc.Tags(rendered, d.View, rendered.WireID())
}

// The row is answered once the peer has proved that it read the row.
func (s *session) deliver(ctx context.Context, r *outbound) {
	if s.readerless(r) {
		s.unread = append(s.unread, r)
		return
	}
	ch := s.net.channels[r.venue]
	targets := s.targets(r)
	switch {
	case ch != nil:
	case len(targets) == 0 && r.originatedHere && len(r.required) == 0:
		r.done <- nil
		return
	case len(targets) == 0:
		for _, p := range r.to {
			s.miss(p)
		}
		r.done <- r.away(s.link.unavailable(errAbsent))
		return
	}
	if r.tags != nil && !s.net.tagmsg {
		s.strip(ctx, r)
	}
	if r.chat != nil && irc.IsReaction(*r.chat) && !s.net.tagmsg {
		r.done <- nil
		return
	}
	if ch != nil && r.chat != nil && (ch.rules.flags[blockColourMode] || ch.rules.flags[stripColourMode]) {
		r.writeChat(false)
	}
	s.reach(r)
	if len(targets) == 0 && len(r.copies) == 0 {
		s.proved(r)
		return
	}
	from := s.speaker(r.from, r.name, r.venue)
	if r.chat != nil {
		s.showAway(from, r.chat.Fields[federation.Away])
	}
	if len(targets) > 0 {
		err := s.barred(from, r)
		if err != nil && r.named != nil && s.barred(s.link.roster.Self, r) == nil {
			from, r.lines, err = s.link.roster.Self, r.named, nil
		}
		if err != nil {
			r.done <- err
			return
		}
	}
	if r.tags == nil && r.lines == nil && s.text(r) == "" && len(r.copies) == 0 { // nothing to prove
		s.proved(r)
		return
	}
	if err := s.putRow(r, from, targets); err != nil {
		r.done <- err
		return
	}
	s.unproven = append(s.unproven, r)
}

func (s *session) reach(r *outbound) {
	ch := s.net.channels[r.venue]
	if ch == nil {
		return
	}
	r.shown = len(ch.members) > 0
	copies := map[federation.DID]map[string]string{}
	r.reached = map[federation.DID]string{}
	for _, p := range s.missingParties(r) {
		switch uuid := s.find(p); {
		case uuid == "":
		case ch.members[uuid] && !r.personal:
			r.reached[p.did] = uuid
		case r.copies[p.did] != nil:
			r.reached[p.did], copies[p.did] = uuid, r.copies[p.did]
		}
	}
	r.copies = copies
}

// A closed connection does not return, and other text does not wait for an account.
func (r *outbound) away(err error) error {
	if len(r.to) != 1 || r.to[0].holder == "" {
		return r.absent(err)
	}
	if strings.HasPrefix(r.to[0].holder, ofAccount) {
		return &delivery.AbsentError{Err: err}
	}
	return &federation.RefusalError{Code: federation.InvalidTarget, Event: r.event, Detail: irc.HolderLeft}
}

// If the channel has the row, later rows do not wait for it.
func (r *outbound) absent(err error) error {
	if r.personal {
		return &delivery.AbsentError{Err: err}
	}
	return err
}

func (s *session) missingParties(r *outbound) []party {
	return slices.DeleteFunc(slices.Clone(r.required), func(p party) bool { return s.link.had.Has(r.key(p)) })
}

func (r *outbound) key(p party) string { return r.event.String() + " " + string(p.did) }

// The answer is nil if all parties that should receive the row have it.
func (s *session) proved(r *outbound) {
	ch := s.net.channels[r.venue]
	missing := r.open && !r.shown
	if missing {
		ch.awaited = true
	}
	for _, p := range s.missingParties(r) {
		uuid, reached := r.reached[p.did]
		if reached = reached && s.net.users[uuid] != nil; reached && ch != nil && r.copies[p.did] == nil {
			reached = ch.members[uuid] // the party may have left before the step was read
		}
		if reached {
			s.link.had.Add(r.key(p))
			continue
		}
		missing = true
		s.miss(p)
	}
	if missing {
		r.done <- &delivery.AbsentError{Err: s.link.unavailable(errAbsent)}
		return
	}
	r.done <- nil
}

// A TAGMSG would end the link to a peer without message tags.
func (s *session) strip(ctx context.Context, r *outbound) {
	if !s.tagless {
		s.log.LogAttrs(ctx, slog.LevelWarn, "peer does not support message tags", slog.Any("err", errNoTags))
	}
	s.tagless = true
	r.tags, r.line = nil, r.plain
}

// For a step that the channel already has, barred only drops the line.
func (s *session) barred(from *pseudo, r *outbound) error {
	ch := s.net.channels[r.venue]
	if ch == nil {
		return nil
	}
	why := s.speech(from, ch)
	switch {
	case why == "":
		return nil
	case r.originatedHere:
		r.tags, r.line = nil, ""
		return nil
	}
	return why.refusal(r, s.link.cfg.Name, ch.name, from.Nick)
}

// A party with a user of ours is found only by its steps, because its nick may belong to another
// user of the network.
func (s *session) targets(r *outbound) []string {
	if ch := s.net.channels[r.venue]; ch != nil {
		if r.open && len(ch.members) == 0 || r.personal && !r.open {
			return nil
		}
		return []string{ch.name}
	}
	var uuids []string
	r.reached = map[federation.DID]string{}
	for _, p := range r.to {
		if r.originatedHere {
			p.nick = ""
		}
		if uuid := s.find(p); uuid != "" && !s.link.had.Has(r.key(p)) {
			uuids, r.reached[p.did] = append(uuids, uuid), uuid
		}
	}
	r.recipients = uuids
	return uuids
}

func (s *session) find(p party) string {
	if p.holder != "" {
		return s.net.held(p.holder)
	}
	if s.link.roster.Has(p.did) {
		p.nick = ""
	}
	return s.net.find(p.did, p.accounts, p.nick)
}

func (s *session) putRow(r *outbound, from *pseudo, targets []string) error {
	r.uuid = from.uuid
	text := s.text(r)
	for _, target := range targets {
		for _, line := range r.lines {
			line.Source, line.Params[0] = from.uuid, target
			if err := s.putMessage(line); err != nil {
				return err
			}
		}
		if err := s.putStep(r, target, r.tags, text); err != nil {
			return err
		}
	}
	for did, tags := range r.copies {
		if !s.net.tagmsg {
			tags = nil
		}
		if err := s.putStep(r, r.reached[did], tags, irc.PrivateSummary(*r.copied, s.link.roster.Self.Nick)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) putStep(r *outbound, target string, tags map[string]string, text string) error {
	if tags != nil {
		if err := s.putMessage(ircmsg.MakeMessage(tags, r.uuid, "TAGMSG", target)); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	ids := map[string]string{"msgid": r.msgid + irc.LineSuffix, irc.RefTag: r.ref.String()}
	line := ircmsg.MakeMessage(ids, r.uuid, "NOTICE", target, text)
	line.ForceTrailing()
	return s.putMessage(line)
}

func (s *session) text(r *outbound) string {
	if r.described == nil {
		return r.line
	}
	return irc.PrivateSummary(*r.described, s.link.roster.Self.Nick)
}

// The network silently drops the last messages of a killed user, and messages to a user that left,
// so a PONG proves nothing about them.
func (s *session) doubt(why error, lost func(*outbound) bool) {
	answered := func(r *outbound) bool {
		if !lost(r) {
			return false
		}
		r.done <- s.link.unavailable(why)
		return true
	}
	s.unproven = slices.DeleteFunc(s.unproven, answered)
	for i, rows := range s.pings {
		s.pings[i] = slices.DeleteFunc(rows, answered)
	}
}

func (s *session) doubtAbsent() {
	s.doubt(errAbsent, func(r *outbound) bool {
		return slices.ContainsFunc(r.recipients, func(uuid string) bool { return s.net.users[uuid] == nil })
	})
}

// A restarted server links before its users have reconnected, so text and steps for a channel wait
// this long for its first user.
const readersTime = 30 * time.Second

func (s *session) awaitReaders() { s.readersDue = time.After(readersTime) }

// The line about a step from the channel does not wait, and nothing waits for users that left.
func (s *session) readerless(r *outbound) bool {
	ch := s.net.channels[r.venue]
	return s.readersDue != nil && (r.chat != nil || r.tags != nil) && ch != nil && !ch.met
}

func (s *session) deliverUnread(ctx context.Context) {
	rows := s.unread
	s.unread = nil
	for _, r := range rows {
		s.deliver(ctx, r)
	}
}

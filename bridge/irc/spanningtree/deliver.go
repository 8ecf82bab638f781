package spanningtree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

var (
	errKilled = errors.New("the step's user was killed, maybe before the step was read")
	errAbsent = errors.New("no recipient is there")
	errNoTags = errors.New("the other server has no message tags, so that steps are readable lines alone: load its ircv3_ctctags module")
)

// row is one delivery on its way through the session.
type row struct {
	from  federation.DID // whose user speaks
	name  string         // what that user is called when it is new
	venue string
	to    []party           // of a private step; nil in a channel
	heard bool              // it came from here: all recipients of a private one may have it already
	tags  map[string]string // of the TAGMSG; nil for a step that the network has already
	msgid string            // of the step
	line  string            // for people in a channel; "" for none
	plain string            // the line that stands for the tags on a server without; "" for none
	event federation.EventID
	told  *translate.Step // of which a private line tells; nil for none
	ref   federation.HandoffID
	lines []ircmsg.Message // of text; their source and target are set later
	named []ircmsg.Message // the same as the gateway's own user says it in a channel
	done  chan error       // has room for the one answer

	// Set when it was written.
	uuid string   // of the user that spoke
	whom []string // UUIDs of the recipients of a private one
}

// party is a recipient of a private step.
type party struct {
	did      federation.DID
	accounts []string // that stand for it
	nick     string
	ours     bool // it signed here last, or an account of this network alone stands for it
}

// Deliver implements [bridge.Link]. Nil means that the peer has read the step.
//
// A step from elsewhere is a TAGMSG from the pseudo-client of its actor; a step that came
// from here is not repeated in its channel, unless it was a command. Either has one line for people, on the first
// attempt only: a repeated TAGMSG has the same id, but a repeated line shows twice.
//
// A private step is a TAGMSG to each other party that is here, and a line that says what to
// type: a link cannot know what clients show. Both are written with each attempt, because
// the recipient may have had neither. The step waits while no party is here. A private step
// that came from here goes to the other parties on this network that are logged in to a
// bound account, or signed steps since the link is up. It waits for a party of this network
// alone.
//
// On a server without message tags the line stands for the step. A step whose user may not
// speak in its channel is refused.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	r, err := l.row(ctx, d)
	if err != nil || r.tags == nil && r.line == "" && r.lines == nil {
		return err
	}
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	return irc.Pass(ctx, l.cfg.Name, s.rows, r, r.done, s.Over)
}

// ShowsOnce implements [bridge.OnceShower]: the line for people.
func (l *Link) ShowsOnce(d federation.Delivery) bool {
	return l.cfg.Summaries && d.Entry.Version > 0 && !federation.Private(d.View.Venue)
}

func (l *Link) unavailable(err error) error {
	return irc.Unavailable(l.cfg.Name, err)
}

// row makes all of a delivery that needs no state of the connection. Its error is
// a refusal where the step can never be written here.
func (l *Link) row(ctx context.Context, d federation.Delivery) (*row, error) {
	ev, private := d.Entry.Event, federation.Private(d.View.Venue)
	if ev.IsChat() {
		return l.chatRow(ev), nil
	}
	if ev.IsMessage() {
		return l.textRow(ctx, ev)
	}
	if written, err := l.writes(ctx, d.View); err != nil || !written {
		return nil, irc.NoPlace(ev, l.cfg.Name, err)
	}
	d.View.Venue = l.channels.Out(d.View.Venue)
	step := irc.Named(ctx, l.ports.Gateway, d)
	r := &row{
		from: l.ports.Home.DID(), venue: d.View.Venue, heard: ev.Arrival.Link == l.cfg.Name,
		msgid: ev.WireID(), event: ev.ID, ref: ev.Handoff, done: make(chan error, 1),
	}
	switch receipt := d.Entry.Version == 0; {
	case receipt:
	case private:
		r.told = &step
	default:
		r.plain = irc.Summary(step)
		if l.cfg.Summaries && d.Attempt == 0 {
			r.line = r.plain
		}
	}
	if r.heard && !private && !ev.Arrival.Command {
		return r, nil
	}
	var err error
	if private {
		if r.to, err = l.others(ctx, step); err != nil {
			return nil, err
		}
	}
	if !r.heard {
		r.from, r.name = ev.Actor(), step.Name(ev.Actor())
	}
	r.tags, err = l.tags(ctx, d)
	return r, err
}

// others returns the recipients of a private step. A party that signed last on another
// link is looked for by account alone: a user here with the same nick is a different one.
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

// tags returns the tags of a step as this link may write them.
func (l *Link) tags(ctx context.Context, d federation.Delivery) (map[string]string, error) {
	rendered, losses, err := irc.Render(ctx, l.ports, d)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", rendered.ID, err)
	}
	irc.LogLosses(ctx, l.log, rendered, losses)
	return irc.Tags(rendered, d.View, rendered.WireID())
}

// deliver writes a row. It is answered once the peer has proved that it read it.
func (s *session) deliver(ctx context.Context, r *row) {
	if s.readerless(r) {
		s.unread = append(s.unread, r)
		return
	}
	targets := s.targets(r)
	switch {
	case len(targets) == 0 && r.heard && !slices.ContainsFunc(r.to, func(p party) bool { return p.ours }):
		r.done <- nil
		return
	case len(targets) == 0:
		s.miss(r)
		r.done <- s.link.unavailable(errAbsent)
		return
	case r.tags != nil && !s.net.tagmsg:
		s.strip(ctx, r)
	}
	from := s.speaker(r.from, r.name, r.venue)
	err := s.barred(from, r)
	if err != nil && r.named != nil && s.barred(s.link.roster.Self, r) == nil {
		from, r.lines, err = s.link.roster.Self, r.named, nil
	}
	if err != nil {
		r.done <- err
		return
	}
	if r.tags == nil && r.lines == nil && s.text(r) == "" { // nothing is left to prove
		r.done <- nil
		return
	}
	if err := s.putRow(r, from, targets); err != nil {
		r.done <- err
		return
	}
	s.unproven = append(s.unproven, r)
}

// strip leaves the line of a row alone, for a peer without message tags: a TAGMSG would end
// the link.
func (s *session) strip(ctx context.Context, r *row) {
	if !s.tagless {
		s.log.LogAttrs(ctx, slog.LevelWarn, "peer takes no message tags", slog.Any("err", errNoTags))
	}
	s.tagless = true
	r.tags, r.line = nil, r.plain
}

// barred returns the refusal of a step whose user may not speak in the channel. A line about a
// step that the channel has already is left out, which refuses nothing.
func (s *session) barred(from *pseudo, r *row) error {
	ch := s.net.channels[r.venue]
	if ch == nil {
		return nil
	}
	why := s.speech(from, ch)
	switch {
	case why == "":
		return nil
	case r.heard:
		r.tags, r.line = nil, ""
		return nil
	}
	return why.refusal(r, s.link.cfg.Name, ch.name, from.Nick)
}

// targets returns the targets of a row: its channel, or its parties that are
// here. A party with a user of ours is looked for by its steps alone: a user of the network
// with its nick is a different one.
func (s *session) targets(r *row) []string {
	if ch := s.net.channels[r.venue]; ch != nil {
		return []string{ch.name}
	}
	var uuids []string
	for _, p := range r.to {
		if r.heard || s.link.roster.Has(p.did) {
			p.nick = ""
		}
		if uuid := s.net.find(p.did, p.accounts, p.nick); uuid != "" {
			uuids = append(uuids, uuid)
		}
	}
	r.whom = uuids
	return uuids
}

// putRow adds the messages of a row to what is to be written, side by side.
func (s *session) putRow(r *row, from *pseudo, targets []string) error {
	r.uuid = from.uuid
	text := s.text(r)
	for _, target := range targets {
		for _, line := range r.lines {
			line.Source, line.Params[0] = from.uuid, target
			if err := s.putMessage(line); err != nil {
				return err
			}
		}
		if r.tags != nil {
			if err := s.putMessage(ircmsg.MakeMessage(r.tags, from.uuid, "TAGMSG", target)); err != nil {
				return err
			}
		}
		if text == "" {
			continue
		}
		tags := map[string]string{"msgid": r.msgid + irc.LineSuffix, irc.RefTag: r.ref.String()}
		line := ircmsg.MakeMessage(tags, from.uuid, "NOTICE", target, text)
		line.ForceTrailing()
		if err := s.putMessage(line); err != nil {
			return err
		}
	}
	return nil
}

// text returns the line of a row, "" for none.
func (s *session) text(r *row) string {
	if r.told == nil {
		return r.line
	}
	return irc.PrivateSummary(*r.told, s.link.roster.Self.Nick)
}

// doubt answers those rows in flight whose PONG would prove nothing: the network
// drops in silence what a user said last that was killed, and what is said to one
// that is gone.
func (s *session) doubt(why error, lost func(*row) bool) {
	answered := func(r *row) bool {
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

// doubtAbsent doubts the rows to users that left.
func (s *session) doubtAbsent() {
	s.doubt(errAbsent, func(r *row) bool {
		return slices.ContainsFunc(r.whom, func(uuid string) bool { return s.net.users[uuid] == nil })
	})
}

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
	"baton/translate/handofftag"
)

var (
	errNotConnected = errors.New("not connected")
	errCut          = errors.New("connection lost before the other server had read the step")
	errKilled       = errors.New("the step's user was killed, maybe before the step was read")
	errNoTags       = errors.New("the other server has no message tags: load its ircv3_ctctags module")
)

// lineSuffix makes the message id of the line for people from that of its step:
// unlike it, and the same on all servers of the network.
const lineSuffix = ".line"

// row is one delivery on its way through the session.
type row struct {
	from  federation.DID // whose user speaks
	name  string         // what that user is called when it is new
	venue string
	tags  map[string]string // of the TAGMSG; nil for a step that the network has already
	msgid string            // of the step
	line  string            // for people; "" for none
	ref   federation.HandoffID
	uuid  string     // of the user that spoke; set when it was written
	done  chan error // has room for the one answer
}

// Deliver implements [bridge.Link]. Nil means that the peer has read the step.
//
// A step from elsewhere is a TAGMSG from the user of its signer; one that came
// from here is not repeated. Beside either stands one line for people, on the
// first attempt only: a TAGMSG seen twice has the same id twice, and a line has
// nothing that would tell.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	r, err := l.row(ctx, d)
	if err != nil || r.tags == nil && r.line == "" {
		return err
	}
	s := l.live.Load()
	if s == nil {
		return l.unavailable(errNotConnected)
	}
	select {
	case s.rows <- r:
	case <-s.over:
		return l.unavailable(errNotConnected)
	case <-ctx.Done():
		return l.unavailable(ctx.Err())
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return l.unavailable(ctx.Err())
	case <-s.over:
	}
	select {
	case err := <-r.done: // the answer came with the end
		return err
	default:
		return l.unavailable(errCut)
	}
}

func (l *Link) unavailable(err error) error {
	return &federation.UnavailableError{What: "link " + l.cfg.Name, Err: err}
}

// row makes all of a delivery that needs no state of the connection. Its error is
// a refusal where the step can never be written here.
func (l *Link) row(ctx context.Context, d federation.Delivery) (*row, error) {
	ev := d.Entry.Event
	step := translate.Step{
		Entry: d.Entry, View: d.View,
		Name: func(did federation.DID) string { return l.ports.Gateway.Name(ctx, did) },
	}
	r := &row{from: l.ports.Home.DID(), venue: ev.Venue, msgid: ev.WireID(), ref: ev.Handoff, done: make(chan error, 1)}
	if l.cfg.Summaries && d.Attempt == 0 {
		r.line = irc.Summary(step)
	}
	if !l.lists(ev.Venue) {
		return nil, federation.Refuse(ev, federation.InvalidTarget, "no channel of link "+l.cfg.Name)
	}
	if ev.Arrival.Link == l.cfg.Name {
		return r, nil
	}
	m, losses, err := handofftag.Codec{}.Encode(step)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ev.ID, err)
	}
	for _, loss := range losses {
		l.log.LogAttrs(ctx, slog.LevelInfo, "field not carried", slog.String("event_id", ev.ID.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
	r.from, r.name, r.tags = ev.From, step.Name(ev.Actor()), m.Tags
	r.tags["msgid"] = r.msgid
	if err := irc.CheckTags(r.tags); err != nil {
		return nil, federation.Refuse(ev, federation.InvalidTag, err.Error())
	}
	return r, nil
}

// deliver writes a row. It is answered once the peer has proved that it read it.
func (s *session) deliver(ctx context.Context, r *row) {
	if r.tags != nil && !s.net.tagmsg {
		if !s.tagless {
			s.log.LogAttrs(ctx, slog.LevelWarn, "peer takes no message tags", slog.Any("err", errNoTags))
		}
		s.tagless = true
		r.done <- s.link.unavailable(errNoTags) // a TAGMSG would end the link
		return
	}
	if err := s.putRow(r); err != nil {
		r.done <- err
		return
	}
	s.unproven = append(s.unproven, r)
}

// putRow adds the messages of a row to what is to be written, side by side.
func (s *session) putRow(r *row) error {
	from := s.speaker(r.from, r.name, r.venue)
	r.uuid = from.uuid
	target := s.net.channels[r.venue].name
	if r.tags != nil {
		if err := s.putMessage(ircmsg.MakeMessage(r.tags, from.uuid, "TAGMSG", target)); err != nil {
			return err
		}
	}
	if r.line == "" {
		return nil
	}
	tags := map[string]string{"msgid": r.msgid + lineSuffix, refTag: r.ref.String()}
	line := ircmsg.MakeMessage(tags, from.uuid, "NOTICE", target, r.line)
	line.ForceTrailing()
	return s.putMessage(line)
}

// doubt answers the rows in flight from a user that was killed: the network drops
// in silence what such a user said last, and the PONG would prove nothing.
func (s *session) doubt(uuid string) {
	killed := func(r *row) bool {
		if r.uuid != uuid {
			return false
		}
		r.done <- s.link.unavailable(errKilled)
		return true
	}
	s.unproven = slices.DeleteFunc(s.unproven, killed)
	for i, rows := range s.pings {
		s.pings[i] = slices.DeleteFunc(rows, killed)
	}
}

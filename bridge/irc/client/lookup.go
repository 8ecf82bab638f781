package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

// Bounds of the work that one inquiry makes.
const (
	maxLookups        = 16  // at a time, over all clients
	maxCorrespondents = 100 // private exchanges that are looked through
	exchangePage      = 100 // handoffs that are read at a time to find those
	maxExchangePages  = 10
)

// timePrecision is that of the time tag, by which clients refer to messages.
const timePrecision = time.Millisecond

// errUnheard is returned for a message that was not said where it is looked for.
var errUnheard = errors.New("no message with that id was said there")

// lookUp reads what a client asked for, and returns how to tell it, for the owner. It is
// called by the client's reader.
func (s *server) lookUp(ctx context.Context, q inquiry, rooms []buffer) (tell func(u *user)) {
	s.lookups <- struct{}{}
	defer func() { <-s.lookups }()
	var err error
	if q.subcommand == targetsOf {
		var found []heard
		if found, err = s.heardOf(ctx, q, rooms); err == nil {
			return func(u *user) { s.tellTargets(u, found) }
		}
	} else {
		var past []told
		if past, err = s.past(ctx, q); err == nil {
			return func(u *user) { s.tellPast(u, past, q) }
		}
	}
	sentence := "Messages could not be retrieved"
	if errors.Is(err, errUnheard) {
		sentence = "No message with that id was said there"
	} else {
		s.log.LogAttrs(ctx, slog.LevelError, "history not read", slog.Any("err", err))
	}
	return func(u *user) {
		s.fail(u, "CHATHISTORY", "MESSAGE_ERROR", q.subcommand+" "+clipParam(q.target), sentence)
	}
}

// told is a step of the past, as a client is told it.
type told struct {
	event federation.Event
	name  string            // what its actor is called
	tags  map[string]string // nil if it is told as a line
	line  string            // for people
}

// past returns the steps that an inquiry asks for.
func (s *server) past(ctx context.Context, q inquiry) ([]told, error) {
	found, err := s.recall(ctx, q)
	if err != nil {
		return nil, err
	}
	past, names := make([]told, len(found)), s.names(ctx)
	for i, said := range found {
		past[i] = s.retold(ctx, q, said, names)
	}
	return past, nil
}

// retold writes a step as a client is told it: with its tags where it plays back events
// and reads those, and else, as everything has to be a message, the line for people.
func (s *server) retold(ctx context.Context, q inquiry, said federation.Said, names func(federation.DID) string) told {
	ev := said.Entry.Event
	t := told{event: ev, name: names(ev.Actor())}
	if in := q.caps.reads(ev.Dialect); in != "" && q.caps.has(capPlayback) {
		tags, err := s.link.render(ctx, federation.Delivery{Entry: said.Entry, View: said.View}, in)
		if err == nil {
			t.tags = tags
			return t
		}
		s.log.LogAttrs(ctx, slog.LevelError, "step not played back", slog.String("event_id", ev.ID.String()), slog.Any("err", err))
	}
	t.line = irc.Summary(translate.Step{Entry: said.Entry, View: said.View, Name: names})
	return t
}

// recall reads the steps of an inquiry, oldest first.
func (s *server) recall(ctx context.Context, q inquiry) ([]federation.Said, error) {
	first, err := s.locate(ctx, q.buffer.place, q.first)
	if err != nil {
		return nil, err
	}
	part := federation.Stretch{Place: q.buffer.place}
	switch q.subcommand {
	case beforeOf:
		part.Before, part.Newest = first.begin, true
	case afterOf:
		part.After = first.end
	case aroundOf:
		return s.around(ctx, q, first)
	case betweenOf:
		second, err := s.locate(ctx, q.buffer.place, q.second)
		if err != nil {
			return nil, err
		}
		part.After, part.Before = first.end, second.begin
		if second.begin.Compare(first.begin) < 0 { // backwards in time
			part.After, part.Before, part.Newest = second.end, first.begin, true
		}
	default:
		part.After, part.Newest = first.end, true
	}
	return s.stretch(ctx, q, part, q.limit)
}

// stretch reads a part of the past of a place, and nothing of what was there before.
func (s *server) stretch(ctx context.Context, q inquiry, part federation.Stretch, limit int) ([]federation.Said, error) {
	if begin := (federation.Mark{At: q.buffer.since}); part.After.Compare(begin) < 0 {
		part.After = begin
	}
	return s.link.deps.Record.Spoken(ctx, part, limit)
}

// around reads what was said before a point, and from there on.
func (s *server) around(ctx context.Context, q inquiry, p point) ([]federation.Said, error) {
	part := federation.Stretch{Place: q.buffer.place, Before: p.begin, Newest: true}
	older, err := s.stretch(ctx, q, part, q.limit/2)
	if err != nil {
		return nil, err
	}
	from := p.begin
	from.N = max(from.N, 1) - 1 // the answer contains the message itself
	newer, err := s.stretch(ctx, q, federation.Stretch{Place: q.buffer.place, After: from}, q.limit-len(older))
	return append(older, newer...), err
}

// point is where a reference leads to: before begin is what was said earlier, after end
// what was said later.
type point struct{ begin, end federation.Mark }

// locate returns where a reference leads to. The ids of what is not kept, which people
// said, are clocks.
func (s *server) locate(ctx context.Context, place federation.Place, r reference) (point, error) {
	switch {
	case r.message == "" && r.at.IsZero():
		return point{}, nil
	case r.message == "":
		return point{federation.Mark{At: r.at}, federation.Mark{At: r.at.Add(timePrecision)}}, nil
	}
	id := strings.TrimSuffix(r.message, irc.LineSuffix)
	mark, err := s.link.deps.Record.Mark(ctx, place, id)
	if err == nil {
		return point{mark, mark}, nil
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return point{}, err
	}
	minted, err := federation.ParseEventID(id)
	if err != nil {
		return point{}, errUnheard
	}
	at := federation.Mark{At: minted.Time()}
	return point{at, at}, nil
}

// tellPast sends the answer to an inquiry.
func (s *server) tellPast(u *user, past []told, q inquiry) {
	s.batch(u, []string{"chathistory", q.buffer.name}, func(ref string) {
		for _, each := range past {
			target := q.buffer.name
			if federation.Private(q.buffer.place.Venue) && each.event.Actor() != q.account {
				target = u.nick
			}
			m := s.stepMessage(each.event, target, each.name)
			if m.tags = each.tags; m.tags == nil {
				m = m.inWords(each.event.Handoff, each.line)
			}
			m.batch = ref
			s.send(u, m)
		}
	})
}

// batch sends messages as one batch of a type, to a client that reads batches.
func (s *server) batch(u *user, kind []string, send func(ref string)) {
	ref := ""
	if u.caps.has(capBatch) {
		ref = s.reference()
		s.send(u, tells(s.name, "BATCH", append([]string{"+" + ref}, kind...)...))
	}
	send(ref)
	if ref != "" {
		s.send(u, tells(s.name, "BATCH", "-"+ref))
	}
}

// heard is a place with the time of what was said there last.
type heard struct {
	name  string         // of a channel
	other federation.DID // of a private exchange: the other party
	at    time.Time
}

// heardOf returns the places where a client may read that were last heard of between two
// moments, as many as are asked for from the first of them on, in order of time.
func (s *server) heardOf(ctx context.Context, q inquiry, rooms []buffer) ([]heard, error) {
	from, to := q.first.at, q.second.at
	backwards := to.Before(from)
	if backwards {
		from, to = to, from
	}
	all, err := s.exchanges(ctx, q.account, from)
	if err != nil {
		return nil, err
	}
	for _, room := range rooms {
		all = append(all, exchange{buffer: room})
	}
	var found []heard
	for _, each := range all {
		last, err := s.stretch(ctx, inquiry{buffer: each.buffer}, federation.Stretch{Place: each.place, Newest: true}, 1)
		if err != nil {
			return nil, err
		}
		if len(last) == 0 {
			continue
		}
		if at := last[0].Mark.At; at.After(from) && at.Before(to) {
			found = append(found, heard{name: each.name, other: each.other, at: at})
		}
	}
	slices.SortStableFunc(found, func(a, b heard) int { return a.at.Compare(b.at) })
	if extra := len(found) - q.limit; extra > 0 && backwards {
		found = found[extra:]
	}
	return found[:min(len(found), q.limit)], nil
}

// exchange is a place, with the other party of a private one.
type exchange struct {
	buffer

	other federation.DID
}

// exchanges returns the private exchanges of a DID in which a handoff moved since a
// time, up to a bound, the one that moved last first.
func (s *server) exchanges(ctx context.Context, did federation.DID, since time.Time) ([]exchange, error) {
	var found []exchange
	var after federation.Cursor
	for page := 0; did != "" && page < maxExchangePages; page++ {
		views, next, err := s.link.deps.Record.Handoffs(ctx, federation.Filter{DID: did, Since: since}, after, exchangePage)
		if err != nil {
			return nil, fmt.Errorf("list handoffs of %s: %w", did, err)
		}
		for _, view := range views {
			a, b, private := federation.Parties(view.Venue)
			known := slices.ContainsFunc(found, func(e exchange) bool { return e.place.Venue == view.Venue })
			switch {
			case !private || known || len(found) == maxCorrespondents:
			case a == did:
				found = append(found, exchange{buffer{place: view.Place()}, b})
			case b == did:
				found = append(found, exchange{buffer{place: view.Place()}, a})
			}
		}
		if after = next; after == "" {
			break
		}
	}
	return found, nil
}

// tellTargets sends where something was said.
func (s *server) tellTargets(u *user, found []heard) {
	s.batch(u, []string{"draft/chathistory-targets"}, func(ref string) {
		for _, each := range found {
			name := each.name
			if each.other != "" {
				name = s.called(each.other)
			}
			m := tells(s.name, "CHATHISTORY", targetsOf, name, each.at.UTC().Format(timeLayout))
			m.batch = ref
			s.send(u, m)
		}
	})
}

// called returns the target by which a DID can be written to: the nick of an online user,
// else the DID.
func (s *server) called(did federation.DID) string {
	if did == s.link.ports.Home.DID() {
		return selfNick
	}
	for u := range s.accounts[did] {
		if u.welcome {
			return u.nick
		}
	}
	return string(did)
}

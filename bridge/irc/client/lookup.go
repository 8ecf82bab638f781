package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

const (
	maxLookups        = 16  // over all clients
	maxCorrespondents = 100 // private exchanges to search
	exchangePage      = 100 // handoffs read at a time to find them
	maxExchangePages  = 10
)

// Clients refer to messages by a time tag with this precision.
const timePrecision = time.Millisecond

var errUnknownMessage = errors.New("no message with that id was said there")

// The client's reader calls lookUp. The owner calls tell to send the response.
func (s *server) lookUp(ctx context.Context, q inquiry, rooms []buffer) (tell func(u *user)) {
	s.lookups <- struct{}{}
	defer func() { <-s.lookups }()
	var err error
	if q.subcommand == targetsOf {
		var found []historyTarget
		if found, err = s.historyTargets(ctx, q, rooms); err == nil {
			return func(u *user) { s.sendTargets(u, found) }
		}
	} else {
		var past []renderedItem
		if past, err = s.past(ctx, q); err == nil {
			return func(u *user) { s.sendHistory(u, past, q) }
		}
	}
	sentence := "Messages could not be retrieved"
	if errors.Is(err, errUnknownMessage) {
		sentence = "No message with that id was said there"
	} else {
		s.log.LogAttrs(ctx, slog.LevelError, "history not read", slog.Any("err", err))
	}
	return func(u *user) {
		s.fail(u, "CHATHISTORY", "MESSAGE_ERROR", q.subcommand+" "+clipParam(q.target), sentence)
	}
}

type renderedItem struct {
	text *federation.Line // nil for a step

	event federation.Event
	name  string
	tags  map[string]string // nil if sent as a line
	line  string
}

func (s *server) past(ctx context.Context, q inquiry) ([]renderedItem, error) {
	found, err := s.recall(ctx, q)
	if err != nil {
		return nil, err
	}
	var past []renderedItem
	names := s.names(ctx)
	for _, item := range found {
		if item.line != nil {
			past = append(past, renderedItem{text: item.line})
		} else {
			past = append(past, s.renderStep(ctx, q, *item.step, names))
		}
	}
	return past, nil
}

// Without event playback and the dialect, renderStep returns the readable line, because every entry
// must be a message.
func (s *server) renderStep(ctx context.Context, q inquiry, entry federation.TimelineEntry, names func(federation.DID) string) renderedItem {
	ev := entry.Entry.Event
	t := renderedItem{event: ev, name: names(ev.Actor())}
	if in := q.caps.reads(ev.Dialect); in != "" && q.caps.has(capPlayback) {
		tags, err := s.link.render(ctx, federation.Delivery{Entry: entry.Entry, View: entry.View}, in)
		if err == nil {
			t.tags = tags
			return t
		}
		s.log.LogAttrs(ctx, slog.LevelError, "step not played back", slog.String("event_id", ev.ID.String()), slog.Any("err", err))
	}
	t.line = irc.Summary(translate.Step{Entry: entry.Entry, View: entry.View, Name: names})
	return t
}

type historyItem struct {
	step *federation.TimelineEntry
	line *federation.Line
}

func (s historyItem) at() time.Time {
	if s.step != nil {
		return s.step.Position.At
	}
	return s.line.Position.At
}

// At the same time, a step precedes the lines.
type position struct{ step, line federation.Position }

func (p position) compare(other position) int {
	return cmp.Or(p.line.At.Compare(other.line.At), cmp.Compare(p.step.N, other.step.N), cmp.Compare(p.line.N, other.line.N))
}

// A stretch excludes its ends.
type stretch struct {
	after, before position
	newest        bool
}

func (s *server) recall(ctx context.Context, q inquiry) ([]historyItem, error) {
	first, err := s.locate(ctx, q.buffer.place, q.first)
	if err != nil {
		return nil, err
	}
	var part stretch
	switch q.subcommand {
	case beforeOf:
		part.before, part.newest = first.begin, true
	case afterOf:
		part.after = first.end
	case aroundOf:
		return s.around(ctx, q, first)
	case betweenOf:
		second, err := s.locate(ctx, q.buffer.place, q.second)
		if err != nil {
			return nil, err
		}
		part.after, part.before = first.end, second.begin
		if second.begin.compare(first.begin) < 0 { // backwards in time
			part.after, part.before, part.newest = second.end, first.begin, true
		}
	default:
		part.after, part.newest = first.end, true
	}
	return s.stretch(ctx, q, part, q.limit)
}

// A client without event playback gets only text.
func (s *server) stretch(ctx context.Context, q inquiry, part stretch, limit int) ([]historyItem, error) {
	begin := federation.Position{At: q.buffer.since}
	for _, after := range []*federation.Position{&part.after.step, &part.after.line} {
		if after.Compare(begin) < 0 {
			*after = begin
		}
	}
	steps, err := s.link.deps.Record.Spoken(ctx, federation.TimelineQuery{Place: q.buffer.place, After: part.after.step, Before: part.before.step, Newest: part.newest}, limit)
	if err != nil {
		return nil, err
	}
	lines, err := s.link.deps.Record.Lines(ctx, federation.TimelineQuery{Place: q.buffer.place, After: part.after.line, Before: part.before.line, Newest: part.newest, TextOnly: !q.caps.has(capPlayback)}, limit)
	if err != nil {
		return nil, err
	}
	var found []historyItem
	for i := range steps {
		found = append(found, historyItem{step: &steps[i]})
	}
	for i := range lines {
		if lines[i].Command != "TAGMSG" || q.caps.has(capTags) {
			found = append(found, historyItem{line: &lines[i]})
		}
	}
	slices.SortStableFunc(found, func(a, b historyItem) int { return a.at().Compare(b.at()) })
	if extra := len(found) - limit; extra > 0 && part.newest {
		found = found[extra:]
	}
	return found[:min(len(found), limit)], nil
}

func (s *server) around(ctx context.Context, q inquiry, p point) ([]historyItem, error) {
	older, err := s.stretch(ctx, q, stretch{before: p.begin, newest: true}, q.limit/2)
	if err != nil {
		return nil, err
	}
	from := p.begin
	for _, mark := range []*federation.Position{&from.step, &from.line} {
		mark.N = max(mark.N, 1) - 1 // the response contains the message itself
	}
	newer, err := s.stretch(ctx, q, stretch{after: from}, q.limit-len(older))
	return append(older, newer...), err
}

// Messages before begin are earlier, and messages after end are later.
type point struct{ begin, end position }

// The ID of an unknown message serves as a timestamp.
func (s *server) locate(ctx context.Context, place federation.ChannelRef, r reference) (point, error) {
	moment := func(at time.Time) position { return position{federation.Position{At: at}, federation.Position{At: at}} }
	switch {
	case r.message == "" && r.at.IsZero():
		return point{}, nil
	case r.message == "":
		return point{moment(r.at), moment(r.at.Add(timePrecision))}, nil
	}
	id := strings.TrimSuffix(r.message, irc.LineSuffix)
	mark, err := s.link.deps.Record.PositionOf(ctx, place, id)
	if err == nil {
		at := position{step: mark, line: federation.Position{At: mark.At}}
		return point{at, at}, nil
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return point{}, err
	}
	mark, err = s.link.deps.Record.LineMark(ctx, place, r.message)
	if err == nil {
		at := position{step: federation.Position{At: mark.At, N: math.MaxInt64}, line: mark}
		return point{at, at}, nil
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return point{}, err
	}
	minted, err := federation.ParseEventID(id)
	if err != nil {
		return point{}, errUnknownMessage
	}
	return point{moment(minted.Time()), moment(minted.Time())}, nil
}

func (s *server) sendHistory(u *user, past []renderedItem, q inquiry) {
	correspondent := q.buffer.name // the client may have used another case
	if known := s.nicks[fold(correspondent)]; known != nil {
		correspondent = known.nick
	}
	target := func(author federation.DID) string {
		if federation.Private(q.buffer.place.Venue) && author != q.account {
			return u.nick
		}
		return correspondent
	}
	s.batch(u, []string{"chathistory", q.buffer.name}, func(ref string) {
		for _, each := range past {
			var m message
			if each.text != nil {
				m = s.renderLine(*each.text, target(each.text.Author))
			} else {
				m = s.stepMessage(each.event, target(each.event.Actor()), each.name)
				if m.tags = each.tags; m.tags == nil {
					m = m.inWords(each.event.Handoff, each.line)
				}
			}
			m.batch = ref
			s.send(u, m)
		}
	})
}

func (s *server) batch(u *user, kind []string, send func(ref string)) {
	ref := ""
	if u.caps.has(capBatch) {
		ref = s.reference()
		s.send(u, newMessage(s.name, "BATCH", append([]string{"+" + ref}, kind...)...))
	}
	send(ref)
	if ref != "" {
		s.send(u, newMessage(s.name, "BATCH", "-"+ref))
	}
}

type historyTarget struct {
	name  string
	other federation.DID // of a private exchange
	nick  string         // "" unless it sent the newest line
	at    time.Time
}

// The targets are ordered by the time of their last message.
func (s *server) historyTargets(ctx context.Context, q inquiry, rooms []buffer) ([]historyTarget, error) {
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
	var found []historyTarget
	for _, each := range all {
		last, err := s.stretch(ctx, inquiry{buffer: each.buffer, caps: q.caps}, stretch{newest: true}, 1)
		if err != nil {
			return nil, err
		}
		if len(last) == 0 {
			continue
		}
		if at := last[0].at().Truncate(timePrecision); at.After(from) && at.Before(to) {
			h := historyTarget{name: each.name, other: each.other, at: at}
			if line := last[0].line; line != nil && line.Author == each.other {
				h.nick, _, _ = strings.Cut(line.Source, "!")
			}
			found = append(found, h)
		}
	}
	slices.SortStableFunc(found, func(a, b historyTarget) int { return a.at.Compare(b.at) })
	if extra := len(found) - q.limit; extra > 0 && backwards {
		found = found[extra:]
	}
	return found[:min(len(found), q.limit)], nil
}

type exchange struct {
	buffer

	other federation.DID
}

// The result is bounded, newest first.
func (s *server) exchanges(ctx context.Context, did federation.DID, since time.Time) ([]exchange, error) {
	if did == "" {
		return nil, nil
	}
	var found []exchange
	add := func(place federation.ChannelRef) {
		a, b, private := federation.Parties(place.Venue)
		known := slices.ContainsFunc(found, func(e exchange) bool { return e.place.Venue == place.Venue })
		switch {
		case !private || known || len(found) == maxCorrespondents:
		case a == did:
			found = append(found, exchange{buffer{place: place}, b})
		case b == did:
			found = append(found, exchange{buffer{place: place}, a})
		}
	}
	venues, err := s.link.deps.Record.LineVenues(ctx, did, since, maxCorrespondents)
	if err != nil {
		return nil, err
	}
	for _, venue := range venues {
		add(federation.ChannelRef{Venue: venue})
	}
	var after federation.Cursor
	for range maxExchangePages {
		views, next, err := s.link.deps.Record.Handoffs(ctx, federation.Filter{DIDs: []federation.DID{did}, Since: since}, after, exchangePage)
		if err != nil {
			return nil, fmt.Errorf("list handoffs of %s: %w", did, err)
		}
		for _, view := range views {
			add(view.Place())
		}
		if after = next; after == "" {
			break
		}
	}
	return found, nil
}

func (s *server) sendTargets(u *user, found []historyTarget) {
	s.batch(u, []string{"draft/chathistory-targets"}, func(ref string) {
		for _, each := range found {
			name := each.name
			if each.other != "" {
				name = s.called(each.other, each.nick)
			}
			m := newMessage(s.name, "CHATHISTORY", targetsOf, name, each.at.UTC().Format(timeLayout))
			m.batch = ref
			s.send(u, m)
		}
	})
}

// called returns the DID of a user without a nick.
func (s *server) called(did federation.DID, nick string) string {
	if did == s.link.ports.Home.DID() {
		return selfNick
	}
	for u := range s.accounts[did] {
		if u.welcome {
			return u.nick
		}
	}
	if u := s.remotes.users[did]; u != nil {
		return u.nick
	}
	if nick != "" && s.link.ports.Messages.Guest(s.link.Name(), nick) == did {
		return nick
	}
	return string(did)
}

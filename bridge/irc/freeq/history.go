package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
)

// answerRows is how many rows answer one question of a peer, as servers do it, and
// maxAnswerRows how many where they share a second: a question can name no part of one.
//
// spec: freeq-s2s "catchup_request"
const (
	answerRows    = 500
	maxAnswerRows = 4 * answerRows
)

// answer is what a peer asked that was not answered yet.
type answer struct {
	since time.Time
	limit int
}

// onCatchupRequest answers a peer that asks what it missed. The record keeps what this
// link is owed until the peer has proved that it read it; but one that has read a step may
// have lost it since, or have waited for a key with it until it was stopped.
func (s *session) onCatchupRequest(ctx context.Context, m *catchupRequest) {
	if len(s.answers)+len(s.queue.waiting[control]) > maxAnswers {
		s.badInput(ctx, flooded, m.Type)
		return
	}
	s.answers = append(s.answers, answer{since: time.Unix(m.Since, 0), limit: m.Limit})
	if len(s.answers) == 1 {
		s.answerNext()
	}
}

// answerNext answers the oldest question. Answers come in the order of the questions, so
// that one from the record holds up those after it: the peer takes each as a sign that
// all it said before was read.
func (s *session) answerNext() {
	for len(s.answers) > 0 {
		if a := s.answers[0]; a.since.Before(time.Now()) {
			s.Running.Go(func() {
				m := s.link.history(s.Asking, a)
				s.Post(s.Asking, func() {
					s.answerOldest(m)
					s.answerNext()
				})
			})
			return
		}
		s.answerOldest(&catchupEvents{Events: []replayed{}}) // the question is a sign of life
	}
}

// answerOldest sends the answer to the oldest question.
func (s *session) answerOldest(m *catchupEvents) {
	m.Type, m.Origin = typeCatchupEvents, s.link.id
	s.put(control, m)
	s.answers = s.answers[1:]
}

// history returns what this link said of handoffs that this gateway introduces from a
// time on, oldest first. Where something cannot be read now the peer is told what came before it.
func (l *Link) history(ctx context.Context, a answer) *catchupEvents {
	m := &catchupEvents{Events: []replayed{}}
	given, more, err := l.page(ctx, a)
	if err == nil {
		m.Events, err = l.remember(ctx, given)
	}
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelWarn, "peer not told all that it missed", slog.Any("err", err))
		return m
	}
	m.More = more
	return m
}

// remember writes again what was given to the peer of handoffs that this gateway introduces.
func (l *Link) remember(ctx context.Context, given []federation.Given) ([]replayed, error) {
	events, writer := []replayed{}, l.again()
	for _, g := range given {
		if !l.introduces(g.View) {
			continue
		}
		r, err := writer.row(ctx, g.Delivery, false)
		if _, refused := errors.AsType[*federation.RefusalError](err); refused {
			continue // it has no place here any more
		}
		if err != nil {
			return events, err
		}
		for _, said := range r.said {
			remembered, err := said.replayed(r.venue, l.id, g.At)
			if err != nil {
				return events, fmt.Errorf("write %s again: %w", g.Entry.Event.ID, err)
			}
			events = append(events, remembered)
		}
	}
	return events, nil
}

// again returns the link as it writes what it has written before, whose evidence is on
// disk.
func (l *Link) again() *Link {
	deps := l.deps
	deps.Evidence = onDisk{deps.Evidence}
	again := &Link{cfg: l.cfg, deps: deps, log: l.log, id: l.id, channels: l.channels, peers: l.peers}
	again.live.Store(l.live.Load())
	return again
}

// onDisk is the evidence of steps that were written before.
type onDisk struct{ bridge.Evidence }

// Keep implements [bridge.Evidence]. The evidence was kept when the step was written first.
func (onDisk) Keep(context.Context, federation.HandoffID, federation.Evidence) error { return nil }

// page reads the rows that answer a question. The next question starts at the last second of
// a page: a page that would end in its first second goes on into the next second.
func (l *Link) page(ctx context.Context, a answer) (given []federation.Given, more bool, err error) {
	most, limit := maxAnswerRows, answerRows
	if a.limit > 0 && a.limit < answerRows {
		most, limit = a.limit, a.limit
	}
	given, err = l.deps.Given(ctx, l.cfg.Name, a.since, most+1)
	if err != nil {
		return nil, false, fmt.Errorf("read what was given: %w", err)
	}
	end := min(limit, len(given))
	for end > 0 && end < min(most, len(given)) && given[end-1].At.Unix() == given[0].At.Unix() {
		end++
	}
	return given[:end], end < len(given), nil
}

// replayed returns a message as a row of a log.
func (m said) replayed(venue, origin string, at time.Time) (replayed, error) {
	fields := map[string]string{}
	for name, value := range m.Tags {
		if bare := strings.TrimPrefix(name, vendorPrefix); bare == "act" || strings.HasPrefix(bare, "act-") {
			fields[bare] = value
		}
	}
	from, id := m.Tags[vendorPrefix+"from"], m.Tags[vendorPrefix+"eventid"]
	document, err := signing.Canonical(fields, federation.DID(from), venue, id)
	return replayed{
		EventID: id, Kind: "act", Venue: venue, Timestamp: at.Unix(), Canonical: document,
		Signature: m.Tags[vendorPrefix+"sig"], Actor: from, Subject: fields["act-id"], Origin: origin,
	}, err
}

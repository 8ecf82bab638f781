package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
)

// catchupWindow is the period of the first catch-up, as between servers.
//
// spec: freeq-s2s "Order on a fresh link"
const catchupWindow = 24 * time.Hour

// clockMargin is the tolerated difference between the server's clock and ours.
const clockMargin = 2 * time.Minute

// The backoff for steps over a limit, or without a key. It doubles while steps are missing, as in
// servers.
//
// spec: freeq-s2s "Verdicts and parking"
const (
	firstLimitWait = 5 * time.Second
	firstKeyWait   = 30 * time.Second
	lastWait       = 10 * time.Minute
)

// A peer cannot continue a catch-up forever. The limit exceeds the number of steps that a server
// can receive in a day.
const maxPages = 4096

// A peer sends one request at a time.
const maxAnswers = 256

type catchup struct {
	since int64 // unix seconds, of the requested page
	pages int
	rows  []replayed // not judged yet
	more  bool
	next  int64

	recollecting bool // reading the rest of a second
}

func (s *session) catchUp() {
	since := time.Now().Add(-catchupWindow)
	if s.link.readUntil.After(since) {
		since = s.link.readUntil
	}
	s.replayFrom(since)
}

func (s *session) replayFrom(since time.Time) {
	s.catchup = &catchup{since: since.Unix()}
	if !s.linked {
		s.cursor = since.Unix()
	}
	s.askPage()
}

func (s *session) askPage() {
	s.catchup.pages++
	s.ask(question{page: true}, &catchupRequest{Since: s.catchup.since})
}

type gap struct {
	since time.Time // zero for none
	due   time.Time
	wait  time.Duration
}

// observe adds a missed step. The first wait applies to a new gap.
func (g *gap) observe(received, now time.Time, first time.Duration) {
	if g.since.IsZero() {
		g.wait = min(max(first, 2*g.wait), lastWait)
		g.due = now.Add(g.wait)
	}
	if g.since.IsZero() || received.Before(g.since) {
		g.since = received
	}
}

func (g *gap) isDue(now time.Time) bool { return !g.since.IsZero() && !now.Before(g.due) }

func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Steps over a limit are requested only after all received steps are judged.
func (s *session) recover(now time.Time) {
	limited := s.limited.isDue(now) && s.Steps.Empty()
	if s.catchup != nil || !limited && !s.keyless.isDue(now) {
		return
	}
	since := earliest(s.limited.since, s.keyless.since)
	s.limited.since, s.keyless.since = time.Time{}, time.Time{}
	s.replayFrom(since.Add(-clockMargin))
}

func (s *session) missedSince(now time.Time) time.Time {
	since := earliest(now, s.limited.since, s.keyless.since)
	if s.catchup != nil {
		since = earliest(since, time.Unix(s.catchup.since, 0))
	}
	return since.Add(-clockMargin)
}

func (s *session) lackKey(in *inbound) {
	now := time.Now()
	s.keyless.observe(in.received(now), now, firstKeyWait)
}

func (in *inbound) received(now time.Time) time.Time {
	if in.at.IsZero() || in.at.After(now) {
		return now
	}
	return in.at
}

// onCatchupEvents rejects rows without a question, because a peer can send steps live.
func (s *session) onCatchupEvents(ctx context.Context, m *catchupEvents) {
	q, asked := s.answered()
	switch {
	case !asked:
		s.badInput(ctx, flooded, "an answer without a question")
		return
	case q.tail:
		s.onTail(ctx, q, m)
		return
	case !q.page || s.catchup == nil:
		return
	}
	c := s.catchup
	c.rows, c.more, c.next = m.Events, m.More && c.pages < maxPages, c.since
	for _, row := range m.Events {
		c.next = max(c.next, row.Timestamp)
		s.onFile(row)
	}
	if !s.linked { // later writes are filed later
		s.cursor = max(s.cursor, c.next)
	}
	if c.more && c.next == c.since {
		c.next++ // one second filled the page
		s.recollect(ctx, c.since)
	}
	s.turn(ctx)
}

func (s *session) turn(ctx context.Context) {
	c := s.catchup
	if c == nil {
		return
	}
	for len(c.rows) > 0 {
		row := c.rows[0]
		if row.Kind == "act" && !s.processed.Has(row.EventID) {
			if s.Steps.Full() || !s.rate(time.Now()) {
				return // retried at the next tick
			}
			s.onRow(ctx, row)
		}
		c.rows = c.rows[1:]
	}
	if c.recollecting {
		return
	}
	if c.more {
		c.more = false
		c.since = c.next
		s.askPage()
		return
	}
	if c.waits(s.asked) || s.replaying() {
		return // the link is up once the missed steps are recorded
	}
	s.catchup = nil
	for _, g := range []*gap{&s.limited, &s.keyless} {
		if g.since.IsZero() {
			g.wait = 0
		}
	}
	if !s.linked {
		s.open()
	}
}

func (c *catchup) waits(asked []question) bool {
	for _, q := range asked {
		if q.page {
			return true
		}
	}
	return false
}

func (s *session) onRow(ctx context.Context, row replayed) {
	if row.Canonical == "" {
		return
	}
	if row.Origin != s.link.cfg.EndpointID && row.Origin != s.link.id && row.Origin != "" {
		return // from an unknown server, for which the peer cannot vouch
	}
	ev, err := translate.FromDocument(row.Canonical)
	if err != nil {
		s.badInput(ctx, malformed, "a row of the log")
		return
	}
	tags := make(map[string]string, len(ev.Fields)+3)
	for name, value := range ev.Fields {
		tags[vendorPrefix+name] = value
	}
	tags["+freeq.at/from"], tags["+freeq.at/eventid"], tags["+freeq.at/sig"] = string(ev.From), ev.ID.String(), row.Signature
	s.onStep(ctx, arriving{target: ev.Venue, tags: tags, replay: true, at: time.Unix(row.Timestamp, 0), minted: row.Origin == s.link.id})
}

// spec: freeq-rest "Actions"
type taskList struct {
	Tasks []struct {
		ID      string `json:"act_id"`
		Origin  string `json:"origin"`  // endpoint ID of its home; "" for the server itself
		Updated int64  `json:"updated"` // unix seconds
	} `json:"tasks"`
}

// A server lists at most this many handoffs.
const maxTasks = 500

// A normal request, whose resolution is one second, cannot fetch these messages.
func (s *session) recollect(ctx context.Context, second int64) {
	s.log.LogAttrs(ctx, slog.LevelWarn, "more steps in one second than a page holds: the rest is read from the web API", slog.Int64("second", second))
	s.catchup.recollecting = true
	s.Running.Go(func() { s.readSecond(second) }) //nolint:contextcheck // it ends with the connection
}

func (s *session) readSecond(second int64) {
	ctx := s.Asking
	rows, err := s.link.rowsOf(ctx, second)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "second not read whole", slog.Int64("second", second), slog.Any("err", err))
	}
	s.Post(ctx, func() { s.onRecollected(ctx, rows) })
}

func (s *session) onRecollected(ctx context.Context, rows []replayed) {
	if s.catchup == nil {
		return
	}
	s.catchup.recollecting = false
	s.catchup.rows = append(s.catchup.rows, rows...)
	s.turn(ctx)
}

// After an error, rowsOf returns the rows read so far.
func (l *Link) rowsOf(ctx context.Context, second int64) (rows []replayed, err error) {
	var list taskList
	if err := l.ask(ctx, actionsPath, url.Values{"limit": {strconv.Itoa(maxTasks)}}, &list); err != nil {
		return nil, err
	}
	for _, task := range list.Tasks {
		if task.Updated < second {
			break // a task last updated earlier has no rows in that second
		}
		id, err := federation.ParseEventID(task.ID)
		if err != nil {
			return rows, fmt.Errorf("actions of %s: %w", l.cfg.ServerName, err)
		}
		var found action
		if err := l.ask(ctx, actionsPath.Join(id.String()), nil, &found); err != nil {
			return rows, err
		}
		for _, e := range found.Events {
			if e.Timestamp == second {
				rows = append(rows, replayed{
					EventID: e.EventID, Kind: "act", Venue: e.Venue, Timestamp: second, Canonical: e.Canonical,
					Signature: e.Signature, Actor: e.Actor, Origin: task.Origin,
				})
			}
		}
	}
	return rows, nil
}

// spec: freeq-rest "Actions"
const actionsPath federation.URLPath = "/api/v1/actions"

func (l *Link) ask(ctx context.Context, path federation.URLPath, query url.Values, into any) error {
	address, err := federation.JoinURL(l.cfg.PeerAPI, path, query)
	if err != nil {
		return err
	}
	body, err := l.deps.Fetch(ctx, address)
	if err != nil {
		return err
	}
	if err := federation.DecodeJSON(body, into); err != nil {
		return fmt.Errorf("actions of %s: %w", l.cfg.ServerName, err)
	}
	return nil
}

// Servers use answerRows. If rows share a second, the page has up to maxAnswerRows, because a request
// cannot divide a second.
//
// spec: freeq-s2s "catchup_request"
const (
	answerRows    = 500
	maxAnswerRows = 4 * answerRows
)

type answer struct {
	since time.Time
	limit int
}

// The peer may have lost a step that it has read, so the answer comes from the record.
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

// Answers are sent in the order of the requests, because each proves that all earlier messages were
// read.
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
		s.answerOldest(&catchupEvents{Events: []replayed{}}) // the request shows that the peer is alive
	}
}

func (s *session) answerOldest(m *catchupEvents) {
	m.Type, m.Origin = typeCatchupEvents, s.link.id
	s.put(control, m)
	s.answers = s.answers[1:]
}

// If a read fails, history returns only the earlier messages.
func (l *Link) history(ctx context.Context, a answer) *catchupEvents {
	m := &catchupEvents{Events: []replayed{}}
	given, more, err := l.page(ctx, a)
	if err == nil {
		m.Events, err = l.remember(ctx, given)
	}
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelWarn, "missed steps not all sent to the peer", slog.Any("err", err))
		return m
	}
	m.More = more
	return m
}

func (l *Link) remember(ctx context.Context, given []federation.CompletedDelivery) ([]replayed, error) {
	events, writer := []replayed{}, l.again()
	for _, g := range given {
		if !l.introduces(g.View) {
			continue
		}
		r, err := writer.row(ctx, g.Delivery, false)
		if _, refused := errors.AsType[*federation.RefusalError](err); refused {
			continue // the handoff no longer has a place here
		}
		if err != nil {
			return events, err
		}
		for _, m := range r.wireMessages {
			remembered, err := m.replayed(r.venue, l.id, g.At)
			if err != nil {
				return events, fmt.Errorf("write %s again: %w", g.Entry.Event.ID, err)
			}
			events = append(events, remembered)
		}
	}
	return events, nil
}

// The evidence of earlier messages is already on disk.
func (l *Link) again() *Link {
	deps := l.deps
	deps.Evidence = onDisk{deps.Evidence}
	again := &Link{cfg: l.cfg, deps: deps, log: l.log, id: l.id, channels: l.channels, peers: l.peers}
	again.live.Store(l.live.Load())
	return again
}

type onDisk struct{ bridge.Evidence }

// Keep implements [bridge.Evidence]. It does nothing.
func (onDisk) Keep(context.Context, federation.HandoffID, federation.Evidence) error { return nil }

// A page that would end in its first second continues into the next second, because the next
// request starts there.
func (l *Link) page(ctx context.Context, a answer) (given []federation.CompletedDelivery, more bool, err error) {
	most, limit := maxAnswerRows, answerRows
	if a.limit > 0 && a.limit < answerRows {
		most, limit = a.limit, a.limit
	}
	given, err = l.deps.Given(ctx, l.cfg.Name, a.since, most+1)
	if err != nil {
		return nil, false, fmt.Errorf("read delivered steps: %w", err)
	}
	end := min(limit, len(given))
	for end > 0 && end < min(most, len(given)) && given[end-1].At.Unix() == given[0].At.Unix() {
		end++
	}
	return given[:end], end < len(given), nil
}

func (m wireMessage) replayed(venue, origin string, at time.Time) (replayed, error) {
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

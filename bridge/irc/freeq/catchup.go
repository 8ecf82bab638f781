package freeq

import (
	"context"
	"time"

	"baton/translate"
)

// catchupWindow is how far back is asked at the start. Servers ask each other for as
// much.
//
// spec: freeq-s2s "Order on a fresh link"
const catchupWindow = 24 * time.Hour

// clockMargin is how far a server's clock may differ from ours without a step being
// missed.
const clockMargin = 2 * time.Minute

// Waits before steps are requested again: steps that met a limit, and steps whose keys could
// not be fetched. While steps stay missing the wait doubles, as at servers.
//
// spec: freeq-s2s "Verdicts and parking"
const (
	firstLimitWait = 5 * time.Second
	firstKeyWait   = 30 * time.Second
	lastWait       = 10 * time.Minute
)

// maxPages bounds one catch-up: at 500 rows a page, more than a server can receive
// in a day of steps at its own limits would be a peer that never says it is over.
const maxPages = 4096

// maxAnswers is how many messages that keep the link alive may wait. A peer asks one
// question at a time.
const maxAnswers = 256

// catchup is a replay of the peer's log that is under way.
type catchup struct {
	since int64 // unix seconds, of the page that was asked for
	pages int
	rows  []replayed // of the page, still to be judged
	more  bool       // there is another page
	next  int64      // where that starts

	recollecting bool // the rest of a second is being read
}

// catchUp starts a replay of what the peer received while this link was down.
func (s *session) catchUp() {
	since := time.Now().Add(-catchupWindow)
	if s.link.heard.After(since) {
		since = s.link.heard
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

// gap is the steps that were not taken, which the log of the peer still has.
type gap struct {
	since time.Time // when the oldest was received; zero for none
	due   time.Time // when they are asked for
	wait  time.Duration
}

// note adds a step that was received at a time. The first wait is that of a new gap.
func (g *gap) note(received, now time.Time, first time.Duration) {
	if g.since.IsZero() {
		g.wait = min(max(first, 2*g.wait), lastWait)
		g.due = now.Add(g.wait)
	}
	if g.since.IsZero() || received.Before(g.since) {
		g.since = received
	}
}

// isDue reports whether the steps are to be asked for.
func (g *gap) isDue(now time.Time) bool { return !g.since.IsZero() && !now.Before(g.due) }

// earliest returns the earliest of some times, leaving out zero ones.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// recover asks for the steps that met a limit, once all that got in are judged, and for those
// whose keys could not be had.
func (s *session) recover(now time.Time) {
	limited := s.limited.isDue(now) && s.Steps.Empty()
	if s.catchup != nil || !limited && !s.keyless.isDue(now) {
		return
	}
	since := earliest(s.limited.since, s.keyless.since)
	s.limited.since, s.keyless.since = time.Time{}, time.Time{}
	s.replayFrom(since.Add(-clockMargin))
}

// missedSince returns from when on the next connection asks for the log of the peer.
func (s *session) missedSince(now time.Time) time.Time {
	since := earliest(now, s.limited.since, s.keyless.since)
	if s.catchup != nil {
		since = earliest(since, time.Unix(s.catchup.since, 0))
	}
	return since.Add(-clockMargin)
}

// lackKey notes a step that could not be judged for want of a key.
func (s *session) lackKey(in *inbound) {
	now := time.Now()
	s.keyless.note(in.received(now), now, firstKeyWait)
}

// received returns when the peer received a step: as its log says where the step is from
// there, else now.
func (in *inbound) received(now time.Time) time.Time {
	if in.at.IsZero() || in.at.After(now) {
		return now
	}
	return in.at
}

// onCatchupEvents takes in the answer to our oldest question. Rows without a
// question are ignored: a peer can send steps live.
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
	if !s.linked { // what is written from then on is filed later
		s.cursor = max(s.cursor, c.next)
	}
	if c.more && c.next == c.since {
		c.next++ // a whole page of one second
		s.recollect(ctx, c.since)
	}
	s.turn(ctx)
}

// turn goes on with a replay that is under way, as far as there is room.
func (s *session) turn(ctx context.Context) {
	c := s.catchup
	if c == nil {
		return
	}
	for len(c.rows) > 0 {
		row := c.rows[0]
		if row.Kind == "act" && !s.taken.Has(row.EventID) {
			if s.Steps.Full() || !s.rate(time.Now()) {
				return // the row waits; a tick goes on
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
		return // the link is up when what was missed is on record
	}
	s.catchup = nil
	for _, g := range []*gap{&s.limited, &s.keyless} {
		if g.since.IsZero() {
			g.wait = 0 // nothing is missing
		}
	}
	if !s.linked {
		s.open()
	}
}

// waits reports whether a page has been asked for that is not there yet.
func (c *catchup) waits(asked []question) bool {
	for _, q := range asked {
		if q.page {
			return true
		}
	}
	return false
}

// onRow reads one row of a log. A step is judged as if it had come live; anything
// else is not for a gateway.
func (s *session) onRow(ctx context.Context, row replayed) {
	if row.Canonical == "" {
		return
	}
	if row.Origin != s.link.cfg.EndpointID && row.Origin != s.link.id && row.Origin != "" {
		return // of a server that this gateway does not know, and that the peer cannot speak for
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

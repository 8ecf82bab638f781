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

// recoverAfter is how long after a flood what it drowned is asked for: by then the
// steps that got in have been judged.
const recoverAfter = 5 * time.Second

// clockMargin is how far a server's clock may differ from ours without a step being
// missed.
const clockMargin = 2 * time.Minute

// firstKeyWait and lastKeyWait bound the wait before steps are asked for again whose
// keys could not be had: it doubles from one to the other, as servers do it.
//
// spec: freeq-s2s "Verdicts and parking"
const (
	firstKeyWait = 30 * time.Second
	lastKeyWait  = 10 * time.Minute
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

// recover asks for what a flood drowned, once that is over, and for what could not be
// judged for want of a key.
func (s *session) recover(now time.Time) {
	flood := !s.behind.IsZero() && now.Sub(s.behind) >= recoverAfter && s.Steps.Empty()
	keys := !s.keyless.IsZero() && !now.Before(s.keysDue)
	if s.catchup != nil || !flood && !keys {
		return
	}
	since := s.behind
	if since.IsZero() || !s.keyless.IsZero() && s.keyless.Before(since) {
		since = s.keyless
	}
	s.behind, s.keyless = time.Time{}, time.Time{}
	s.replayFrom(since.Add(-clockMargin))
}

// lackKey notes a step that could not be judged for want of a key.
func (s *session) lackKey(in *inbound) {
	now, minted := time.Now(), in.ev.ID.Time()
	if minted.After(now) || minted.Before(now.Add(-catchupWindow)) {
		minted = now // a clock that is not to be believed
	}
	if s.keyless.IsZero() {
		s.keyWait = min(max(firstKeyWait, 2*s.keyWait), lastKeyWait)
		s.keysDue = now.Add(s.keyWait)
	}
	if s.keyless.IsZero() || minted.Before(s.keyless) {
		s.keyless = minted
	}
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
		if s.Steps.Full() {
			return
		}
		row := c.rows[0]
		c.rows = c.rows[1:]
		s.onRow(ctx, row)
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
	if row.Kind != "act" || row.Canonical == "" {
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
	s.onStep(ctx, arriving{target: ev.Venue, tags: tags, replay: true, minted: row.Origin == s.link.id})
}

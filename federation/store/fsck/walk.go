package fsck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
)

type filed struct {
	handoff, signer, id, state string
	version                    federation.Version
	digest, prev               []byte
	stamp                      int64
	event                      handoffs.EventScan
}

const filedColumns = `e.handoff, coalesce(e.version, 0), coalesce((SELECT did FROM actor WHERE n = e.signer), ''), e.id, e.digest, e.prev, e.state, e.filed, ` + handoffs.EventColumns

func (f *filed) dest() []any {
	return append([]any{&f.handoff, &f.version, &f.signer, &f.id, &f.digest, &f.prev, &f.state, &f.stamp}, f.event.Dest()...)
}

func (f *filed) where() string {
	switch {
	case f.state == handoffs.TextState:
		return "message " + f.id
	case f.version == 0:
		return f.handoff + " receipt " + f.id
	}
	return fmt.Sprintf("%s step %d", f.handoff, f.version)
}

type standing struct {
	version               *federation.Version
	view, head            []byte
	state, offerer, clock *string
	offeree, assignee     string // "" for none
	over                  *bool
	since, moved          *int64
	decoded               federation.View
}

const standingColumns = `h.version, h.view, h.head, h.state, coalesce((SELECT did FROM actor WHERE n = h.offerer), ''),
	coalesce((SELECT did FROM actor WHERE n = h.offeree), ''), coalesce((SELECT did FROM actor WHERE n = h.assignee), ''), h.clock, h.over, h.since, h.moved`

func (s *standing) dest() []any {
	return []any{&s.version, &s.view, &s.head, &s.state, &s.offerer, &s.offeree, &s.assignee, &s.clock, &s.over, &s.since, &s.moved}
}

type walk struct {
	*examination
	handoff string
	row     standing
	version federation.Version
	link    []byte // prev of the next step
	view    federation.View
	lost    bool // a step could not be replayed, so the view is unknown
}

func (e *examination) checkLogs(ctx context.Context) error {
	found, err := e.conn.QueryContext(ctx, `SELECT `+filedColumns+`, `+standingColumns+`
		FROM event e LEFT JOIN handoff h ON h.id = e.handoff
		WHERE e.version IS NOT NULL ORDER BY e.handoff, e.version`)
	if err != nil {
		return err
	}
	defer found.Close()
	var w *walk
	for found.Next() {
		var f filed
		var s standing
		if err := found.Scan(append(f.dest(), s.dest()...)...); err != nil {
			return err
		}
		if w == nil || w.handoff != f.handoff {
			w.end()
			w = e.begin(f.handoff, s)
		}
		w.step(ctx, f)
	}
	w.end()
	return found.Err()
}

func (e *examination) begin(handoff string, row standing) *walk {
	e.report.Handoffs++
	w := &walk{examination: e, handoff: handoff, row: row, link: make([]byte, sha256.Size)}
	if row.version == nil {
		e.found(Orphan, handoff, "has steps and no row of its own")
		return w
	}
	var err error
	if w.row.decoded, err = handoffs.DecodeView(row.view); err != nil {
		e.found(DamagedView, handoff, "the view is not valid JSON")
		w.lost = true
	}
	return w
}

func (w *walk) step(ctx context.Context, f filed) {
	if f.version != w.version+1 {
		w.found(DamagedChain, f.where(), "follows step %d", w.version)
	}
	if !bytes.Equal(f.prev, w.link) {
		w.found(DamagedChain, f.where(), "does not link to the step before it")
	}
	ev, ok := w.checkEvent(ctx, f)
	document := ev.DocumentDigest()
	link := sha256.Sum256(slices.Concat(f.prev, document[:])) // from its own prev: one break is reported once
	w.version, w.link = f.version, link[:]
	if !ok || w.lost {
		w.lost = true
		return
	}
	entry := federation.Entry{Event: ev, Version: f.version, State: federation.State(f.state), Filed: engine.Moment(f.stamp)}
	after, err := w.rules.Replay(w.view, entry, w.row.decoded.Home)
	if err != nil {
		w.found(DamagedView, f.where(), "cannot follow the steps before it: %v", err)
		w.lost = true
		return
	}
	if w.view = after; after.State != entry.State {
		w.found(DamagedView, f.where(), "is recorded as leading to %q, but leads to %q", entry.State, after.State)
	}
}

// Compares an event with its columns and its signature, and reports whether it is readable.
func (e *examination) checkEvent(ctx context.Context, f filed) (federation.Event, bool) {
	e.report.Events++
	ev, err := f.event.Read()
	if err != nil {
		e.found(DamagedEvent, f.where(), "cannot be read: %v", err)
		return ev, false
	}
	digest := ev.Digest()
	if ev.Handoff.String() != f.handoff || ev.ID.String() != f.id || string(ev.From) != f.signer || !bytes.Equal(digest[:], f.digest) {
		e.found(DamagedEvent, f.where(), "its columns are those of another event")
	}
	if ev.Erased != nil {
		e.report.Erased++
		return ev, true
	}
	if f.state == handoffs.TextState {
		err = e.rules.VerifyText(*federation.TextOf(ev))
	} else {
		err = e.rules.Verify(ctx, ev)
	}
	if err != nil {
		e.found(DamagedSignature, f.where(), "%v", err)
	}
	return ev, true
}

func (w *walk) end() {
	if w == nil || w.row.version == nil {
		return
	}
	if *w.row.version != w.version || !bytes.Equal(w.row.head, w.link) {
		w.found(DamagedChain, w.handoff, "the newest step is not the recorded one: a step was changed or is missing")
	}
	if w.lost {
		return
	}
	if !sameView(w.view, w.row.decoded) {
		w.found(DamagedView, w.handoff, "the view is not what the log says")
	} else if !w.row.indexed() {
		w.found(DamagedView, w.handoff, "the columns beside the view are not what it says")
	}
}

// Older records have a precision of milliseconds.
func (s *standing) indexed() bool {
	v := s.decoded
	return *s.state == string(v.State) && *s.offerer == string(v.Offerer) &&
		s.offeree == string(v.Offeree) && s.assignee == string(v.Assignee) && *s.clock == string(v.Clock) && *s.over == v.Over &&
		sameMilli(*s.since, v.Since) && sameMilli(*s.moved, v.Moved)
}

func sameMilli(column int64, t time.Time) bool {
	const nanos = int64(time.Millisecond)
	return column/nanos == engine.Stamp(t)/nanos
}

// Times in different zones may be equal. The log does not show whether the home is another one, nor
// when it was erased.
func sameView(a, b federation.View) bool {
	if b.Remote {
		a.Remote, a.Numbered, a.Clock, a.Since = true, b.Numbered, "", time.Time{}
	}
	a.Erased = b.Erased // by the operator, not by a step
	for _, v := range []*federation.View{&a, &b} {
		for _, t := range []*time.Time{&v.Opened, &v.Moved, &v.Since, &v.Deadline, &v.BidDeadline} {
			*t = t.UTC()
		}
	}
	first, err := json.Marshal(a)
	second, errSecond := json.Marshal(b)
	return err == nil && errSecond == nil && bytes.Equal(first, second)
}

// The events outside any log are receipts and messages.
func (e *examination) checkReceipts(ctx context.Context) error {
	found, err := e.conn.QueryContext(ctx, `SELECT `+filedColumns+` FROM event e WHERE e.version IS NULL ORDER BY e.seq`)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var f filed
		if err := found.Scan(f.dest()...); err != nil {
			return err
		}
		e.checkEvent(ctx, f)
	}
	return found.Err()
}

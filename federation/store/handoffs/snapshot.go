package handoffs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// The meaning of the columns depends on the part.
type snapshotRow struct {
	part         int
	body, link   []byte // for a filed step, its document
	text         string // for a filed step, its state, a space, and the ID of its message
	a, b, c, d   int64
	sameID, same bool // a pruned step has the same ID, or the same bytes
}

func scanSnapshot(row engine.Scanner) (r snapshotRow, err error) {
	err = row.Scan(&r.part, &r.body, &r.text, &r.link, &r.a, &r.b, &r.c, &r.d)
	r.sameID, r.same = r.c == 1, r.d == 1
	return r, err
}

// Snapshot reads the state that a home needs to judge a step. It blocks on the disk. The error
// wraps a [*federation.UnavailableError] while the record cannot be read.
func (s *Logs) Snapshot(ctx context.Context, q federation.SnapshotQuery) (federation.Snapshot, error) {
	signer, err := s.db.Actor(ctx, q.Step.From)
	if err != nil {
		return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	asked, err := s.partsOf(ctx, q, signer)
	if err != nil {
		return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scanSnapshot, asked.query(), asked.args...)
	if err != nil {
		return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	snap := snapshot{query: q}
	for _, row := range found {
		if err := snap.add(row); err != nil {
			return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
		}
	}
	if signer == 0 { // its first step may have been filed since: the view has it, and the parts of the signer do not
		if signer, err = s.db.Actor(ctx, q.Step.From); err != nil {
			return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
		}
		if signer > 0 {
			return s.Snapshot(ctx, q)
		}
	}
	return snap.done(), nil
}

type snapshot struct {
	federation.Snapshot

	query        federation.SnapshotQuery
	used, pruned *federation.RefusalError // other bytes have the ID; the step was pruned
	pending      []int64
}

func (s *snapshot) add(row snapshotRow) (err error) {
	switch row.part {
	case viewPart:
		copy(s.Head[:], row.link)
		s.View, err = DecodeView(row.body)
	case filedPart:
		return s.addKnown(row)
	case prunedPart:
		return s.addPruned(row)
	case namedPart:
		var named *federation.Entry
		if named, err = row.entry(); s.Named == nil || named.Version < s.Named.Version {
			s.Named = named
		}
	case replacedPart:
		s.Replaced, err = DecodeView(row.body)
	case referencePart:
		if row.text != "" {
			err = s.Reference.UnmarshalText([]byte(row.text))
		}
	case openPart:
		s.Open = int(row.a)
	case inboxPart:
		if s.Inboxes == nil {
			s.Inboxes = map[federation.DID]federation.InboxUse{}
		}
		s.Inboxes[federation.DID(row.text)] = federation.InboxUse{Entries: int(row.a), Bytes: row.b, SenderEntries: int(row.c), SenderBytes: row.d}
	case pendingPart:
		return s.addPending(row)
	case chainPart:
		copy(s.Chain[:], row.link)
	case forkPart:
		s.Forked = true
	}
	return err
}

func (s *snapshot) addKnown(row snapshotRow) (err error) {
	if sameID, same := row.c&1 > 0, row.c&2 > 0; sameID && !same {
		s.used = &federation.RefusalError{Code: federation.EventIDInUse, Event: s.query.Step.ID}
		return nil
	}
	s.Filed, err = row.entry()
	return err
}

// The ID takes precedence.
func (s *snapshot) addPruned(row snapshotRow) error {
	if s.pruned != nil && !row.sameID {
		return nil
	}
	gone := tombstone{sameSigner: true, sameID: row.sameID, sameBytes: row.same}
	err := gone.handoff.UnmarshalText([]byte(row.text))
	s.pruned = gone.refusal(s.query.Step.ID)
	return err
}

func (s *snapshot) addPending(row snapshotRow) error {
	ev, err := DecodeEvent(row.body)
	at, _ := slices.BinarySearch(s.pending, row.a)
	s.pending = slices.Insert(s.pending, at, row.a)
	s.Pending = slices.Insert(s.Pending, at, federation.Pending{Event: ev, Home: federation.HomeID(row.text), Since: engine.Moment(row.b)})
	return err
}

// An ID in use takes precedence over the same bytes with another ID, and both over pruned steps.
// The chain link after the newest step is stored with the handoff.
func (s *snapshot) done() federation.Snapshot {
	switch {
	case s.used != nil:
		s.Filed, s.Used = nil, s.used
	case s.Filed == nil:
		s.Used = s.pruned
	}
	switch {
	case s.query.Version == 0 || s.query.Version > s.View.Version:
		s.Chain = [32]byte{}
	case s.query.Version == s.View.Version:
		s.Chain = s.Head
	}
	return s.Snapshot
}

func (r snapshotRow) entry() (*federation.Entry, error) {
	state, message, _ := strings.Cut(r.text, " ")
	scan := EventScan{document: r.link, Body: r.body, message: message, said: r.d}
	ev, err := scan.Read()
	version := federation.Version(r.a) //nolint:gosec // versions count from 1
	return &federation.Entry{Event: ev, Version: version, State: federation.State(state), Filed: engine.Moment(r.b)}, err
}

// Each row of the query belongs to one part.
const (
	viewPart = iota
	filedPart
	prunedPart
	pendingPart
	namedPart
	replacedPart
	referencePart
	openPart
	inboxPart
	chainPart
	forkPart
)

// The first column is the number of the part, and the first query gives the columns their types.
const (
	viewQuery  = `SELECT 0, CAST(view AS text), '', head, version, 0, 0, 0 FROM handoff WHERE id = ?`
	filedQuery = `SELECT 1, CAST(body AS text), state || ' ' || coalesce(message, ''), document, coalesce(version, 0), filed,
		CASE WHEN id = ? THEN 1 ELSE 0 END + CASE WHEN digest = ? THEN 2 ELSE 0 END, said
		FROM event WHERE signer = ? AND (id = ? OR digest = ? AND minted = 1)`
	prunedQuery = `SELECT 2, NULL, handoff, NULL, 0, 0, CASE WHEN id = ? THEN 1 ELSE 0 END, CASE WHEN digest = ? THEN 1 ELSE 0 END
		FROM tombstone WHERE id = ? AND signer = ? OR signer = ? AND digest = ?`
	pendingQuery = `SELECT 3, CAST(body AS text), home, NULL, seq, since, 0, 0 FROM pending WHERE handoff = ?`
	namedQuery   = `SELECT 4, CAST(body AS text), state || ' ' || coalesce(message, ''), document, version, filed, 0, said
		FROM event WHERE id = ? AND handoff || '' = ? AND version IS NOT NULL`
	replacedQuery  = `SELECT 5, CAST(view AS text), '', NULL, 0, 0, 0, 0 FROM handoff WHERE id = ?`
	referenceQuery = `SELECT 6, NULL, coalesce((SELECT handoff FROM event WHERE (id = ? OR message = ?) AND state <> 'said'
		ORDER BY id = ? DESC, seq LIMIT 1), ''), NULL, 0, 0, 0, 0`
	openQuery  = `SELECT 7, NULL, '', NULL, (SELECT count(*) FROM handoff WHERE offerer = ? AND over = 0), 0, 0, 0`
	inboxQuery = `SELECT 8, NULL, a.did, NULL, m.entries, m.size, coalesce(s.entries, 0), coalesce(s.size, 0)
		FROM mailbox m JOIN actor a ON a.n = m.did LEFT JOIN share s ON s.did = m.did AND s.sender = ? WHERE m.did = ?`
	inboxesQuery = `SELECT 8, NULL, a.did, NULL, m.entries, m.size, coalesce(s.entries, 0), coalesce(s.size, 0)
		FROM handoff h JOIN mailbox m ON m.did IN (h.offerer, h.offeree, h.assignee) JOIN actor a ON a.n = m.did
			LEFT JOIN share s ON s.did = m.did AND s.sender = ? WHERE h.id = ?`
	chainQuery = `SELECT 9, NULL, '', prev, 0, 0, 0, 0 FROM event WHERE handoff = ? AND version = ? + 1`
	forkQuery  = `SELECT 10, NULL, '', NULL, 0, 0, 0, 0 FROM fork WHERE handoff = ?`
)

// A step reads only the parts that it needs: on a server, an empty part is as expensive as one with
// a row.
type parts struct {
	queries []string
	args    []any
}

func (s *Logs) partsOf(ctx context.Context, q federation.SnapshotQuery, signer int64) (p parts, err error) {
	ev, digest := q.Step, q.Step.Digest()
	handoff, id := ev.Handoff.String(), ev.ID.String()
	p.add(viewQuery, handoff)
	p.add(filedQuery, id, digest[:], signer, id, digest[:])
	p.add(prunedQuery, id, digest[:], id, signer, signer, digest[:])
	p.add(pendingQuery, handoff)
	if !ev.Accepts.IsZero() {
		p.add(namedQuery, ev.Accepts.String(), handoff)
	}
	if !ev.Replaces.IsZero() {
		p.add(replacedQuery, ev.Replaces.String())
	}
	if named := ev.Answers(); named != "" {
		p.add(referenceQuery, named, named, named)
	}
	if q.OpenOf != "" {
		offerer, err := s.db.Actor(ctx, q.OpenOf)
		if err != nil {
			return p, err
		}
		p.add(openQuery, offerer)
	}
	switch {
	case q.Inboxes && ev.Verb == federation.Offer:
		offeree, err := s.db.Actor(ctx, ev.Offeree())
		if err != nil {
			return p, err
		}
		p.add(inboxQuery, signer, offeree)
	case q.Inboxes:
		p.add(inboxesQuery, signer, handoff)
	}
	if q.Version > 0 {
		p.add(chainQuery, handoff, q.Version)
		p.add(forkQuery, handoff)
	}
	return p, nil
}

func (p *parts) add(query string, args ...any) {
	p.queries, p.args = append(p.queries, query), append(p.args, args...)
}

// Both databases execute one statement on one consistent state, and a server in one round trip.
func (p *parts) query() string { return strings.Join(p.queries, "\nUNION ALL ") }

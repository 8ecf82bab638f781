package handoffs

import (
	"context"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/store/engine"
)

// The parts of a snapshot: each row of its query is one of them.
const (
	viewPart = iota
	filedPart
	prunedPart
	namedPart
	replacedPart
	referencePart
	openPart
	inboxPart
	pendingPart
	chainPart
)

// snapshotQuery reads all parts with one statement, because both databases answer one
// statement from one moment, and a server in one round trip. The parameters are the handoff,
// the signer, the id and the digest of the step, the ids that the step accepts, replaces and
// answers, the DID whose open handoffs are counted, the recipient of an offer, whether the
// inboxes of the parties are read, and the version of a ruling.
const snapshotQuery = `SELECT 0, CAST(h.view AS text), '', h.head, h.version, 0, 0, 0 FROM handoff h WHERE h.id = ?1
	UNION ALL SELECT 1, CAST(e.body AS text), e.state, NULL, coalesce(e.version, 0), e.filed,
		CASE WHEN e.id = ?3 THEN 1 ELSE 0 END, CASE WHEN e.digest = ?4 THEN 1 ELSE 0 END
		FROM event e WHERE e.signer = ?2 AND (e.id = ?3 OR e.digest = ?4)
	UNION ALL SELECT 2, NULL, p.handoff, NULL, 0, 0, CASE WHEN p.id = ?3 THEN 1 ELSE 0 END, CASE WHEN p.digest = ?4 THEN 1 ELSE 0 END
		FROM tombstone p WHERE p.id = ?3 AND p.signer || '' = ?2 OR p.signer = ?2 AND p.digest = ?4
	UNION ALL SELECT 3, CAST(n.body AS text), n.state, NULL, n.version, n.filed, 0, 0
		FROM event n WHERE n.id = ?5 AND n.handoff || '' = ?1 AND n.version IS NOT NULL
	UNION ALL SELECT 4, CAST(r.view AS text), '', NULL, 0, 0, 0, 0 FROM handoff r WHERE r.id = ?6
	UNION ALL SELECT 5, NULL, coalesce((SELECT a.handoff FROM event a WHERE (a.id = ?7 OR a.message = ?7) AND a.state <> 'said'
		ORDER BY a.id = ?7 DESC, a.seq LIMIT 1), ''), NULL, 0, 0, 0, 0 WHERE ?7 <> ''
	UNION ALL SELECT 6, NULL, '', NULL, (SELECT count(*) FROM handoff o WHERE o.offerer = ?8 AND o.over = 0), 0, 0, 0 WHERE ?8 <> ''
	UNION ALL SELECT 7, NULL, m.did, NULL, m.entries, m.size, coalesce(s.entries, 0), coalesce(s.size, 0)
		FROM (SELECT CAST(?9 AS text) AS did
			UNION ALL SELECT v.view ->> 'offerer' FROM handoff v WHERE v.id = ?1 AND ?10 = 1
			UNION ALL SELECT v.view ->> 'offeree' FROM handoff v WHERE v.id = ?1 AND ?10 = 1
			UNION ALL SELECT v.view ->> 'assignee' FROM handoff v WHERE v.id = ?1 AND ?10 = 1) i
		JOIN mailbox m ON m.did = i.did LEFT JOIN share s ON s.did = m.did AND s.sender = ?2
	UNION ALL SELECT 8, CAST(w.body AS text), w.home, NULL, w.seq, w.since, 0, 0 FROM pending w WHERE w.handoff = ?1
	UNION ALL SELECT 9, NULL, '', c.prev, 0, 0, 0, 0 FROM event c WHERE c.handoff = ?1 AND c.version = ?11 + 1`

// snapshotRow is a row of that query. The part gives the columns their meaning.
type snapshotRow struct {
	part         int
	body, link   []byte
	text         string
	a, b, c, d   int64
	sameID, same bool // of a step on file or pruned: id, and bytes
}

func scanSnapshot(row engine.Scanner) (r snapshotRow, err error) {
	err = row.Scan(&r.part, &r.body, &r.text, &r.link, &r.a, &r.b, &r.c, &r.d)
	r.sameID, r.same = r.c == 1, r.d == 1
	return r, err
}

// Snapshot reads what a home needs to judge a step, see [federation.Snapshot]. It blocks on
// the disk. The error wraps a [*federation.UnavailableError] while the record cannot be read.
func (s *Logs) Snapshot(ctx context.Context, q federation.SnapshotQuery) (federation.Snapshot, error) {
	ev, digest := q.Step, q.Step.Digest()
	offer := ev.Verb == federation.Offer
	to := federation.DID("")
	if q.Inboxes && offer {
		to = ev.To
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scanSnapshot, snapshotQuery,
		ev.Handoff.String(), ev.From, ev.ID.String(), digest[:], orEmpty(ev.Accepts), orEmpty(ev.Replaces), ev.Answers(),
		q.OpenOf, to, q.Inboxes && !offer, q.Version)
	if err != nil {
		return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	snap := snapshot{query: q}
	for _, row := range found {
		if err := snap.add(row); err != nil {
			return federation.Snapshot{}, fmt.Errorf("read snapshot: %w", err)
		}
	}
	return snap.done(), nil
}

// orEmpty returns the text of an id, "" for none.
func orEmpty(id federation.EventID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// snapshot is put together row by row.
type snapshot struct {
	federation.Snapshot

	query        federation.SnapshotQuery
	used, pruned *federation.RefusalError // by other bytes under the id; because it was pruned
	pending      []int64                  // the numbers of Pending
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
	}
	return err
}

// addKnown notes that the step, its id or its bytes are on file.
func (s *snapshot) addKnown(row snapshotRow) (err error) {
	if row.sameID && !row.same {
		s.used = &federation.RefusalError{Code: federation.EventIDInUse, Event: s.query.Step.ID}
		return nil
	}
	s.Filed, err = row.entry()
	return err
}

// addPruned notes that a step with the id or the bytes was pruned; the id goes first.
func (s *snapshot) addPruned(row snapshotRow) error {
	if s.pruned != nil && !row.sameID {
		return nil
	}
	gone := tombstone{sameSigner: true, sameID: row.sameID, sameBytes: row.same}
	err := gone.handoff.UnmarshalText([]byte(row.text))
	s.pruned = gone.refusal(s.query.Step.ID)
	return err
}

// addPending keeps the steps that wait in the order of their numbers.
func (s *snapshot) addPending(row snapshotRow) error {
	ev, err := DecodeEvent(row.body)
	at, _ := slices.BinarySearch(s.pending, row.a)
	s.pending = slices.Insert(s.pending, at, row.a)
	s.Pending = slices.Insert(s.Pending, at, federation.Pending{Event: ev, Home: federation.HomeID(row.text), Since: engine.Moment(row.b)})
	return err
}

// done returns the snapshot. An id in use goes before the same bytes under another id, and
// both before what was pruned. The link after the newest step is that of the handoff: no step
// follows that has it.
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
	ev, err := DecodeEvent(r.body)
	version := federation.Version(r.a) //nolint:gosec // versions count from 1
	return &federation.Entry{Event: ev, Version: version, State: federation.State(r.text), Filed: engine.Moment(r.b)}, err
}

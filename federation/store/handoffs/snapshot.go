package handoffs

import (
	"context"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/store/engine"
)

// snapshotRow is a row of the query of a snapshot. The part gives the columns their meaning.
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
	asked := partsOf(q)
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
	return snap.done(), nil
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
	case forkPart:
		s.Forked = true
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

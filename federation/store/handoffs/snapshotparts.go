package handoffs

import (
	"strings"

	"baton/federation"
)

// The parts of a snapshot: each row of its query is one of them.
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

// The queries of the parts. The first column is the number of the part, and the first query
// gives the columns their types.
const (
	viewQuery  = `SELECT 0, CAST(view AS text), '', head, version, 0, 0, 0 FROM handoff WHERE id = ?`
	filedQuery = `SELECT 1, CAST(body AS text), state, NULL, coalesce(version, 0), filed,
		CASE WHEN id = ? THEN 1 ELSE 0 END, CASE WHEN digest = ? THEN 1 ELSE 0 END
		FROM event WHERE signer = ? AND (id = ? OR digest = ?)`
	prunedQuery = `SELECT 2, NULL, handoff, NULL, 0, 0, CASE WHEN id = ? THEN 1 ELSE 0 END, CASE WHEN digest = ? THEN 1 ELSE 0 END
		FROM tombstone WHERE id = ? AND signer || '' = ? OR signer = ? AND digest = ?`
	pendingQuery = `SELECT 3, CAST(body AS text), home, NULL, seq, since, 0, 0 FROM pending WHERE handoff = ?`
	namedQuery   = `SELECT 4, CAST(body AS text), state, NULL, version, filed, 0, 0
		FROM event WHERE id = ? AND handoff || '' = ? AND version IS NOT NULL`
	replacedQuery  = `SELECT 5, CAST(view AS text), '', NULL, 0, 0, 0, 0 FROM handoff WHERE id = ?`
	referenceQuery = `SELECT 6, NULL, coalesce((SELECT handoff FROM event WHERE (id = ? OR message = ?) AND state <> 'said'
		ORDER BY id = ? DESC, seq LIMIT 1), ''), NULL, 0, 0, 0, 0`
	openQuery  = `SELECT 7, NULL, '', NULL, (SELECT count(*) FROM handoff WHERE offerer = ? AND over = 0), 0, 0, 0`
	inboxQuery = `SELECT 8, NULL, m.did, NULL, m.entries, m.size, coalesce(s.entries, 0), coalesce(s.size, 0)
		FROM mailbox m LEFT JOIN share s ON s.did = m.did AND s.sender = ? WHERE m.did = ?`
	inboxesQuery = `SELECT 8, NULL, m.did, NULL, m.entries, m.size, coalesce(s.entries, 0), coalesce(s.size, 0)
		FROM handoff h JOIN mailbox m ON m.did IN (h.view ->> 'offerer', h.view ->> 'offeree', h.view ->> 'assignee')
			LEFT JOIN share s ON s.did = m.did AND s.sender = ? WHERE h.id = ?`
	chainQuery = `SELECT 9, NULL, '', prev, 0, 0, 0, 0 FROM event WHERE handoff = ? AND version = ? + 1`
	forkQuery  = `SELECT 10, NULL, '', NULL, 0, 0, 0, 0 FROM fork WHERE handoff = ?`
)

// parts are the parts of one snapshot that its step needs. A server spends as much on a part that
// finds nothing as on one that finds a row.
type parts struct {
	queries []string
	args    []any
}

func partsOf(q federation.SnapshotQuery) parts {
	ev, digest := q.Step, q.Step.Digest()
	handoff, id := ev.Handoff.String(), ev.ID.String()
	var p parts
	p.add(viewQuery, handoff)
	p.add(filedQuery, id, digest[:], ev.From, id, digest[:])
	p.add(prunedQuery, id, digest[:], id, ev.From, ev.From, digest[:])
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
		p.add(openQuery, q.OpenOf)
	}
	switch {
	case q.Inboxes && ev.Verb == federation.Offer:
		p.add(inboxQuery, ev.From, ev.Offeree())
	case q.Inboxes:
		p.add(inboxesQuery, ev.From, handoff)
	}
	if q.Version > 0 {
		p.add(chainQuery, handoff, q.Version)
		p.add(forkQuery, handoff)
	}
	return p
}

func (p *parts) add(query string, args ...any) {
	p.queries, p.args = append(p.queries, query), append(p.args, args...)
}

// query is one statement, because both databases answer one statement from one moment, and a
// server in one round trip.
func (p *parts) query() string { return strings.Join(p.queries, "\nUNION ALL ") }

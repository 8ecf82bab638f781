package offline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"baton/federation/store/engine"
)

// orphans are queries for rows that belong to nothing. Each returns where and what.
func orphans() []string {
	return []string{
		`SELECT h.id, 'has no steps' FROM handoff h
			WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.handoff = h.id AND e.version IS NOT NULL)`,
		`SELECT e.handoff || ' receipt ' || e.id, 'is of a handoff that is not there' FROM event e
			WHERE e.version IS NULL AND e.state <> 'said' AND NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = e.handoff)`,
		`SELECT 'inbox of ' || i.did, 'holds event ' || i.event || ', which is not there' FROM inbox i
			WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = i.event)`,
		`SELECT 'outbox of ' || f.link, 'owes event ' || f.event || ', which is not there' FROM outbox f
			WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = f.event)`,
		`SELECT 'delivery to ' || s.link, 'is of event ' || s.event || ', which is not there' FROM settled s
			WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = s.event)`,
		`SELECT p.handoff, 'is listed as ' || p.state || ', and is not that' FROM party p
			WHERE NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = p.handoff AND h.state = p.state AND h.moved = p.moved)`,
		`SELECT h.id, 'is in no list' FROM handoff h
			WHERE NOT EXISTS (SELECT 1 FROM party p WHERE p.did = '' AND p.state = h.state AND p.moved = h.moved AND p.handoff = h.id)`,
		`SELECT 'inbox of ' || coalesce(m.did, w.did), 'is counted as ' || coalesce(m.entries, 0) || ' waiting, and has ' || coalesce(w.entries, 0)
			FROM (SELECT did, entries, size FROM mailbox WHERE entries <> 0 OR size <> 0) m
			FULL JOIN (SELECT did, count(*) AS entries, sum(waiting) AS size FROM inbox WHERE waiting IS NOT NULL GROUP BY did) w
			ON w.did = m.did WHERE m.entries IS DISTINCT FROM w.entries OR m.size IS DISTINCT FROM w.size`,
		`SELECT 'blob of ' || c.handoff, 'is not there, or not its handoff' FROM blob_claim c
			WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.capability = c.capability) OR NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = c.handoff)`,
		`SELECT 'webhook ' || p.webhook, 'owes ' || p.item || ', and is not there' FROM push p
			WHERE NOT EXISTS (SELECT 1 FROM webhook h WHERE h.id = p.webhook)`,
	}
}

// checkOrphans looks for rows that belong to nothing.
func (e *examination) checkOrphans(ctx context.Context) error {
	for _, query := range append(orphans(), e.orphans...) {
		if err := e.eachPair(ctx, query, func(where, detail string) { e.found(Orphan, where, "%s", detail) }); err != nil {
			return err
		}
	}
	return nil
}

// checkEvidence compares each original and each blob with the digest that it is kept
// under, and looks for originals that are missing.
func (e *examination) checkEvidence(ctx context.Context) error {
	err := e.eachPair(ctx, `SELECT digest, bytes FROM evidence UNION ALL SELECT digest, content FROM blob`, func(digest, original string) {
		if sum := sha256.Sum256([]byte(original)); !bytes.Equal(sum[:], []byte(digest)) {
			e.found(DamagedEvidence, "original "+hex.EncodeToString([]byte(digest)), "was changed")
		}
	})
	if err != nil {
		return err
	}
	return e.eachPair(ctx, missingOriginals(e.dialect), func(where, detail string) { e.found(DamagedEvidence, where, "%s", detail) })
}

// eachPair runs a query for two texts a row.
func (e *examination) eachPair(ctx context.Context, query string, tell func(first, second string)) error {
	found, err := e.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var first, second string
		if err := found.Scan(&first, &second); err != nil {
			return err
		}
		tell(first, second)
	}
	return found.Err()
}

// missingOriginals returns the query for events without their evidence: where, and what. A
// digest in a step is an array of 32 numbers.
func missingOriginals(d engine.Dialect) string {
	valid, digest := "json_valid(e.body) AND ", `unhex((SELECT group_concat(printf('%02x', n.value), '') FROM json_each(e.body, '$.evidence.digest') n))`
	if d == engine.InPostgres {
		valid, digest = "", `(SELECT decode(string_agg(lpad(to_hex(n.value::int), 2, '0'), '' ORDER BY n.key), 'hex')
			FROM json_each(e.body -> 'evidence' ->> 'digest') n)`
	}
	return `SELECT e.handoff || ' event ' || e.id, 'its original is missing' FROM event e
		WHERE ` + valid + `e.body -> 'evidence' ->> 'digest' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM evidence v WHERE v.digest = ` + digest + `)`
}

package registry

import (
	"context"

	"baton/federation/store"
	"baton/federation/store/engine"
)

// ofThem says of a message m that a purge of DIDs (?1) is of it: a message under the handle
// of a sender that carries a step of another one, such as the end of a handoff, is not that
// sender's.
const ofThem = `(m.event IS NULL OR EXISTS (SELECT 1 FROM event e WHERE e.id = m.event AND ` + store.StepOfThem + `))`

// The messages of the handles ?2 that a purge drops: held messages, and messages that their
// recipients have not fetched.
const (
	heldOfThem   = `SELECT m.n, '' FROM message m WHERE m.edge IS NOT NULL AND m.edge IN (SELECT value FROM json_each(?2)) AND ` + ofThem
	unreadOfThem = `SELECT m.n, m.recipient FROM agent a JOIN message m ON m.recipient = a.handle AND m.position > a.shown
		WHERE a.n > 0 AND m.deleted = 0 AND m.read IS NULL AND m.sender IN (SELECT value FROM json_each(?2)) AND ` + ofThem
)

// Purge implements [engine.Tables].
func (Tables) Purge(ctx context.Context, q engine.Tx, dids, handles string, dry bool) (purged int, err error) {
	for _, which := range []struct {
		query string
		drop  func(ctx context.Context, q engine.Tx, m addressed) error
	}{{heldOfThem, dropHeld}, {unreadOfThem, dropUnread}} {
		found, err := engine.Rows(ctx, q, scanAddressed, which.query, dids, handles)
		if err != nil {
			return 0, err
		}
		purged += len(found)
		for _, m := range found {
			if dry {
				break
			}
			if err := which.drop(ctx, q, m); err != nil {
				return 0, err
			}
		}
	}
	return purged, nil
}

// addressed is a message of a recipient.
type addressed struct {
	n         int64
	recipient string
}

func scanAddressed(row engine.Scanner) (m addressed, err error) {
	err = row.Scan(&m.n, &m.recipient)
	return m, err
}

func dropHeld(ctx context.Context, q engine.Tx, m addressed) error {
	return q.Put(ctx, `DELETE FROM message WHERE n = ?`, m.n)
}

// dropUnread hides a message that its recipient was not shown: its place in the inbox and
// in the thread stays.
func dropUnread(ctx context.Context, q engine.Tx, m addressed) error {
	if err := q.Put(ctx, `UPDATE message SET deleted = 1 WHERE n = ?`, m.n); err != nil {
		return err
	}
	return q.Put(ctx, `DELETE FROM push WHERE item = ? AND state = 'waiting' AND webhook IN (SELECT id FROM webhook WHERE participant = ? AND participant <> '')`, m.n, m.recipient)
}

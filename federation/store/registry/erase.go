package registry

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/store"
	"github.com/baton-gateway/baton/federation/store/deliveries"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/participants"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// The handoffs are ?1, the handles ?2, and more messages by row ?3.
const erasable = `m.deleted < 2 AND (m.handoff IN (SELECT value FROM json_each(?1))
	OR m.sender IN (SELECT value FROM json_each(?2)) OR m.recipient IN (SELECT value FROM json_each(?2))
	OR m.n IN (SELECT CAST(value AS bigint) FROM json_each(?3)))`

// Erasable implements [engine.Tables]. A recipient with a domain is an agent of a peer.
func (Tables) Erasable(ctx context.Context, q engine.Tx, handoffs, handles string) (messages int, peers []string, err error) {
	knocks, err := knocksOf(ctx, q, handles)
	if err != nil {
		return 0, nil, err
	}
	if err := q.Row(ctx, `SELECT count(*) FROM message m WHERE `+erasable, []any{handoffs, handles, knocks}, &messages); err != nil {
		return 0, nil, err
	}
	recipients, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT DISTINCT m.recipient FROM message m
		WHERE `+erasable+` AND m.recipient LIKE '%@%' AND m.outcome <> 'expired'`, handoffs, handles, knocks)
	for _, recipient := range recipients {
		_, domain, _ := strings.Cut(recipient, "@")
		peers = append(peers, domain)
	}
	return messages, peers, err
}

// The result is JSON. Each consent request quotes the first message of its requester.
func knocksOf(ctx context.Context, q engine.Tx, handles string) (string, error) {
	type knock struct {
		n        int64
		envelope []byte
	}
	scan := func(row engine.Scanner) (k knock, err error) { err = row.Scan(&k.n, &k.envelope); return k, err }
	var requesters []string
	if err := federation.DecodeJSON([]byte(handles), &requesters); err != nil {
		return "", err
	}
	asked, err := engine.Rows(ctx, q, scan, `SELECT m.n, m.envelope FROM message m WHERE m.sender = 'system' AND m.event IS NULL AND m.handoff IS NULL AND m.deleted < 2`)
	if err != nil {
		return "", err
	}
	found := []int64{}
	for _, k := range asked {
		var said struct {
			Payload struct {
				Data struct {
					Requester string `json:"requester"`
				} `json:"data"`
			} `json:"payload"`
		}
		if federation.DecodeJSON(k.envelope, &said) == nil && slices.Contains(requesters, said.Payload.Data.Requester) {
			found = append(found, k.n)
		}
	}
	rows, err := json.Marshal(found)
	return string(rows), err
}

// Erase implements [engine.Tables]. The row of a message stays, without its envelope and invisible
// to readers, because inboxes and threads continue their numbers from it. A held message has no
// number, and is deleted.
func (Tables) Erase(ctx context.Context, q engine.Tx, handoffs, handles string, now time.Time) error {
	knocks, err := knocksOf(ctx, q, handles)
	if err != nil {
		return err
	}
	of := []any{handoffs, handles, knocks}
	queued, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT DISTINCT r.n FROM message m
		JOIN document r ON r.message = m.id AND r.sender = m.sender WHERE `+erasable, of...)
	if err != nil {
		return err
	}
	for _, row := range queued {
		if err := deliveries.EndPeerDelivery(ctx, q, row); err != nil {
			return err
		}
	}
	called, err := engine.Rows(ctx, q, scanAddressed, `SELECT m.n, m.recipient FROM message m WHERE `+queue.HasParticipant(`m.recipient`)+` AND `+erasable, of...)
	if err != nil {
		return err
	}
	for _, m := range called {
		if err := queue.Drop(ctx, q, m.n+queue.FirstMessage); err != nil {
			return err
		}
	}
	if err := q.Put(ctx, `DELETE FROM message AS m WHERE m.position IS NULL AND `+erasable, of...); err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE message AS m SET deleted = 2, envelope = ?4, ended = coalesce(m.ended, ?5),
		outcome = CASE WHEN m.event IS NOT NULL AND m.ended IS NULL THEN 'expired' ELSE m.outcome END WHERE `+erasable,
		append(of, []byte{}, engine.Stamp(now))...)
}

// The purged DIDs are ?1. A message with a step of another DID, such as the end of a handoff, does
// not belong to the sender whose handle it has.
const ofThem = `(m.event IS NULL OR EXISTS (SELECT 1 FROM event e WHERE e.id = m.event AND ` + store.StepOfThem + `))`

// A purge deletes held messages, and messages not fetched by their recipients. The handles are ?2.
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

// The place of the message in the inbox and in the thread stays.
func dropUnread(ctx context.Context, q engine.Tx, m addressed) error {
	if err := q.Put(ctx, `UPDATE message SET deleted = 1 WHERE n = ?`, m.n); err != nil {
		return err
	}
	return queue.DropWaitingMessage(ctx, q, m.n)
}

// The inbox and the thread continue their numbers from the newest message.
const notNewest = `(m.position IS NULL OR
	m.position < (SELECT max(position) FROM message t WHERE t.recipient = m.recipient) AND
	m.seq < (SELECT max(seq) FROM message t WHERE t.low = m.low AND t.high = m.high))`

// The recipient got the message or has no inbox here, and no open handoff needs it.
const done = `m.position IS NOT NULL
	AND (m.deleted > 0 OR m.read IS NOT NULL OR
		NOT EXISTS (SELECT 1 FROM agent a WHERE a.handle = m.recipient AND a.shown < m.position))
	AND NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = m.handoff AND NOT h.over = 1)`

// PruneMessages examines up to limit messages that arrived at or before a given time, and deletes
// messages fetched by their recipient, or without an inbox for it. It keeps messages of open
// handoffs, and the newest message of each inbox and thread, from which the numbers continue. The
// cursor is the position to continue from: zero at the start, and at the end.
func (s *Registry) PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (int, federation.Cursor, error) {
	var n int64
	if after != "" {
		var err error
		if n, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			return 0, "", fmt.Errorf("prune messages: %w", federation.ErrUnknownCursor)
		}
	}
	type candidate struct {
		n, received int64
		done        bool
	}
	scan := func(row engine.Scanner) (c candidate, err error) {
		err = row.Scan(&c.n, &c.received, &c.done)
		return c, err
	}
	page, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT m.n, m.received, `+done+` AND `+notNewest+` FROM message m
		WHERE m.n > ? ORDER BY m.n`+engine.AtMost, n, max(limit, 0))
	if err != nil {
		return 0, "", fmt.Errorf("prune messages: %w", err)
	}
	var next federation.Cursor
	if young := slices.IndexFunc(page, func(c candidate) bool { return c.received > engine.Stamp(before) }); young >= 0 {
		page = page[:young] // messages are numbered in order of arrival
	} else if len(page) > 0 {
		next = federation.Cursor(strconv.FormatInt(page[len(page)-1].n, 10))
	}
	page = slices.DeleteFunc(page, func(c candidate) bool { return !c.done })
	if len(page) == 0 {
		return 0, next, nil
	}
	pruned, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (pruned int, err error) {
		for _, c := range page {
			gone, err := deleteMessages(ctx, q, `n = ? AND `+done+` AND `+notNewest, c.n)
			if err != nil {
				return 0, err
			}
			pruned += gone
		}
		return pruned, nil
	})
	if err != nil {
		return 0, "", fmt.Errorf("prune messages: %w", err)
	}
	return pruned, next, nil
}

// Content implements [engine.Tables]: the message for an agent.
//
//nolint:ireturn // the core does not know the type
func (Tables) Content(ctx context.Context, q engine.Tx, handle string, item int64) (content federation.Content, broken string, err error) {
	var m messageScan
	var position uint64
	err = q.Row(ctx, `SELECT m.position, `+messageColumns+` FROM message m WHERE m.n = ?`, []any{item}, append([]any{&position}, m.dest()...)...)
	if err != nil {
		return nil, "", err
	}
	message, err := m.read()
	if err != nil {
		return nil, err.Error(), nil //nolint:nilerr // one bad row stops no other; broken tells of it
	}
	message.Cursor = positions(handle).At(position)
	return message, "", nil
}

// Notifier implements [engine.Tables]: a registry notifies its own agents.
func (Tables) Notifier(ctx context.Context, q engine.Tx, did federation.DID) (link string, err error) {
	var registered bool
	err = q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM agent WHERE did = ?1 OR own_did = ?1)`, []any{did}, &registered)
	if registered {
		link = agents.Link
	}
	return link, err
}

// Forget implements [engine.Tables]. The newest message of an inbox or a thread stays, because the
// numbers continue from it.
func (Tables) Forget(ctx context.Context, q engine.Tx, handoff string) error {
	_, err := deleteMessages(ctx, q, `handoff = ? AND `+notNewest, handoff)
	return err
}

// The result is the number of deleted messages m. Their deliveries to webhooks are deleted too.
func deleteMessages(ctx context.Context, q engine.Tx, which string, args ...any) (int, error) {
	type deleted struct {
		addressed

		called bool
	}
	scan := func(row engine.Scanner) (d deleted, err error) { return d, row.Scan(&d.n, &d.recipient, &d.called) }
	gone, err := engine.Rows(ctx, q, scan, `DELETE FROM message AS m WHERE `+which+` RETURNING n, recipient, `+queue.HasParticipant(`recipient`), args...)
	for _, d := range gone {
		if err == nil && d.called {
			err = queue.Drop(ctx, q, d.n+queue.FirstMessage)
		}
	}
	return len(gone), err
}

// PeerDeliveryEnded implements [engine.Tables]: the step of a message to another registry was
// delivered there, or abandoned.
func (Tables) PeerDeliveryEnded(ctx context.Context, q engine.Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error {
	return q.Put(ctx, `UPDATE message SET ended = ?, outcome = ? WHERE id = ? AND sender = ? AND event IS NOT NULL`,
		engine.Stamp(now), string(how), r.Message, r.Sender)
}

// ReleaseHandle ends the keys, sessions, skills and webhooks of an agent, whose handle can then be
// registered again. Its DID, inbox and consent stay. It is idempotent, and returns
// [federation.ErrNotFound] for an unknown handle.
func (s *Registry) ReleaseHandle(ctx context.Context, handle string, now time.Time) error {
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error {
		a, err := oneAgent(ctx, q, `handle = ?1`, handle)
		if err != nil || !a.Released.IsZero() {
			return err
		}
		if err := q.Put(ctx, `UPDATE agent SET released = ?, own_did = did, recovery = NULL WHERE handle = ?`, engine.Stamp(now), handle); err != nil {
			return err
		}
		if err := q.Put(ctx, `DELETE FROM agent_key WHERE handle = ?`, handle); err != nil {
			return err
		}
		for _, skill := range skills(a.Capabilities) {
			err := q.Put(ctx, `DELETE FROM agent_skill WHERE skill = ? AND agent = (SELECT n FROM agent WHERE handle = ?)`, skill, handle)
			if err != nil {
				return err
			}
		}
		if err := deliveries.DropWebhooksOf(ctx, q, handle, a.DID); err != nil {
			return err
		}
		return participants.EndSessions(ctx, q, handle)
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", handle, err)
	}
	return nil
}

// RevokeAgent implements Keys of bridge/airc. For an agent without keys it stores the recovery key
// as a revoked key, so that no caller can register the handle again.
func (s *Registry) RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error {
	_, err := s.changeKeys(ctx, handle, by, now, func(ctx context.Context, q engine.Tx, a agents.Agent) error {
		if len(a.Keys) == 0 && a.Recovery != nil {
			a.Keys = []agents.Key{RecoveryKey(a.Recovery, now)}
			if err := addKey(ctx, q, handle, 0, a.Keys[0]); err != nil {
				return err
			}
		}
		for _, key := range a.Keys {
			if !key.Signs(now) {
				continue
			}
			err := q.Put(ctx, `UPDATE agent_key SET revoked = ?, reason = ? WHERE handle = ? AND id = ?`, engine.Stamp(now), reason, handle, key.ID)
			if err != nil {
				return err
			}
			if err := endUse(ctx, q, a, key, now, now); err != nil {
				return err
			}
		}
		if by == "" {
			if err := q.Put(ctx, `UPDATE agent SET recovery = NULL WHERE handle = ?`, handle); err != nil {
				return err
			}
		}
		return participants.EndSessions(ctx, q, handle)
	})
	return err
}

// RecoveryKey returns a recovery key in the form of an agent key.
func RecoveryKey(public ed25519.PublicKey, now time.Time) agents.Key {
	return agents.Key{ID: "recovery_" + federation.KeyID(public), Public: public, Created: now}
}

// AddAgentSession implements Agents of bridge/airc.
func (s *Registry) AddAgentSession(ctx context.Context, a agents.Agent, first federation.Session) error {
	err := s.change(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := addAgent(ctx, q, a); err != nil {
			return err
		}
		return participants.StartSession(ctx, q, first)
	})
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.Handle, err)
	}
	return nil
}

// StartAgentSession implements Sessions of bridge/airc.
func (s *Registry) StartAgentSession(ctx context.Context, begins federation.Session) (federation.Session, error) {
	begun, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Session, error) {
		a, err := oneAgent(ctx, q, `handle = ?1`, begins.Participant)
		if err != nil {
			return begins, err
		}
		begun, err := a.Begin(begins)
		if err != nil {
			return begun, err
		}
		return begun, participants.StartSession(ctx, q, begun)
	})
	if err != nil {
		return begun, fmt.Errorf("start session of %s: %w", begins.Participant, err)
	}
	return begun, nil
}

package deliveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

const webhookColumns = `id, did, participant, handoff, label, sealed, url, since, disabled, why, key_id, unbound, ends`

func scanWebhook(row engine.Scanner) (h federation.Webhook, err error) {
	var id, handoff string
	var since, disabled, ends int64
	if err := row.Scan(&id, &h.DID, &h.Participant, &handoff, &h.Label, &h.Sealed, &h.URL, &since, &disabled, &h.Why, &h.Key, &h.Unbound, &ends); err != nil {
		return h, err
	}
	h.Since, h.Disabled, h.Ends = engine.Moment(since), engine.Moment(disabled), engine.Moment(ends)
	return h, errors.Join(h.ID.UnmarshalText([]byte(id)), h.Handoff.UnmarshalText([]byte(handoff)))
}

// AddWebhook stores a webhook. Unless it follows a handoff, it queues the unread entries of its
// inbox. It returns [federation.ErrTooManyWebhooks] if the DID has reached the limit, and
// [federation.ErrTaken] if it already has a webhook with that address. Webhooks that follow a
// handoff are counted for each handoff, and may share an address under different labels.
func (s *Outboxes) AddWebhook(ctx context.Context, h federation.Webhook, most int) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := inboxes.HasSession(ctx, q, h.Session); err != nil {
			return err
		}
		var has, same int
		err := q.Row(ctx, `SELECT count(*), count(CASE WHEN url = ? AND label = ? THEN 1 END) FROM webhook WHERE did = ? AND handoff = ?`,
			[]any{h.URL, h.Label, h.DID, h.Handoff.String()}, &has, &same)
		switch {
		case err != nil:
			return err
		case same > 0:
			return federation.ErrTaken
		case has >= most:
			return federation.ErrTooManyWebhooks
		}
		err = q.Put(ctx, `INSERT INTO webhook (`+webhookColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			h.ID.String(), h.DID, h.Participant, h.Handoff.String(), h.Label, h.Sealed, h.URL, engine.Stamp(h.Since), engine.Stamp(h.Disabled), h.Why,
			h.Key, h.Unbound, engine.Stamp(h.Ends))
		if err == nil {
			_, err = engine.InternDestination(ctx, q, federation.ToWebhook, federation.WebhookName(h.ID))
		}
		if err != nil {
			return err
		}
		return s.pushWaiting(ctx, q, h)
	})
	if err != nil {
		return fmt.Errorf("add webhook: %w", err)
	}
	return nil
}

// For a webhook that follows a handoff, only refused deliveries are queued.
func (s *Outboxes) pushWaiting(ctx context.Context, q engine.Tx, h federation.Webhook) error {
	waiting, owner := `SELECT CAST(?2 AS bigint) AS destination, i.event AS item, e.handoff AS lane, e.signer AS sender, e.filed AS queued
		FROM inbox i JOIN event e ON e.seq = i.event WHERE i.did = (SELECT n FROM actor WHERE did = ?1) AND i.waiting IS NOT NULL`, string(h.DID)
	switch {
	case h.Participant != "":
		waiting, owner = s.db.Parts.Waiting, h.Participant
	case !h.Handoff.IsZero():
		waiting = ""
	}
	to, err := queue.Destination(ctx, q, h.ID)
	if err != nil {
		return err
	}
	return queue.PushWaiting(ctx, q, to, waiting, owner)
}

// Webhook returns [federation.ErrNotFound] for an unknown ID.
func (s *Outboxes) Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error) {
	return oneWebhook(ctx, s.db.Reads(), id)
}

func oneWebhook(ctx context.Context, q engine.Tx, id federation.WebhookID) (federation.Webhook, error) {
	found, err := engine.Rows(ctx, q, scanWebhook, `SELECT `+webhookColumns+` FROM webhook WHERE id = ?`, id.String())
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Webhook{}, fmt.Errorf("read webhook %s: %w", id, err)
	}
	return found[0], nil
}

// Webhooks returns up to limit webhooks of a DID after the given one, ordered by ID, except
// webhooks of one handoff. With "" it returns all webhooks of all DIDs.
func (s *Outboxes) Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error) {
	query, args := `SELECT `+webhookColumns+` FROM webhook WHERE id > ? ORDER BY id`+engine.AtMost, []any{after.String(), max(limit, 0)}
	if of != "" {
		query, args = `SELECT `+webhookColumns+` FROM webhook WHERE did = ? AND handoff = '' AND id > ? ORDER BY id`+engine.AtMost, []any{of, after.String(), max(limit, 0)}
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scanWebhook, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read hooks: %w", err)
	}
	return found, nil
}

// Followers returns the webhooks of a DID that follow a handoff, ordered by ID.
func (s *Outboxes) Followers(ctx context.Context, of federation.DID, id federation.HandoffID) ([]federation.Webhook, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanWebhook,
		`SELECT `+webhookColumns+` FROM webhook WHERE handoff = ? AND handoff <> '' AND did = ? ORDER BY id`, id.String(), of)
	if err != nil {
		return nil, fmt.Errorf("read followers of %s: %w", id, err)
	}
	return found, nil
}

// DropWebhook deletes a webhook with all its rows. It returns [federation.ErrNotFound] for an
// unknown ID.
func DropWebhook(ctx context.Context, q engine.Tx, id federation.WebhookID) error {
	n, err := q.Exec(ctx, `DELETE FROM webhook WHERE id = ?`, id.String())
	if err == nil && n == 0 {
		return federation.ErrNotFound
	}
	if err != nil {
		return err
	}
	to, err := queue.Destination(ctx, q, id)
	if err != nil {
		return err
	}
	return queue.DropTo(ctx, q, to)
}

// DropWebhooksOf deletes the webhooks of a participant and of its DID.
func DropWebhooksOf(ctx context.Context, q engine.Tx, participant string, did federation.DID) error {
	found, err := engine.Rows(ctx, q, scanWebhook, `SELECT `+webhookColumns+` FROM webhook WHERE participant = ?1 AND participant <> ''
		UNION SELECT `+webhookColumns+` FROM webhook WHERE did = ?2`, participant, did)
	for _, h := range found {
		if err == nil {
			err = DropWebhook(ctx, q, h.ID)
		}
	}
	return err
}

// DropFollowers deletes the webhooks that follow a handoff.
func DropFollowers(ctx context.Context, q engine.Tx, handoff string) error {
	found, err := engine.Rows(ctx, q, scanWebhook, `SELECT `+webhookColumns+` FROM webhook WHERE handoff = ? AND handoff <> ''`, handoff)
	for _, h := range found {
		if err == nil {
			err = DropWebhook(ctx, q, h.ID)
		}
	}
	return err
}

// RemoveWebhook deletes a webhook with its deliveries. It returns [federation.ErrNotFound] for an
// unknown ID.
func (s *Outboxes) RemoveWebhook(ctx context.Context, id federation.WebhookID) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return DropWebhook(ctx, q, id) })
	if err != nil {
		return fmt.Errorf("remove webhook %s: %w", id, err)
	}
	return nil
}

// DisableWebhook stops the deliveries to a webhook, and files a [federation.NoticeDisabled]. Its
// pending deliveries are refused; their entries stay in the inbox. A second call changes nothing.
func (s *Outboxes) DisableWebhook(ctx context.Context, id federation.WebhookID, why string, now time.Time) error {
	return s.changeWebhook(ctx, id, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `UPDATE webhook SET disabled = ?, why = ?, ends = 0 WHERE id = ? AND disabled = 0`, engine.Stamp(now), why, id.String())
		if err != nil || n == 0 {
			return err
		}
		to, err := queue.Destination(ctx, q, id)
		if err == nil {
			err = queue.Refuse(ctx, q, to, why, now)
		}
		if err != nil {
			return err
		}
		return s.noteDisabled(ctx, q, id, now)
	})
}

// EnableWebhook resumes the deliveries to a disabled webhook, with the Key, Unbound and Ends of as.
// It queues the unread entries of the inbox, with new counts; dead deliveries stay dead. It does
// not change an enabled webhook. It returns [federation.ErrNotFound] for an unknown ID.
func (s *Outboxes) EnableWebhook(ctx context.Context, as federation.Webhook) error {
	return s.changeWebhook(ctx, as.ID, func(ctx context.Context, q engine.Tx) error {
		if err := inboxes.HasSession(ctx, q, as.Session); err != nil {
			return err
		}
		h, err := oneWebhook(ctx, q, as.ID)
		if err != nil || h.Disabled.IsZero() {
			return err
		}
		err = q.Put(ctx, `UPDATE webhook SET disabled = 0, why = '', key_id = ?, unbound = ?, ends = ? WHERE id = ?`,
			as.Key, as.Unbound, engine.Stamp(as.Ends), as.ID.String())
		if err != nil {
			return err
		}
		return s.pushWaiting(ctx, q, h)
	})
}

func wrapWebhooks(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (s *Outboxes) changeWebhook(ctx context.Context, id federation.WebhookID, change func(context.Context, engine.Tx) error) error {
	if err := s.db.Write(ctx, change); err != nil {
		return fmt.Errorf("change webhook %s: %w", id, err)
	}
	return nil
}

// WebhookBacklog counts the pending deliveries of a webhook.
func (s *Outboxes) WebhookBacklog(ctx context.Context, id federation.WebhookID) (b federation.WebhookBacklog, err error) {
	b.Backlog, err = s.backlogOf(ctx, federation.WebhookName(id))
	if err == nil {
		err = s.db.Reads().Row(ctx, `SELECT count(*) FROM delivery WHERE destination = `+ofName+` AND state = 'dead'`, []any{federation.WebhookName(id)}, &b.Dead)
	}
	return b, wrapWebhooks("count pending deliveries of webhook "+id.String(), err)
}

// WebhooksBacklog counts the pending deliveries of all webhooks.
func (s *Outboxes) WebhooksBacklog(ctx context.Context) (b federation.Backlog, err error) {
	var oldest int64
	err = s.db.Reads().Row(ctx, `SELECT count(*), coalesce(min(f.queued), 0) FROM destination d JOIN delivery f ON f.destination = d.n WHERE d.kind = 'webhook' AND f.state = 'waiting'`, nil, &b.Rows, &oldest)
	b.Oldest = engine.Moment(oldest)
	return b, wrapWebhooks("count pending deliveries of webhooks", err)
}

// Applies even if the webhook was disabled before.
func (s *Outboxes) noteDisabled(ctx context.Context, q engine.Tx, id federation.WebhookID, now time.Time) error {
	h, err := oneWebhook(ctx, q, id)
	if err != nil {
		return err
	}
	n := federation.Notice{Kind: federation.NoticeDisabled, Webhook: h, Why: h.Why, At: now}
	link := ""
	if s.db.Tables != nil {
		if link, err = s.db.Tables.Notifier(ctx, q, h.DID); err != nil {
			return err
		}
	}
	if _, err := inboxes.DropNotices(ctx, q, `signer = ? AND event = ? AND kind = ?`, h.DID, id.String(), string(n.Kind)); err != nil {
		return err
	}
	return inboxes.NoteOn(ctx, q, cmp.Or(link, federation.InboxLink), n)
}

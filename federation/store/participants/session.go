package participants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/queue"
)

const sessionColumns = `id, participant, generation, expires, ends, began, key_id, bound, created, used, address, client, client_name`

func scanSession(row engine.Scanner) (s federation.Session, err error) {
	var expires, ends, created, used int64
	err = row.Scan(&s.ID, &s.Participant, &s.Generation, &expires, &ends, &s.Began, &s.Key, &s.Bound, &created, &used, &s.Address, &s.Client, &s.ClientName)
	s.Expires, s.Ends, s.Created, s.Used = engine.Moment(expires), engine.Moment(ends), engine.Moment(created), engine.Moment(used)
	return s, err
}

// StartSession begins a session, which ends with its key. It returns [federation.ErrSessionEnded]
// if the participant is a DID whose key was revoked. Above [federation.MaxSessions], the least
// recently used session of the participant ends.
func (s *Participants) StartSession(ctx context.Context, session federation.Session) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return StartSession(ctx, q, session) })
	if err != nil {
		return fmt.Errorf("start session of %s: %w", session.Participant, err)
	}
	return nil
}

// StartSession begins a session. It also deletes the expired sessions of all participants.
func StartSession(ctx context.Context, q engine.Tx, s federation.Session) error {
	if err := sweepSessions(ctx, q, s.Created); err != nil {
		return err
	}
	var revoked int64
	err := q.Row(ctx, `SELECT coalesce(min(since), 0) FROM key_window WHERE did = ? AND key_id = ? AND origin = ?`,
		[]any{s.Participant, s.Key, federation.RevokedKey}, &revoked)
	if err != nil {
		return err
	}
	if end := engine.Moment(revoked); revoked > 0 && (s.Ends.IsZero() || end.Before(s.Ends)) {
		s.Ends = end
	}
	if !s.Ends.IsZero() && !s.Created.Before(s.Ends) {
		return federation.ErrSessionEnded
	}
	if err := noteLogin(ctx, q, s); err != nil {
		return err
	}
	err = q.Put(ctx, `INSERT INTO session (`+sessionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.ID, s.Participant, s.Generation, engine.Stamp(s.Expires), engine.Stamp(s.Ends), string(s.Began), s.Key, s.Bound,
		engine.Stamp(s.Created), engine.Stamp(s.Used), s.Address, s.Client, s.ClientName)
	if err != nil {
		return err
	}
	_, err = endSessions(ctx, q, `id IN (SELECT id FROM session WHERE participant = ?1 ORDER BY used DESC, id LIMIT 0 + ?2 OFFSET 0 + ?3)`,
		s.Participant, federation.MaxSessions, federation.MaxSessions)
	return err
}

// RedeemCode begins the session of an authorization code at its first use. A later use ends the
// session and returns [federation.ErrTokenUsed]. It also returns the errors of StartSession.
func (s *Participants) RedeemCode(ctx context.Context, session federation.Session, use federation.Answer) error {
	first, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (bool, error) {
		n, err := q.Exec(ctx, `INSERT INTO answer (`+answerColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (did, key) DO NOTHING`,
			use.DID, use.Key, use.Digest[:], use.Event.String(), use.Status, use.Body, engine.Stamp(use.At))
		if err != nil {
			return false, err
		}
		if n == 0 {
			_, err := endSessions(ctx, q, `id = ?1`, session.ID)
			return false, err // an error of the transaction would undo the end of the session
		}
		return true, StartSession(ctx, q, session)
	})
	if err == nil && !first {
		err = federation.ErrTokenUsed
	}
	if err != nil {
		return fmt.Errorf("redeem code of %s: %w", session.Participant, err)
	}
	return nil
}

// RedeemLogin begins the session of a pairing code or of an approved device, and deletes the code. It
// returns [federation.ErrNotFound] if the code was used meanwhile, and the errors of StartSession.
func (s *Participants) RedeemLogin(ctx context.Context, digest [32]byte, session federation.Session) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `DELETE FROM login_code WHERE digest = ? AND did <> '' AND expires > ?`, digest[:], engine.Stamp(session.Created))
		switch {
		case err != nil:
			return err
		case n == 0:
			return federation.ErrNotFound
		}
		return StartSession(ctx, q, session)
	})
	if err != nil {
		return fmt.Errorf("redeem login of %s: %w", session.Participant, err)
	}
	return nil
}

const loginLife = 365 * 24 * time.Hour

func noteLogin(ctx context.Context, q engine.Tx, s federation.Session) error {
	if _, err := federation.ParseDID(s.Participant); err != nil {
		return nil //nolint:nilerr // the handle of an agent, which has its own row
	}
	if err := q.Put(ctx, `DELETE FROM login WHERE at < ?`, engine.Stamp(s.Created.Add(-loginLife))); err != nil {
		return err
	}
	return q.Put(ctx, `INSERT INTO login (did, at) VALUES (?, ?) ON CONFLICT (did) DO UPDATE SET at = excluded.at`, s.Participant, engine.Stamp(s.Created))
}

const live = `expires > ?1 AND (ends = 0 OR ends > ?1)`

// A session with an ended key stays until it expires, so that its client gets the reason.
func sweepSessions(ctx context.Context, q engine.Tx, now time.Time) error {
	_, err := endSessions(ctx, q, `expires <= ?1`, engine.Stamp(now))
	return err
}

func endSessions(ctx context.Context, q engine.Tx, which string, args ...any) (int, error) {
	ended, err := engine.Rows(ctx, q, engine.ScanOne[string], `DELETE FROM session WHERE `+which+` RETURNING id`, args...)
	if err != nil || len(ended) == 0 {
		return 0, err
	}
	ids, err := json.Marshal(ended)
	if err != nil {
		return 0, err
	}
	return len(ended), q.Put(ctx, `UPDATE inbox SET device = NULL, until = 0, session = NULL WHERE session IN (SELECT value FROM json_each(?1))`, string(ids))
}

// HasSession reports whether a participant has a live session.
func (s *Participants) HasSession(ctx context.Context, participant string, now time.Time) (has bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM session WHERE participant = ?2 AND `+live+`)`,
		[]any{engine.Stamp(now), participant}, &has)
	if err != nil {
		return false, fmt.Errorf("look for a session of %s: %w", participant, err)
	}
	return has, nil
}

// Seen reports whether a DID logged in to an API within a year, read its inbox or declared its
// capabilities.
func (s *Participants) Seen(ctx context.Context, did federation.DID) (seen bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM login WHERE did = ?1)
		OR EXISTS (SELECT 1 FROM device WHERE did = ?1) OR EXISTS (SELECT 1 FROM declaration WHERE did = ?1)`, []any{did}, &seen)
	if err != nil {
		return false, fmt.Errorf("look for logins of %s: %w", did, err)
	}
	return seen, nil
}

// Session returns a session, [federation.ErrSessionEnded] for one whose key has ended, or
// [federation.ErrNotFound] for any other ended one.
func (s *Participants) Session(ctx context.Context, id string, now time.Time) (federation.Session, error) {
	found, err := oneSession(ctx, s.db.Reads(), `SELECT `+sessionColumns+` FROM session WHERE id = ? AND expires > ?`, id, engine.Stamp(now))
	if err == nil && !found.Live(now) {
		found, err = federation.Session{}, federation.ErrSessionEnded
	}
	if err != nil {
		return federation.Session{}, fmt.Errorf("read session: %w", err)
	}
	return found, nil
}

// Sessions returns the live sessions of the given participants, newest first.
func (s *Participants) Sessions(ctx context.Context, participants []string, now time.Time) ([]federation.Session, error) {
	of, err := json.Marshal(participants)
	if err != nil {
		return nil, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scanSession, `SELECT `+sessionColumns+` FROM session
		WHERE participant IN (SELECT value FROM json_each(?2)) AND `+live+` ORDER BY created DESC, id`, engine.Stamp(now), string(of))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return found, nil
}

// AllSessions returns up to limit live sessions after an ID, ordered by ID; "" is the start.
func (s *Participants) AllSessions(ctx context.Context, after string, limit int, now time.Time) ([]federation.Session, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanSession, `SELECT `+sessionColumns+` FROM session
		WHERE id > ?2 AND `+live+` ORDER BY id LIMIT 0 + ?3`, engine.Stamp(now), after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return found, nil
}

// AdvanceSession uses a refresh token: it moves the session from that generation to the next and
// extends it to expires. At another generation, it ends the session and returns
// [federation.ErrTokenUsed]. It returns [federation.ErrNotFound] for an ended session.
func (s *Participants) AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error) {
	session, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Session, error) {
		if err := sweepSessions(ctx, q, now); err != nil {
			return federation.Session{}, err
		}
		next, err := oneSession(ctx, q, `UPDATE session SET generation = generation + 1, expires = ?1, used = ?2 WHERE id = ?3 AND generation = ?4
			AND (ends = 0 OR ends > ?2) RETURNING `+sessionColumns,
			engine.Stamp(expires), engine.Stamp(now), id, generation)
		if !errors.Is(err, federation.ErrNotFound) {
			return next, err
		}
		ended, err := endSessions(ctx, q, `id = ?1 AND (ends = 0 OR ends > ?2)`, id, engine.Stamp(now))
		if err == nil && ended == 0 {
			err = federation.ErrNotFound
		}
		return federation.Session{}, err // an error of the transaction would undo the end of the session
	})
	if err == nil && session.ID == "" {
		err = federation.ErrTokenUsed
	}
	if err != nil {
		return federation.Session{}, fmt.Errorf("advance session: %w", err)
	}
	return session, nil
}

func oneSession(ctx context.Context, q engine.Tx, query string, args ...any) (federation.Session, error) {
	found, err := engine.Rows(ctx, q, scanSession, query, args...)
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Session{}, err
	}
	return found[0], nil
}

// ProlongSession records a new token of a session and extends the session to expires. It returns
// [federation.ErrNotFound] for an ended session.
func (s *Participants) ProlongSession(ctx context.Context, id string, now, expires time.Time) (federation.Session, error) {
	session, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Session, error) {
		return oneSession(ctx, q, `UPDATE session SET expires = ?2, used = ?1 WHERE id = ?3 AND `+live+` RETURNING `+sessionColumns,
			engine.Stamp(now), engine.Stamp(expires), id)
	})
	if err != nil {
		return federation.Session{}, fmt.Errorf("prolong session: %w", err)
	}
	return session, nil
}

// BindSession records that the participant proved its DID to this gateway in a session.
func (s *Participants) BindSession(ctx context.Context, id string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := q.Put(ctx, `UPDATE session SET bound = ? WHERE id = ?`, true, id); err != nil {
			return err
		}
		return q.Put(ctx, `UPDATE webhook SET unbound = '' WHERE unbound = ? AND unbound <> ''`, id)
	})
	if err != nil {
		return fmt.Errorf("bind session: %w", err)
	}
	return nil
}

// EndSession ends one session of the given participants. It returns [federation.ErrNotFound] if
// none of them has it.
func (s *Participants) EndSession(ctx context.Context, participants []string, id string, now time.Time) error {
	of, err := json.Marshal(participants)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := sweepSessions(ctx, q, now); err != nil {
			return err
		}
		ended, err := endSessions(ctx, q, `id = ?2 AND participant IN (SELECT value FROM json_each(?3)) AND `+live, engine.Stamp(now), id, string(of))
		if err == nil && ended == 0 {
			err = federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// EndSessions ends the sessions of the given participants except one ("" for none), and returns
// their number. It also deletes the login codes of the participants. With unbound, it ends only
// unbound sessions and codes, and disables the webhooks created in these sessions.
func (s *Participants) EndSessions(ctx context.Context, participants []string, except string, unbound bool, now time.Time) (int, error) {
	of, err := json.Marshal(participants)
	if err != nil {
		return 0, err
	}
	ended, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		if err := sweepSessions(ctx, q, now); err != nil {
			return 0, err
		}
		if err := q.Put(ctx, `DELETE FROM login_code WHERE did IN (SELECT value FROM json_each(?1)) AND (bound = 0 OR ?2 = 0)`, string(of), unbound); err != nil {
			return 0, err
		}
		if !unbound {
			return endSessions(ctx, q, `participant IN (SELECT value FROM json_each(?2)) AND id <> ?3 AND `+live, engine.Stamp(now), string(of), except)
		}
		if err := queue.EndWebhooks(ctx, q, now, `unbound <> '' AND unbound <> ?3 AND `+ofThem, string(of), except); err != nil {
			return 0, err
		}
		return endSessions(ctx, q, `participant IN (SELECT value FROM json_each(?2)) AND id <> ?3 AND bound = ?4 AND `+live, engine.Stamp(now), string(of), except, false)
	})
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	return ended, nil
}

// The participants are ?2, a JSON array of names and DIDs.
const ofThem = `(did IN (SELECT value FROM json_each(?2)) OR participant <> '' AND participant IN (SELECT value FROM json_each(?2)))`

// EndSessions ends all sessions of a participant, as the end of their keys does.
func EndSessions(ctx context.Context, q engine.Tx, participant string) error {
	return endForKey(ctx, q, `participant = ?1`, participant)
}

// This time is in the past for every replica.
const endedByKey = `1`

func endForKey(ctx context.Context, q engine.Tx, which string, args ...any) error {
	err := q.Put(ctx, `UPDATE inbox SET device = NULL, until = 0, session = NULL WHERE session IN (SELECT id FROM session WHERE `+which+`)`, args...)
	if err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE session SET ends = `+endedByKey+` WHERE `+which, args...)
}

// DropSession ends one session.
func DropSession(ctx context.Context, q engine.Tx, id string) error {
	_, err := endSessions(ctx, q, `id = ?1`, id)
	return err
}

// EndKey ends everything that participants, given as names and DIDs, began with a key. If end has
// passed, their sessions and webhooks end at once, and so does everything begun with an unknown
// key. Otherwise sessions, leases and webhooks end at that time.
func EndKey(ctx context.Context, q engine.Tx, participants []string, key string, end, now time.Time) error {
	of, err := json.Marshal(participants)
	if err != nil {
		return err
	}
	if end.After(now) {
		const began = `participant IN (SELECT value FROM json_each(?1)) AND (key_id = ?2 OR key_id = '' AND began = 'refresh')`
		err = q.Put(ctx, `UPDATE session SET ends = ?3 WHERE (ends = 0 OR ends > ?3) AND `+began, string(of), key, engine.Stamp(end))
		if err != nil {
			return err
		}
		err = q.Put(ctx, `UPDATE inbox SET until = ?3 WHERE until > ?3 AND session IN (SELECT id FROM session WHERE `+began+`)`, string(of), key, engine.Stamp(end))
		if err != nil {
			return err
		}
		return queue.EndWebhooks(ctx, q, end, `key_id = ?3 AND `+ofThem, string(of), key)
	}
	if err := endForKey(ctx, q, `participant IN (SELECT value FROM json_each(?1)) AND key_id IN (?2, '')`, string(of), key); err != nil {
		return err
	}
	if err := q.Put(ctx, `DELETE FROM login_code WHERE did IN (SELECT value FROM json_each(?1)) AND key_id IN (?2, '')`, string(of), key); err != nil {
		return err
	}
	return queue.EndWebhooks(ctx, q, now, `key_id IN (?3, '') AND `+ofThem, string(of), key)
}

// EndUnlisted ends the sessions and logins begun with keys that the document of a DID does not list
// (see [EndKey]), and returns the IDs of these keys.
func (s *Participants) EndUnlisted(ctx context.Context, did federation.DID, listed []string, now time.Time) ([]string, error) {
	keys, err := json.Marshal(append([]string{}, listed...)) // no keys must be [], not null
	if err != nil {
		return nil, err
	}
	const unlisted = ` AND key_id <> '' AND key_id NOT IN (SELECT value FROM json_each(?3))`
	gone, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT key_id FROM session WHERE participant = ?2`+unlisted+` AND `+live+`
		UNION SELECT key_id FROM webhook WHERE did = ?2 AND participant = ''`+unlisted+` AND disabled = 0 AND (ends = 0 OR ends > ?1)`,
		engine.Stamp(now), did, string(keys))
	if err == nil && len(gone) > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			for _, key := range gone {
				if err := EndKey(ctx, q, []string{string(did)}, key, now, now); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("end sessions of %s: %w", did, err)
	}
	return gone, nil
}

// RestoreKey cancels a scheduled end of a key: see [EndKey].
func RestoreKey(ctx context.Context, q engine.Tx, participants []string, end time.Time) error {
	of, err := json.Marshal(participants)
	if err != nil {
		return err
	}
	err = q.Put(ctx, `UPDATE session SET ends = 0 WHERE ends = ?1 AND participant IN (SELECT value FROM json_each(?2))`, engine.Stamp(end), string(of))
	if err != nil {
		return err
	}
	return q.Put(ctx, `UPDATE webhook SET ends = 0 WHERE ends = ?1 AND `+ofThem, engine.Stamp(end), string(of))
}

package participants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

const loginCodeColumns = `digest, kind, did, key_id, bound, address, client, client_name, denied, expires`

func scanLoginCode(row engine.Scanner) (c federation.LoginCode, err error) {
	var digest []byte
	var expires int64
	err = row.Scan(&digest, &c.Kind, &c.DID, &c.Key, &c.Bound, &c.Address, &c.Client, &c.ClientName, &c.Denied, &expires)
	copy(c.Digest[:], digest)
	c.Expires = engine.Moment(expires)
	return c, err
}

// AddLoginCode stores a new code and deletes the expired ones. Above [federation.MaxPairingCodes]
// pairing codes, the oldest one of the DID ends. It returns [federation.ErrTooManyCodes] if too
// many devices wait.
func (s *Participants) AddLoginCode(ctx context.Context, c federation.LoginCode, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := q.Put(ctx, `DELETE FROM login_code WHERE expires <= ?`, engine.Stamp(now)); err != nil {
			return err
		}
		if c.Kind == federation.DeviceCode {
			var all, ofAddress int
			err := q.Row(ctx, `SELECT count(*), (SELECT count(*) FROM login_code WHERE kind = ?1 AND address = ?2) FROM login_code WHERE kind = ?1`,
				[]any{string(c.Kind), c.Address}, &all, &ofAddress)
			if err == nil && (all >= federation.MaxDeviceCodes || ofAddress >= federation.MaxDevicesOfOrigin) {
				err = federation.ErrTooManyCodes
			}
			if err != nil {
				return err
			}
		}
		err := q.Put(ctx, `INSERT INTO login_code (`+loginCodeColumns+`, polled) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			c.Digest[:], string(c.Kind), c.DID, c.Key, c.Bound, c.Address, c.Client, c.ClientName, c.Denied, engine.Stamp(c.Expires))
		if err != nil || c.Kind != federation.PairingCode {
			return err
		}
		return q.Put(ctx, `DELETE FROM login_code WHERE digest IN (
			SELECT digest FROM login_code WHERE kind = ?1 AND did = ?2 ORDER BY expires DESC, digest LIMIT 0 + ?3 OFFSET 0 + ?3)`,
			string(c.Kind), c.DID, federation.MaxPairingCodes)
	})
	if err != nil {
		return fmt.Errorf("add login code: %w", err)
	}
	return nil
}

// SpendPairing deletes the pairing code with the given digest and returns it, or
// [federation.ErrNotFound] for an unknown, used or expired code.
func (s *Participants) SpendPairing(ctx context.Context, digest [32]byte, now time.Time) (federation.LoginCode, error) {
	c, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.LoginCode, error) {
		return oneLoginCode(ctx, q, `DELETE FROM login_code WHERE digest = ? AND kind = ? AND expires > ? RETURNING `+loginCodeColumns,
			digest[:], string(federation.PairingCode), engine.Stamp(now))
	})
	if err != nil {
		return federation.LoginCode{}, fmt.Errorf("spend pairing code: %w", err)
	}
	return c, nil
}

// Pairing returns the pairing code with the given digest, or [federation.ErrNotFound] for an unknown,
// used or expired code.
func (s *Participants) Pairing(ctx context.Context, digest [32]byte, now time.Time) (federation.LoginCode, error) {
	c, err := oneLoginCode(ctx, s.db.Reads(), `SELECT `+loginCodeColumns+` FROM login_code WHERE digest = ? AND kind = ? AND expires > ?`,
		digest[:], string(federation.PairingCode), engine.Stamp(now))
	if err != nil {
		return federation.LoginCode{}, fmt.Errorf("read pairing code: %w", err)
	}
	return c, nil
}

// Device returns the login of a device awaiting approval, or [federation.ErrNotFound].
func (s *Participants) Device(ctx context.Context, digest [32]byte, now time.Time) (federation.LoginCode, error) {
	c, err := oneLoginCode(ctx, s.db.Reads(), `SELECT `+loginCodeColumns+` FROM login_code
		WHERE digest = ? AND kind = ? AND did = '' AND denied = 0 AND expires > ?`, digest[:], string(federation.DeviceCode), engine.Stamp(now))
	if err != nil {
		return federation.LoginCode{}, fmt.Errorf("read device: %w", err)
	}
	return c, nil
}

// DecideDevice records the decision about a device: its DID, key and bound, or that it is denied.
// It returns [federation.ErrNotFound] unless the device waits for approval.
func (s *Participants) DecideDevice(ctx context.Context, c federation.LoginCode, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `UPDATE login_code SET did = ?, key_id = ?, bound = ?, denied = ?
			WHERE digest = ? AND kind = ? AND did = '' AND denied = 0 AND expires > ?`,
			c.DID, c.Key, c.Bound, c.Denied, c.Digest[:], string(federation.DeviceCode), engine.Stamp(now))
		if err == nil && n == 0 {
			err = federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("decide device: %w", err)
	}
	return nil
}

// PollDevice returns the login of a device, and whether the device polled again before the interval
// ended. It deletes a denied login; [Participants.RedeemLogin] deletes an approved one. It returns
// [federation.ErrNotFound] for an unknown or expired device.
func (s *Participants) PollDevice(ctx context.Context, digest [32]byte, now time.Time, interval time.Duration) (c federation.LoginCode, early bool, err error) {
	type polled struct {
		code  federation.LoginCode
		early bool
	}
	p, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (p polled, err error) {
		denied, err := oneLoginCode(ctx, q, `DELETE FROM login_code WHERE digest = ? AND kind = ? AND denied = 1 AND expires > ? RETURNING `+loginCodeColumns,
			digest[:], string(federation.DeviceCode), engine.Stamp(now))
		if !errors.Is(err, federation.ErrNotFound) {
			return polled{code: denied}, err
		}
		var last int64
		err = q.Row(ctx, `SELECT polled FROM login_code WHERE digest = ? AND kind = ? AND expires > ?`,
			[]any{digest[:], string(federation.DeviceCode), engine.Stamp(now)}, &last)
		if err != nil {
			return p, err
		}
		p.code, err = oneLoginCode(ctx, q, `UPDATE login_code SET polled = ? WHERE digest = ? RETURNING `+loginCodeColumns, engine.Stamp(now), digest[:])
		p.early = p.code.DID == "" && now.Before(engine.Moment(last).Add(interval))
		return p, err
	})
	if err != nil {
		return federation.LoginCode{}, false, fmt.Errorf("poll device: %w", err)
	}
	return p.code, p.early, nil
}

func oneLoginCode(ctx context.Context, q engine.Tx, query string, args ...any) (federation.LoginCode, error) {
	found, err := engine.Rows(ctx, q, scanLoginCode, query, args...)
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.LoginCode{}, err
	}
	return found[0], nil
}

package participants

import (
	"context"
	"crypto/ed25519"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// minHashPrefix is how many characters of a hash name a DID. They hold 50 bits: no two DIDs
// share them by chance, and a prefix that two DIDs share names neither.
const minHashPrefix = 10

const bindingColumns = `did, network, link, name, first, key, seen`

func scanBinding(row engine.Scanner) (federation.Binding, error) {
	var b federation.Binding
	var seen int64
	err := row.Scan(&b.DID, &b.Network, &b.Link, &b.Name, &b.First, &b.Key, &seen)
	b.Seen = engine.Moment(seen)
	return b, err
}

// Binding returns [federation.ErrNotFound] for a DID that never signed a filed step, nor had one
// vouched for in its name.
func (s *Participants) Binding(ctx context.Context, did federation.DID) (federation.Binding, error) {
	return s.bindings.Find(did, func() (federation.Binding, error) {
		return s.oneBinding(ctx, `SELECT `+bindingColumns+` FROM binding WHERE did = ?`, string(did))
	})
}

// BindingByHash finds a DID by the first characters of its [federation.DID.Hash], at least ten.
// It returns [federation.ErrNotFound] when none or more than one fits.
func (s *Participants) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	if len(prefix) < minHashPrefix {
		return federation.Binding{}, fmt.Errorf("look up hash %q: %w", prefix, federation.ErrNotFound)
	}
	// A hash is lower-case base32, and "~" sorts after all of that.
	return s.oneBinding(ctx, `SELECT `+bindingColumns+` FROM binding
		WHERE hash >= ?1 AND hash < ?1 || '~' LIMIT 2`, prefix)
}

// oneBinding returns the binding that a query finds, if it is the only one.
func (s *Participants) oneBinding(ctx context.Context, query, arg string) (federation.Binding, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanBinding, query, arg)
	if err == nil && len(found) != 1 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.Binding{}, fmt.Errorf("read binding %s: %w", arg, err)
	}
	return found[0], nil
}

// KeyOwner returns the DID of the key with this [federation.KeyID]: the key of a signer of a
// filed step, a key in the tables of a network, or a key kept by the gateway for the DID. It
// returns [federation.ErrNotFound] for an unknown key.
func (s *Participants) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	var did federation.DID
	if err := s.db.Reads().Row(ctx, `SELECT did FROM key_owner WHERE key_id = ?`, []any{keyID}, &did); err != nil {
		return "", fmt.Errorf("look up key %s: %w", keyID, err)
	}
	return did, nil
}

// KeepBinding keeps the newest of everything but the first name. A step without a key
// leaves the one that verified last.
func (s *Participants) KeepBinding(ctx context.Context, q engine.Tx, b federation.Binding) error {
	q.Then(func() { s.bindings.Forget(b.DID) })
	err := q.Put(ctx, `INSERT INTO binding (did, hash, network, link, name, first, key, seen)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did) DO UPDATE SET network = excluded.network, link = excluded.link, name = excluded.name,
			key = CASE length(excluded.key) WHEN 0 THEN binding.key ELSE excluded.key END, seen = excluded.seen`,
		b.DID, b.DID.Hash(), b.Network, b.Link, b.Name, b.First, engine.NotNull(b.Key), engine.Stamp(b.Seen))
	if err != nil {
		return fmt.Errorf("write binding: %w", err)
	}
	return nil
}

// KeepKey records the owner of a kept key. No other program has such a key, so the owner overwrites
// the key's own DID, which an earlier step may have recorded.
func KeepKey(ctx context.Context, q engine.Tx, kept federation.KeptKey) error {
	err := q.Put(ctx, `INSERT INTO key_owner (key_id, did) VALUES (?, ?)
		ON CONFLICT (key_id) DO UPDATE SET did = excluded.did WHERE key_owner.did <> excluded.did`, kept.ID, kept.Owner)
	if err != nil {
		return fmt.Errorf("write key owner: %w", err)
	}
	return nil
}

// OwnKey notes the owner of a key. The first owner keeps it: a DID that lists the key of
// another DID does not become its owner.
func OwnKey(ctx context.Context, q engine.Tx, key ed25519.PublicKey, owner federation.DID) error {
	if len(key) == 0 {
		return nil
	}
	err := q.Put(ctx, `INSERT INTO key_owner (key_id, did) VALUES (?, ?) ON CONFLICT DO NOTHING`,
		federation.KeyID(key), owner)
	if err != nil {
		return fmt.Errorf("write key owner: %w", err)
	}
	return nil
}

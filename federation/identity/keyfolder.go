package identity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// KeyFolder is the own keys of a gateway, for commands that run without the gateway: a folder of files,
// and the keys of a signer if there is one.
type KeyFolder struct {
	Dir    string
	Signer Signer // empty for none
}

// Open returns the keyring of a gateway that is about to run. It makes the keys that are missing.
func (f KeyFolder) Open(ctx context.Context) (*Keyring, error) {
	if len(f.Signer) > 0 {
		return OpenSignerKeyring(ctx, f.Dir, f.Signer)
	}
	return OpenKeyring(f.Dir)
}

// MarkRecord keeps the marks of the keys that a record is written with. Its methods block on the record,
// and return its errors.
type MarkRecord interface {
	// OwnKeys returns the newest mark of each name.
	OwnKeys(ctx context.Context) ([]federation.KeyMark, error)
	// Used reports whether the record holds a handoff or an agent.
	Used(ctx context.Context) (bool, error)
	// MarkOwnKeys notes the keys that the record is written with from now on.
	MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error
}

// OpenFor is [KeyFolder.Open] for the gateway of a record, and marks the keys in the record. It makes no
// key in the place of one that the record was written with: see [KeyFolder.Check]. Adopted says that the
// record was in use without marks. The record is read first: another replica that rotates a key
// meanwhile writes the key before the record.
func (f KeyFolder) OpenFor(ctx context.Context, record MarkRecord, now time.Time) (ring *Keyring, adopted bool, err error) {
	known, err := record.OwnKeys(ctx)
	if err != nil {
		return nil, false, err
	}
	used, err := record.Used(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := f.Check(ctx, known, used); err != nil {
		return nil, false, err
	}
	if ring, err = f.Open(ctx); err != nil {
		return nil, false, err
	}
	return ring, used && len(known) == 0, record.MarkOwnKeys(ctx, ring.Marks(now))
}

// Check returns the error of [CheckKeys] for the keys that a record was written with. A used record
// without marks is older than marks: then each key has to exist.
func (f KeyFolder) Check(ctx context.Context, known []federation.KeyMark, used bool) error {
	if len(known) == 0 && used {
		known = AssumedMarks()
	}
	return CheckKeys(ctx, f.Dir, f.Signer, known)
}

// List returns the keys, retired ones too. The error is a
// [*federation.UnavailableError] where the signer does not answer.
func (f KeyFolder) List(ctx context.Context) ([]NamedKey, error) {
	keys, err := ListKeys(f.Dir)
	if err != nil || len(f.Signer) == 0 {
		return keys, err
	}
	keys = slices.DeleteFunc(keys, func(key NamedKey) bool { return f.signs(key.Name) })
	for _, name := range []KeyName{RegistryKey, ServerKey} {
		public, err := f.Signer.Public(ctx, name)
		if err != nil {
			return nil, &federation.UnavailableError{What: "key " + string(name), Err: err}
		}
		keys = slices.Insert(keys, 0, NamedKey{Name: name, OwnKey: federation.OwnKey{Public: public}})
	}
	return keys, nil
}

// Key returns the key of a name that signs now, or an error that wraps [federation.ErrNotFound].
func (f KeyFolder) Key(ctx context.Context, name KeyName) (NamedKey, error) {
	keys, err := f.List(ctx)
	if err != nil {
		return NamedKey{}, err
	}
	at := slices.IndexFunc(keys, func(key NamedKey) bool { return key.Name == name })
	if at < 0 {
		return NamedKey{}, fmt.Errorf("%w: no key %s in %s; baton keys create %s makes one", federation.ErrNotFound, name, f.Dir, name)
	}
	return keys[at], nil
}

// Create makes a key, as [CreateKey] does. With replace it accepts the key that a signer has now
// in the place of another; without, the error wraps [ErrKeyExists] for a key of a signer.
func (f KeyFolder) Create(ctx context.Context, name KeyName, replace bool, prefix string, now time.Time) (NamedKey, error) {
	switch {
	case !f.signs(name):
		return CreateKey(f.Dir, name, replace, prefix, now)
	case replace:
		return AcceptKey(ctx, f.Dir, f.Signer, name)
	}
	return NamedKey{}, fmt.Errorf("%w: %s keeps it", ErrKeyExists, f.Signer[0])
}

// signs reports whether the signer has a key, and not the folder.
func (f KeyFolder) signs(name KeyName) bool { return len(f.Signer) > 0 && name != EndpointKey }

package passport

import (
	"context"
	"errors"
	"iter"
	"time"

	"baton/federation"
)

// Record reads the parts of a passport. Its methods block on the disk, and return an error
// wrapping [*federation.UnavailableError] when that cannot be read now.
type Record interface {
	// Log yields the steps of one handoff after a version, oldest first, and ends; after 0 are all.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Receipts returns the home's receipts for the steps of a handoff, oldest first.
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
	// Evidence returns bytes by their SHA-256.
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// History returns the known keys of a DID.
	History(ctx context.Context, did federation.DID) (federation.KeyHistory, error)
}

// ErrTooLong is returned by [Issue] for a handoff whose passport would exceed [MaxBytes].
var ErrTooLong = errors.New("passport: it would be too long")

// ErrRemote is returned by [Issue] for a handoff of another home, which alone issues its
// passport.
var ErrRemote = errors.New("passport: it is a handoff of another home")

// Issue returns the passport of a handoff as it stood when the view was read, signed with the
// key of its home. Its error is [ErrTooLong], [ErrRemote], or that of the record or the key.
func Issue(ctx context.Context, record Record, key federation.SigningKey, view federation.View, now time.Time) ([]byte, error) {
	if view.Remote {
		return nil, ErrRemote
	}
	contents := Contents{
		View:     view,
		Evidence: func(digest [32]byte) ([]byte, error) { return record.Evidence(ctx, digest) },
	}
	var err error
	if contents.Log, err = stepsOf(ctx, record, view); err != nil {
		return nil, err
	}
	if contents.Receipts, err = receiptsOf(ctx, record, view, contents.Log); err != nil {
		return nil, err
	}
	histories, err := historiesOf(ctx, record, contents.Log)
	if err != nil {
		return nil, err
	}
	contents.Source = func(did federation.DID, keyID string) string { return histories[did].Source(keyID) }
	text, err := Write(ctx, key, contents, now)
	if err == nil && len(text) > MaxBytes {
		err = ErrTooLong
	}
	return text, err
}

// stepsOf returns the steps of a log up to the version of a view.
func stepsOf(ctx context.Context, record Record, view federation.View) ([]federation.Entry, error) {
	var steps []federation.Entry
	size := 0
	for entry, err := range record.Log(ctx, view.ID, 0) {
		if err != nil {
			return nil, err
		}
		if entry.Version > view.Version {
			break // filed since
		}
		if size += len(entry.Event.Signature.Document); size > MaxBytes {
			return nil, ErrTooLong
		}
		steps = append(steps, entry)
	}
	return steps, nil
}

// receiptsOf returns the receipts of these steps.
func receiptsOf(ctx context.Context, record Record, view federation.View, steps []federation.Entry) ([]federation.Event, error) {
	all, err := record.Receipts(ctx, view.ID)
	if err != nil {
		return nil, err
	}
	filed := map[federation.EventID]bool{}
	for _, entry := range steps {
		filed[entry.Event.ID] = true
	}
	var receipts []federation.Event
	for _, receipt := range all {
		if filed[receipt.Subject] {
			receipts = append(receipts, receipt)
		}
	}
	return receipts, nil
}

// historiesOf returns the key histories of the signers.
func historiesOf(ctx context.Context, record Record, steps []federation.Entry) (map[federation.DID]federation.KeyHistory, error) {
	histories := map[federation.DID]federation.KeyHistory{}
	for _, entry := range steps {
		did := entry.Event.From
		if _, read := histories[did]; read {
			continue
		}
		history, err := record.History(ctx, did)
		if err != nil {
			return nil, err
		}
		histories[did] = history
	}
	return histories, nil
}

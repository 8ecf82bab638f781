package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"time"

	"baton/federation"
)

// ErrNotAtHand is wrapped in the error of an offline source for an answer that only a host can give.
var ErrNotAtHand = errors.New("its keys are not at hand yet")

func notAtHand(did federation.DID) error { return unavailable(string(did), 0, ErrNotAtHand) }

// keyWait is how long a step waits for the lookup of its key, from the start of the lookup: about twice
// what a distant host needs. A step whose lookup takes longer is deferred, and judged when the lookup
// has ended.
const keyWait = time.Second

// AtHand is a [federation.KeySource] that never waits for a host, so that no slow host delays the
// judgement of other steps. It answers from memory and from the record; for any other key its error
// wraps [ErrNotAtHand]. [AtHand.Await] and [AtHand.Seek] start the lookups of missing keys. Its methods
// may be called concurrently.
type AtHand struct {
	known   *KeySource // asks no host: steps are judged by it
	probe   *KeySource // as known: tells what has to be looked up
	asking  *KeySource
	lookups *Lookups
}

// AtHand returns the part of a source that needs no network. The given lookups fetch the rest. Steps are
// judged by the offline directory: the offline directory of the source, or one that wraps it.
func (s *KeySource) AtHand(offline Refresher, lookups *Lookups) *AtHand {
	return &AtHand{known: s.without(offline), probe: s.without(s.directory.Offline()), asking: s, lookups: lookups}
}

// without returns a source with the same memory that asks no host.
func (s *KeySource) without(directory Refresher) *KeySource {
	known := *s
	known.directory, known.offline = directory, true
	return &known
}

// KeyOwner implements [federation.KeySource].
func (a *AtHand) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	return a.known.KeyOwner(ctx, keyID)
}

// Keys implements [federation.KeySource]. A few seconds after a failed lookup, the error is that of the
// lookup.
func (a *AtHand) Keys(ctx context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return a.keys(ctx, a.known, q)
}

func (a *AtHand) keys(ctx context.Context, from *KeySource, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	keys, err := from.Keys(ctx, q)
	if errors.Is(err, ErrNotAtHand) {
		if failed := a.lookups.failure(q, time.Now()); failed != nil {
			return nil, failed
		}
	}
	return keys, err
}

// Await looks up the missing key of a query. It returns when the lookup ended, after [keyWait], or when
// ctx ends; the lookup continues. It returns at once while another lookup for the same user is overdue,
// so that slow hosts delay the steps of a user once, and not each step.
func (a *AtHand) Await(ctx context.Context, q federation.KeyQuery) {
	if ctx.Err() != nil {
		return
	}
	if l := a.seek(ctx, q); l != nil {
		a.lookups.wait(ctx, l, q)
	}
}

// Seek starts the lookup of the missing key of a query. It does not block.
func (a *AtHand) Seek(ctx context.Context, q federation.KeyQuery) { a.seek(ctx, q) }

// seek returns the lookup for a query, nil if none is needed or can be started now. A document in memory
// that lists the key answers without the record.
func (a *AtHand) seek(ctx context.Context, q federation.KeyQuery) *lookingUp {
	if document, err := a.probe.directory.Resolve(ctx, q.DID, time.Now()); err == nil && plain(q, document).standing == federation.KeyGood {
		return nil
	}
	if _, err := a.keys(ctx, a.probe, q); !errors.Is(err, ErrNotAtHand) {
		return nil
	}
	return a.lookups.begin(q, func(ctx context.Context) error { //nolint:contextcheck // a lookup outlives the step that asked for it
		_, err := a.asking.Keys(ctx, q)
		return err
	})
}

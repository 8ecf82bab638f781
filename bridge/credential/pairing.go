package credential

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/participants"
)

// NewPairing returns a pairing code that logs in an agent host for a DID, and the code's expiry.
// The key is the key of the requesting session, or "" for none; bound reports whether that session
// is bound.
func NewPairing(ctx context.Context, record *participants.Participants, did federation.DID, key string, bound bool, now time.Time) (string, time.Time, error) {
	text, err := federation.NewLoginCode(rand.Reader)
	if err != nil {
		return "", time.Time{}, err
	}
	ends := now.Add(federation.LoginCodeLife).Truncate(time.Second)
	return text, ends, record.AddLoginCode(ctx, federation.LoginCode{
		Digest: federation.DigestLoginCode(federation.PairingCode, text), Kind: federation.PairingCode, DID: did, Key: key, Bound: bound, Expires: ends,
	}, now)
}

// wrongCodes is the limit per address and minute.
const wrongCodes = 5

// Guesses rate-limits wrong login codes by address. It is safe for concurrent use, and copies share
// their counts.
type Guesses struct{ wrong Addresses }

// NewGuesses returns an empty count.
func NewGuesses() Guesses {
	return Guesses{NewAddresses(func() int { return wrongCodes }, time.Minute)}
}

// Guess calls look, which returns [federation.ErrNotFound] for a wrong code. The error is
// [ErrPairing] for a wrong code, or a [federation.RateLimited] refusal if the address sent too many
// wrong codes. Correct codes are not counted.
func (g Guesses) Guess(from netip.Prefix, now time.Time, look func() error) error {
	wait, undo := g.wrong.Reserve(from, now)
	if wait > 0 {
		return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: wait}
	}
	err := look()
	if errors.Is(err, federation.ErrNotFound) {
		return ErrPairing
	}
	undo()
	return err
}

// Redeem returns the pairing code sent by a client, and marks it as used.
func (g Guesses) Redeem(ctx context.Context, record *participants.Participants, text string, from netip.Prefix, now time.Time) (c federation.LoginCode, err error) {
	err = g.Guess(from, now, func() error {
		c, err = record.SpendPairing(ctx, federation.DigestLoginCode(federation.PairingCode, text), now)
		return err
	})
	return c, err
}

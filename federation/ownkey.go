package federation

import (
	"crypto/ed25519"
	"time"
)

// OwnKey is the public part of a key that this gateway signs with, or signed with
// before another took its place.
type OwnKey struct {
	Public  ed25519.PublicKey
	Since   time.Time // when it was made; zero where another program keeps it
	Retired time.Time // when another took its place; zero for the one that signs
	Until   time.Time // of a retired key: its signatures are good until then
}

// State says how far a key is good: "active" for the one that signs, "retiring" for
// one that is listed beside it until its overlap ends, "retired" after that.
func (k OwnKey) State(now time.Time) string {
	switch {
	case k.Retired.IsZero():
		return "active"
	case now.Before(k.Until):
		return "retiring"
	}
	return "retired"
}

// KeyMark names a key or a secret of this gateway by a fingerprint, which tells nothing of
// the secret.
type KeyMark struct {
	Name        string // of its file
	Fingerprint string
	Since       time.Time // when the record was first written with it
}

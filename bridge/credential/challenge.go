package credential

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

const challengeLife = 300 * time.Second

// maxSpent bounds the stored used challenges, about 120 bytes each. It is reached by 50 proofs per
// second for five minutes.
const maxSpent = 16384

// A challenge is 32 bytes: its expiry, random bytes, and a keyed hash of both and the subject.
// Unused challenges therefore need no storage.
const (
	challengeTimeBytes   = 8
	challengeRandomBytes = 8
	challengeMACBytes    = 16
	challengeBytes       = challengeTimeBytes + challengeRandomBytes + challengeMACBytes
)

// Challenges issues challenges and accepts each once. It is safe for concurrent use.
type Challenges struct {
	key     []byte
	purpose string
	// spent maps used challenges to their expiry. The goroutine that receives the map owns it until it
	// sends it back. It is lost on restart.
	spent chan map[string]time.Time
}

// NewChallenges returns challenges for one purpose. The key is secret.
func NewChallenges(key []byte, purpose string) Challenges {
	c := Challenges{key: key, purpose: purpose, spent: make(chan map[string]time.Time, 1)}
	c.spent <- map[string]time.Time{}
	return c
}

// Issue returns a challenge for a subject, and its expiry.
func (c Challenges) Issue(subject string, now time.Time) (string, time.Time) {
	ends := now.Add(challengeLife).Truncate(time.Second)
	b := make([]byte, challengeTimeBytes+challengeRandomBytes, challengeBytes)
	binary.BigEndian.PutUint64(b, uint64(ends.Unix())) //nolint:gosec // G115: no time before 1970 gets here
	_, _ = rand.Read(b[challengeTimeBytes:])           // never fails
	return base64.RawURLEncoding.EncodeToString(append(b, c.mac(b, subject)...)), ends
}

func (c Challenges) mac(head []byte, subject string) []byte {
	h := hmac.New(sha256.New, c.key)
	_, _ = h.Write([]byte(c.purpose + " challenge\x00" + subject + "\x00"))
	_, _ = h.Write(head)
	return h.Sum(nil)[:challengeMACBytes]
}

// Spend consumes a challenge for a subject, even if the request then fails. The error is
// [ErrChallenge], [ErrChallengeExpired], or an [*federation.UnavailableError] if too many were used
// recently.
func (c Challenges) Spend(challenge, subject string, now time.Time) error {
	b, err := signing.DecodeBase64URL(challenge)
	if err != nil || len(b) != challengeBytes {
		return ErrChallenge
	}
	head := b[:challengeTimeBytes+challengeRandomBytes]
	if !hmac.Equal(b[len(head):], c.mac(head, subject)) {
		return ErrChallenge
	}
	ends := time.Unix(int64(binary.BigEndian.Uint64(head)), 0) //nolint:gosec // G115: as written by Issue
	if now.After(ends) {
		return ErrChallengeExpired
	}
	spent := <-c.spent
	defer func() { c.spent <- spent }()
	if _, used := spent[challenge]; used {
		return ErrChallenge
	}
	if len(spent) >= maxSpent {
		maps.DeleteFunc(spent, func(_ string, ends time.Time) bool { return now.After(ends) })
	}
	if len(spent) >= maxSpent {
		return &federation.UnavailableError{What: "registration", Err: errors.New("too many challenges used")}
	}
	spent[challenge] = ends
	return nil
}

// Restore makes a spent challenge valid again if its request could not be judged.
func (c Challenges) Restore(challenge string) {
	spent := <-c.spent
	delete(spent, challenge)
	c.spent <- spent
}

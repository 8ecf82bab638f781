package airc

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// challengeLife is how long a challenge is good.
const challengeLife = 300 * time.Second

// maxSpent bounds the challenges remembered as used, about 120 bytes each. It is
// reached by 50 registrations a second for five minutes.
const maxSpent = 16384

// A challenge is 32 bytes: when it ends, something random, and a keyed hash of
// both and the handle. So nothing is kept for one that is never used, and a
// restart ends none.
const (
	challengeTimeBytes   = 8
	challengeRandomBytes = 8
	challengeMACBytes    = 16
	challengeBytes       = challengeTimeBytes + challengeRandomBytes + challengeMACBytes
)

// challenges gives out challenges and takes each once.
type challenges struct {
	key []byte
	// spent holds the used ones until they end. Whoever took the map owns it, and
	// puts it back. A restart forgets it; what a used challenge registered is taken
	// by then.
	spent chan map[string]time.Time
}

func newChallenges(key []byte) challenges {
	c := challenges{key: key, spent: make(chan map[string]time.Time, 1)}
	c.spent <- map[string]time.Time{}
	return c
}

// issue returns a challenge for a handle and when it ends.
func (c challenges) issue(handle string, now time.Time) (string, time.Time) {
	ends := now.Add(challengeLife).Truncate(time.Second)
	b := make([]byte, challengeTimeBytes+challengeRandomBytes, challengeBytes)
	binary.BigEndian.PutUint64(b, uint64(ends.Unix())) //nolint:gosec // G115: no time before 1970 gets here
	_, _ = rand.Read(b[challengeTimeBytes:])           // never fails
	return base64.RawURLEncoding.EncodeToString(append(b, c.mac(b, handle)...)), ends
}

func (c challenges) mac(head []byte, handle string) []byte {
	h := hmac.New(sha256.New, c.key)
	_, _ = h.Write([]byte("airc challenge\x00" + handle + "\x00"))
	_, _ = h.Write(head)
	return h.Sum(nil)[:challengeMACBytes]
}

// spend takes a challenge for a handle, whatever becomes of the registration.
func (c challenges) spend(challenge, handle string, now time.Time) error {
	invalid := refuse(codeChallengeInvalid, "this challenge was not given out for this handle, or was used before")
	b, err := signing.DecodeBase64URL(challenge)
	if err != nil || len(b) != challengeBytes {
		return invalid
	}
	head := b[:challengeTimeBytes+challengeRandomBytes]
	if !hmac.Equal(b[len(head):], c.mac(head, handle)) {
		return invalid
	}
	ends := time.Unix(int64(binary.BigEndian.Uint64(head)), 0) //nolint:gosec // G115: as written by issue
	if now.After(ends) {
		return refuse(codeChallengeExpired, "this challenge has expired; ask for another")
	}
	spent := <-c.spent
	defer func() { c.spent <- spent }()
	if _, used := spent[challenge]; used {
		return invalid
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

// restore makes a challenge that was spent good again: what it was spent for could not
// be judged.
func (c challenges) restore(challenge string) {
	spent := <-c.spent
	delete(spent, challenge)
	c.spent <- spent
}

// postChallenge answers POST /register/challenge.
//
// spec: airc-v0.1.1 §5.1
func (l *Link) postChallenge(c *call) (answer, error) {
	if err := l.registrations.left(address(c.Request), time.Now()).check(time.Hour); err != nil {
		return answer{}, err
	}
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	handle := o.text("handle")
	if o.err != nil {
		return answer{}, o.err
	}
	if err := l.checkFree(c.Context(), handle); err != nil {
		return answer{}, err
	}
	challenge, ends := l.challenges.issue(handle, time.Now())
	return answer{status: http.StatusOK, body: struct {
		Challenge string `json:"challenge"`
		ExpiresAt int64  `json:"expiresAt"`
	}{challenge, ends.Unix()}}, nil
}

package airc

import (
	"errors"
	"net/http"
	"time"

	"baton/bridge/credential"
)

// spend takes a challenge for a handle, whatever becomes of the registration.
func (l *Link) spend(challenge, handle string, now time.Time) error {
	err := l.challenges.Spend(challenge, handle, now)
	switch {
	case errors.Is(err, credential.ErrChallenge):
		return refuse(codeChallengeInvalid, "this challenge was not given out for this handle, or was used before")
	case errors.Is(err, credential.ErrChallengeExpired):
		return refuse(codeChallengeExpired, "this challenge has expired; ask for another")
	}
	return err
}

// postChallenge answers POST /register/challenge.
//
// spec: airc-v0.1.1 §5.1
func (l *Link) postChallenge(c *call) (answer, error) {
	now := time.Now()
	if err := check(l.registrations.Left(credential.AddressOf(c.Request), now), time.Hour); err != nil {
		return answer{}, err
	}
	if err := l.login(c, now); err != nil {
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
	if _, err := l.holding(c.Context(), handle); err != nil {
		return answer{}, err
	}
	challenge, ends := l.challenges.Issue(handle, now)
	return answer{status: http.StatusOK, body: struct {
		Challenge string `json:"challenge"`
		ExpiresAt int64  `json:"expiresAt"`
		Audience  string `json:"aud"` // named by a bound proof
	}{challenge, ends.Unix(), l.domain}}, nil
}

package irc

import (
	"time"

	"golang.org/x/time/rate"
)

// Meter counts what one user says to the gateway, in a bucket that starts full with
// one minute's worth. The zero Meter has counted nothing. It is not safe for
// concurrent use.
type Meter struct {
	bucket *rate.Limiter
	told   bool
}

// Take counts one step, and reports whether it may come in and, of one that may not,
// whether the user is to be told: of the first, and not again before the bucket has
// been full. A limit of zero is none.
func (m *Meter) Take(perMinute int, now time.Time) (ok, tell bool) {
	if perMinute <= 0 {
		return true, false
	}
	if m.bucket == nil {
		m.bucket = rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
	}
	if m.bucket.TokensAt(now) >= float64(perMinute) {
		m.told = false
	}
	if m.bucket.AllowN(now, 1) {
		return true, false
	}
	tell = !m.told
	m.told = true
	return false, tell
}

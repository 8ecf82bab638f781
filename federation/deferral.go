package federation

import (
	"errors"
	"time"
)

// ErrDeferralFull is returned by the record when as many steps wait as may: from one
// origin, or of all.
var ErrDeferralFull = errors.New("federation: too many steps wait to be judged")

// Deferred is a step that waits until it can be judged: no key could be had for its
// signature, or it stands on a step before it that waits for one. It is in no log and
// moves nothing.
type Deferred struct {
	Row    int64 // order of arrival
	Event  Event
	Origin string // name of the link through which it came; never empty
	Since  time.Time
	Tried  int       // how often it was judged since
	Next   time.Time // when it is judged again
	Reason string    // why it could not be judged last; for operators
}

// DeferralLimits bound how many steps wait. Zero means no limit.
type DeferralLimits struct {
	PerUser   int // of one name on one link ([Arrival].Name); steps without a name are not counted so
	PerOrigin int
	Total     int
}

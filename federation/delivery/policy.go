package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/baton-gateway/baton/federation"
)

// Policy controls deliveries to the destinations of one kind.
type Policy struct {
	Window int
	Page   int  // deliveries of one lane before another lane begins
	InTurn bool // senders take turns even if the destination has no rate limit
	// Attempt is the timeout of one attempt.
	Attempt time.Duration
	Look    time.Duration // poll interval, because a wake-up may be lost
	Retry   Backoff       // for a failed delivery
	Pause   Backoff       // for a destination that did not respond
	// Failures is the number of failures at a reachable destination before a delivery becomes a
	// dead letter. 0 means no limit.
	Failures int
	// Delayed is the age at which the signer of a pending delivery gets a notice. Expires is the
	// age at which it is abandoned. 0 means never.
	Delayed, Expires time.Duration
	// Routine is true if a failed attempt needs no attention, because a reader may be offline for
	// days.
	Routine bool
}

// ToLink is the policy of links, including links to other homes. The configuration sets the expiry.
func ToLink() Policy {
	return Policy{
		Window: 64, Page: 64, Attempt: 3 * time.Minute /* longer than any link keeps a silent peer */, Look: time.Second, Failures: 12,
		Delayed: federation.DelayNotice,
		Retry:   Backoff{First: 500 * time.Millisecond, Young: 30 * time.Second, Share: 20, Longest: 10 * time.Minute, Jitter: true},
	}
}

// ToReaders is the policy of the notices that a link shows to its users.
func ToReaders() Policy {
	return Policy{
		Window: 1, Page: 1, InTurn: true, Attempt: 3 * time.Minute, Look: 30 * time.Second, Routine: true,
		Retry: Backoff{First: time.Minute, Longest: time.Minute},
	}
}

// ToRegistry is the policy of other registries. The backoff is for a missing consent, because a
// registry cannot report when its agent consents.
func ToRegistry() Policy {
	return Policy{
		Window: 1, Page: 1, InTurn: true, Attempt: 3 * time.Minute, Look: 5 * time.Second,
		Delayed: federation.DelayNotice, Expires: 7 * 24 * time.Hour,
		Retry: Backoff{First: time.Minute, Longest: time.Hour, Jitter: true},
		Pause: Backoff{First: time.Second, Longest: time.Minute, Jitter: true},
	}
}

// ToWebhook is the policy of webhooks. An attempt may make a few calls, each with the timeout.
func ToWebhook(attempts int, timeout time.Duration) Policy {
	return Policy{
		Window: 1, Page: 1, InTurn: true, Attempt: 3 * timeout, Look: 30 * time.Second, Failures: attempts,
		Retry: Backoff{First: time.Minute, Longest: 16 * time.Hour},
	}
}

// Backoff is the wait after failures, which doubles after each one.
type Backoff struct {
	First, Longest time.Duration
	// The wait is at most the age divided by Share, or Young if that is longer: old deliveries
	// cause little load. If Share is 0, the age does not count.
	Young time.Duration
	Share int
	// Jitter shortens a wait by up to a quarter, to spread the calls of many destinations.
	Jitter bool
}

// After this number of failures, the wait does not grow.
const maxDoublings = 20

// After returns the wait after a number of consecutive failures of a delivery of a given age.
func (b Backoff) After(failures int, age time.Duration) time.Duration {
	longest := b.Longest
	if b.Share > 0 {
		longest = min(max(b.Young, age/time.Duration(b.Share)), b.Longest)
	}
	waits := backoff.ExponentialBackOff{InitialInterval: min(b.First, longest), MaxInterval: longest, Multiplier: 2}
	if b.Jitter {
		waits.InitialInterval, waits.MaxInterval, waits.RandomizationFactor = waits.InitialInterval*7/8, longest*7/8, 1.0/7
	}
	wait := waits.NextBackOff()
	for range min(failures, maxDoublings) - 1 {
		wait = waits.NextBackOff()
	}
	return wait
}

// Destination is a destination of deliveries. The result of Deliver determines the outcome of a
// delivery:
//
//   - nil: the destination has proved that it has the delivery.
//   - a [*federation.RefusalError]: it permanently refuses this delivery.
//   - a [*federation.DeadLetterError]: the delivery is a dead letter at once.
//   - an [*AbsentError]: only a party is absent.
//   - a [*LaterError]: it is retried at the time in the error.
//   - a [*federation.UnavailableError]: it is retried without limit. A retry time in the error
//     lowers the rate of the destination.
//   - any other error: it is retried, up to [Policy.Failures] times.
type Destination struct {
	Name   string
	Policy Policy
	Pace   *Pace
	Log    *slog.Logger
	// Away is the recorded number of consecutive calls without a response.
	Away int
	// Deliver makes one attempt.
	Deliver func(ctx context.Context, d federation.Delivery) error
	// ShowsOnce reports whether an attempt must be counted before it is made, as for
	// bridge.OnceShower. Nil means never.
	ShowsOnce func(d federation.Delivery) bool
	// Counts is true if Deliver itself records its attempts.
	Counts bool
	// Shown is true if people have seen the delivered content.
	Shown bool
	// Ended is called after the end of deliveries is recorded. It may be nil.
	Ended func(ctx context.Context, d federation.Delivery, rows int, how federation.Settlement)
	// Pause records that the destination is not called before a given time. It is nil if this need
	// not survive a restart. The failures are 0 after a response.
	Pause func(ctx context.Context, failures int, next time.Time) error
}

// AbsentError reports that a step reached its channel, but not an absent party. The next call of
// Deliver has [federation.Delivery.Personal] set, and is only for that party.
type AbsentError struct{ Err error }

// Error implements error.
func (e *AbsentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause, which wraps [*federation.UnavailableError].
func (e *AbsentError) Unwrap() error { return e.Err }

// LaterError reports a failed attempt, and the wait before the next one. It does not wrap its
// cause, so that no wrapped error determines the outcome.
type LaterError struct {
	Err  error
	Wait time.Duration // for this delivery; 0 for the backoff of the policy
	// Pause is the time during which the destination accepts nothing.
	Pause time.Duration
	// Away is true if the destination did not respond. The whole destination waits by
	// [Policy.Pause], and at least for Pause. The delivery itself stays due.
	Away bool
	// TooMuch is true if the destination reported a rate limit. Its pace decreases.
	TooMuch bool
	// TooSoon is true if the destination accepts deliveries again after Pause. Only the first
	// attempt after such a pause counts.
	TooSoon bool
	// Untried is true if no attempt was made.
	Untried bool
	// Unsure is the ID of an unanswered attempt, which the destination may have received.
	Unsure string
}

// Error implements error.
func (e *LaterError) Error() string { return e.Err.Error() }

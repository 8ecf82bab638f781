package federation

import (
	"errors"
	"time"
)

// AcquaintanceAge is how long the record has to know a DID until that is no stranger.
const AcquaintanceAge = time.Hour

// Newcomer is a DID that the record met a short time ago.
type Newcomer struct {
	DID DID
	Met time.Time
}

// SizeSample is how large a record was at a time.
type SizeSample struct {
	At    time.Time
	Bytes int64
}

// SampleEvery is how far samples of the size are apart.
const SampleEvery = time.Minute

// GrowthSince returns by how many bytes a record grew after a time, from samples of its size
// in order. It does not subtract a decrease in between.
func GrowthSince(samples []SizeSample, since time.Time) (grown int64) {
	for i := 1; i < len(samples); i++ {
		if samples[i].At.After(since) {
			grown += max(0, samples[i].Bytes-samples[i-1].Bytes)
		}
	}
	return grown
}

// StrangerReason says which limit a stranger met. It is a label of metrics.
type StrangerReason string

// The limits that hold for strangers alone.
const (
	TooManyNewDIDs        StrangerReason = "dids"    // that the record met within the hour
	TooManyFromOneAddress StrangerReason = "address" // of them, from the address of this one
	TooMuchGrowth         StrangerReason = "growth"  // of the record within the hour
)

// StrangerReasons returns all reasons.
func StrangerReasons() []StrangerReason {
	return []StrangerReason{TooManyNewDIDs, TooManyFromOneAddress, TooMuchGrowth}
}

// StrangerError is a not-now to a DID that the record has not known for long. It wraps an
// [*UnavailableError].
type StrangerError struct {
	Reason     StrangerReason
	RetryAfter time.Duration
}

// errStrangers is the cause of each not-now to a stranger.
var errStrangers = errors.New("too many came within the hour")

// Error implements error.
func (e *StrangerError) Error() string { return e.Unwrap().Error() + " (" + string(e.Reason) + ")" }

// Unwrap returns the not-now that networks tell.
func (e *StrangerError) Unwrap() error {
	return &UnavailableError{What: "room for new DIDs", RetryAfter: e.RetryAfter, Err: errStrangers}
}

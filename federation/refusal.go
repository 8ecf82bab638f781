package federation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RefusalCode is the reason for a refusal. Line-based networks write it in upper case with underscores.
// Other networks translate a few codes in their edge.go.
type RefusalCode string

// The refusals of admission and of the lifecycle.
//
// spec: handofftag "The client's side"
const (
	NeedSignature         RefusalCode = "need-signature"
	SignatureInvalid      RefusalCode = "signature-invalid"
	SignatureUnverifiable RefusalCode = "signature-unverifiable"
	AccountRequired       RefusalCode = "account-required"
	ActorMismatch         RefusalCode = "actor-mismatch"
	WrongSender           RefusalCode = "wrong-sender"
	UnknownVerb           RefusalCode = "unknown-verb"
	UnknownHandoff        RefusalCode = "unknown-handoff"
	IllegalStep           RefusalCode = "illegal-step"
	TerminalHandoff       RefusalCode = "terminal-handoff"
	DeadlinePassed        RefusalCode = "deadline-passed"
	EventIDInUse          RefusalCode = "eventid-in-use"
	InvalidEventID        RefusalCode = "invalid-eventid"
	EventIDClockSkew      RefusalCode = "eventid-clock-skew"
	InvalidContext        RefusalCode = "invalid-context"
	InvalidTarget         RefusalCode = "invalid-target"
	InvalidTag            RefusalCode = "invalid-tag"
	WrongReference        RefusalCode = "wrong-reference"
	MissingRequirement    RefusalCode = "missing-requirement"
	WrongVenue            RefusalCode = "wrong-venue"
	DuplicateTag          RefusalCode = "duplicate-tag"
	MixedTags             RefusalCode = "mixed-tags"
	UnknownKind           RefusalCode = "unknown-kind"
	ReplacesNotTerminal   RefusalCode = "replaces-not-terminal"
	PolicyDenied          RefusalCode = "policy-denied"
	MissingCapability     RefusalCode = "missing-capability"
	QuotaExceeded         RefusalCode = "quota-exceeded"
	InboxFull             RefusalCode = "inbox-full"
	RateLimited           RefusalCode = "rate-limited"
)

// Upper returns the code in upper case with underscores.
func (c RefusalCode) Upper() string {
	return strings.ToUpper(strings.ReplaceAll(string(c), "-", "_"))
}

// Sentence returns the explanation, which is the same on every network.
func (c RefusalCode) Sentence() string {
	switch c {
	case NeedSignature:
		return "a step must be signed"
	case SignatureInvalid:
		return "the signature does not match the step"
	case SignatureUnverifiable:
		return "no key to check the signature with"
	case AccountRequired:
		return "log in first: each step has a signer"
	case ActorMismatch:
		return "the key does not belong to the DID in from"
	case WrongSender:
		return "this DID may not take this step"
	case UnknownVerb:
		return "there is no such step"
	case UnknownHandoff:
		return "no such handoff is known here"
	case IllegalStep:
		return "the handoff is not in a state for this step"
	case TerminalHandoff:
		return "the handoff is over"
	case DeadlinePassed:
		return "the deadline has passed"
	case EventIDInUse:
		return "this id was used for another step"
	case InvalidEventID:
		return "the event id is not acceptable"
	case EventIDClockSkew:
		return "the event id is too far from this gateway's clock"
	case InvalidContext:
		return "a context is JSON of at most 4096 bytes, an https URL or an at URI"
	case InvalidTarget:
		return "a step cannot be sent there"
	case InvalidTag:
		return "a value is malformed"
	case WrongReference:
		return "the event in reply-to belongs to another handoff"
	case MissingRequirement:
		return "something required is missing"
	case WrongVenue:
		return "the handoff was not offered in this place"
	case DuplicateTag:
		return "a tag occurs in two spellings"
	case MixedTags:
		return "the tags of two dialects are mixed"
	case UnknownKind:
		return "there is no such kind of handoff"
	case ReplacesNotTerminal:
		return "the handoff that it replaces is still open"
	case PolicyDenied:
		return "the policy here does not allow this step"
	case MissingCapability:
		return "a capability required by the offer was not declared"
	case QuotaExceeded:
		return "this DID has reached its quota"
	case InboxFull:
		return "the recipient's inbox is full"
	case RateLimited:
		return "too many steps; wait a little"
	}
	return "the step was refused"
}

// RefusalError is a final refusal of one step, unless Waits is set. Detail is for the sender and
// contains no private data.
type RefusalError struct {
	Code    RefusalCode
	Event   EventID // zero if unreadable
	Handoff HandoffID
	Detail  string // added to the sentence, or ""
	View    View   // current, or zero
	// RetryAfter is the wait of a rate-limited step, or zero.
	RetryAfter time.Duration
	// Waits is true if the step is on disk and will be judged later.
	Waits bool
}

// Refuse returns the refusal of a step.
func Refuse(ev Event, code RefusalCode, detail string) *RefusalError {
	return &RefusalError{Code: code, Event: ev.ID, Handoff: ev.Handoff, Detail: detail}
}

// Error implements error.
func (e *RefusalError) Error() string { return string(e.Code) + ": " + e.Sentence() }

// Sentence returns the explanation for the sender.
func (e *RefusalError) Sentence() string {
	if e.Detail == "" {
		return e.Code.Sentence()
	}
	return e.Code.Sentence() + ": " + e.Detail
}

// Subject returns the event ID, else the handoff ID, else "*".
func (e *RefusalError) Subject() string {
	switch {
	case !e.Event.IsZero():
		return e.Event.String()
	case !e.Handoff.IsZero():
		return e.Handoff.String()
	}
	return "*"
}

// UnavailableError is a temporary error: a peer, a key server or the record is unreachable.
type UnavailableError struct {
	What       string
	RetryAfter time.Duration // or zero
	Err        error
}

// Error implements error.
func (e *UnavailableError) Error() string { return fmt.Sprintf("%s unavailable: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Loss is a member of a step that a wire format cannot carry completely. Each loss is reported to the
// operator and the sender.
type Loss struct {
	Field string // in the JSON of [Event], such as "note"
	Fate  Fate
	Why   string
}

// Loses reports whether losses include a field.
func Loses(losses []Loss, field string) bool {
	return slices.ContainsFunc(losses, func(l Loss) bool { return l.Field == field })
}

// Fate is the extent of a loss.
type Fate string

// The fates.
const (
	Cut  Fate = "cut" // partly carried
	Lost Fate = "lost"
)

// Mistake is a mistake in a table of the configuration.
type Mistake struct {
	Key string // within the table, such as "peers"
	Why string
}

// AcquaintanceAge is how long a new DID counts as a stranger.
const AcquaintanceAge = time.Hour

// Newcomer is a recently seen DID.
type Newcomer struct {
	DID DID
	Met time.Time
}

// SizeSample is the size of the record at one time.
type SizeSample struct {
	At    time.Time
	Bytes int64
}

// SampleEvery is the interval between size samples.
const SampleEvery = time.Minute

// GrowthSince returns the growth of the record in bytes since a given time, ignoring decreases. The
// samples must be ordered.
func GrowthSince(samples []SizeSample, since time.Time) (grown int64) {
	for i := 1; i < len(samples); i++ {
		if samples[i].At.After(since) {
			grown += max(0, samples[i].Bytes-samples[i-1].Bytes)
		}
	}
	return grown
}

// NewDIDLimitReason is a limit for strangers. It is a metric label.
type NewDIDLimitReason string

// The limits that apply only to strangers.
const (
	TooManyNewDIDs        NewDIDLimitReason = "dids"    // within the hour
	TooManyFromOneAddress NewDIDLimitReason = "address" // from the address of this one
	TooMuchGrowth         NewDIDLimitReason = "growth"  // of the record within the hour
)

// NewDIDLimitReasons returns all reasons.
func NewDIDLimitReasons() []NewDIDLimitReason {
	return []NewDIDLimitReason{TooManyNewDIDs, TooManyFromOneAddress, TooMuchGrowth}
}

// NewDIDLimitError is a temporary refusal of a new DID. It wraps an [*UnavailableError].
type NewDIDLimitError struct {
	Reason     NewDIDLimitReason
	RetryAfter time.Duration
}

var errStrangers = errors.New("the hourly limit is reached")

// Error implements error.
func (e *NewDIDLimitError) Error() string { return e.Unwrap().Error() + " (" + string(e.Reason) + ")" }

// Unwrap returns the error that networks report.
func (e *NewDIDLimitError) Unwrap() error {
	return &UnavailableError{What: "admission of new DIDs", RetryAfter: e.RetryAfter, Err: errStrangers}
}

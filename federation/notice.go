package federation

import (
	"context"
	"fmt"
	"time"
)

// NoticeKind says what became of a step later than the answer to it.
type NoticeKind string

// The kinds of notices.
const (
	NoticeRefused       NoticeKind = "refused"       // by whoever ruled on it in the end, or because nobody could
	NoticeDelayed       NoticeKind = "delayed"       // somebody does not have it yet; it is tried on
	NoticeDelivered     NoticeKind = "delivered"     // of a step that was told to be delayed
	NoticeUndeliverable NoticeKind = "undeliverable" // it was given up
)

// DelayNotice is how long a step is under way before its signer is told of that.
const DelayNotice = 5 * time.Minute

// Notice tells the signer of a step what became of it. It is no step itself: it
// enters no log, and nobody answers it.
type Notice struct {
	Kind NoticeKind `json:"kind"`
	// Event is the step. Its actor is told, on the link that it came by.
	Event Event `json:"event"`
	// To is the link or the registry that the delivery was for, or the DID whose inbox;
	// empty where the notice is about the step as a whole.
	To   string    `json:"to,omitempty"`
	Code string    `json:"code,omitempty"` // why, for machines: a refusal's code or a [DeadReason]
	Why  string    `json:"why,omitempty"`  // why, for people, and nothing private
	At   time.Time `json:"at"`
}

// Sentence returns what the signer reads, without the end of a sentence.
func (n Notice) Sentence() string {
	text := fmt.Sprintf("your %s of handoff %s ", n.Event.Verb, n.Event.Handoff.Short())
	to := n.To
	switch did, err := ParseDID(to); {
	case to == "":
		to = "its recipient"
	case err == nil:
		to = did.Short()
	}
	switch n.Kind {
	case NoticeDelayed:
		text += "has not reached " + to + " yet and is tried on"
	case NoticeDelivered:
		text += "has reached " + to
	case NoticeUndeliverable:
		text += "cannot be delivered to " + to
	case NoticeRefused:
		text += "was refused"
	}
	if n.Why != "" {
		text += ": " + n.Why
	}
	return text
}

// Notices keeps what signers are still to be told. Its promises are those of [Store].
type Notices interface {
	// Notify files a notice, unless the signer was to be told of that kind about that
	// step before. The ports that end deliveries file theirs by themselves.
	Notify(ctx context.Context, n Notice) error
	// Untold returns up to limit notices about steps that came by a link, of which nobody
	// was told yet and which did not ask for a later time than now, oldest first.
	Untold(ctx context.Context, link string, now time.Time, limit int) ([]Notice, error)
	// TellLater puts a notice off: its signer is not there now.
	TellLater(ctx context.Context, n Notice, next time.Time) error
	// Told notes that the signer was told, or that there is nobody to tell. A notice
	// that nobody filed is no error.
	Told(ctx context.Context, n Notice) error
	// PruneNotices forgets up to limit notices that were filed at or before a time, told
	// or not.
	PruneNotices(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}

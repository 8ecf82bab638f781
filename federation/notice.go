package federation

import (
	"fmt"
	"time"
)

// NoticeKind says what became of a step after the response to it, or of a webhook.
type NoticeKind string

// The kinds of notices.
const (
	NoticeRefused       NoticeKind = "refused"       // by the home that ruled on it, or because no home could
	NoticeDelayed       NoticeKind = "delayed"       // it did not arrive yet; retries go on
	NoticeDelivered     NoticeKind = "delivered"     // of a step that was told to be delayed
	NoticeUndeliverable NoticeKind = "undeliverable" // it was given up
	NoticeDisabled      NoticeKind = "disabled"      // a webhook is not called any more
)

// DelayNotice is how long a step is under way before its signer is told of that.
const DelayNotice = 5 * time.Minute

// Notice tells the signer of a step what became of it, or the owner of a webhook that it is
// disabled. It is not a step: it enters no log and gets no answer.
type Notice struct {
	Cursor Cursor     `json:"-"` // where its reader reads on; zero until it is filed
	Kind   NoticeKind `json:"kind"`
	// Event is the step. Its actor is told, on the link that it came by.
	Event Event `json:"event,omitzero"`
	// Webhook is what a [NoticeDisabled] is about, instead of a step. Its owner is told on the
	// link that it is a participant of, and else on the [InboxLink].
	Webhook Webhook `json:"webhook,omitzero"`
	// To is the link, the peer or the DID that the delivery was for; empty where the notice
	// is about the step as a whole.
	To   string    `json:"to,omitempty"`
	Code string    `json:"code,omitempty"` // why, for machines: a refusal's code or a [DeadReason]
	Why  string    `json:"why,omitempty"`  // why, for people, and nothing private
	At   time.Time `json:"at"`
}

// Reader returns the DID that is told.
func (n Notice) Reader() DID {
	if n.Kind == NoticeDisabled {
		return n.Webhook.DID
	}
	return n.Event.Actor()
}

// Link returns the link on which the signer of a step is told: the link by which the step
// came, or [InboxLink] for a signer that reads its notices from the record.
func (n Notice) Link() string {
	if n.Event.Arrival.ReadsInbox {
		return InboxLink
	}
	return n.Event.Arrival.Link
}

// About returns the id of the step or of the webhook.
func (n Notice) About() EventID {
	if n.Kind == NoticeDisabled {
		return n.Webhook.ID
	}
	return n.Event.ID
}

// Ref names a notice among the notices of its reader.
func (n Notice) Ref() string { return n.About().String() + "/" + string(n.Kind) }

// Sentence returns what the signer reads, without the end of a sentence.
func (n Notice) Sentence() string {
	if n.Kind == NoticeDisabled {
		return "your webhook " + n.Webhook.URL + " is disabled: " + n.Why
	}
	text := fmt.Sprintf("your %s of handoff %s ", n.Event.Verb, n.Event.Handoff.Short())
	if n.Event.IsMessage() {
		text = fmt.Sprintf("your message %s ", n.Event.ID.Short())
	}
	to := n.To
	switch did, err := ParseDID(to); {
	case to == "" || to == UnroutedLink:
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
	case NoticeDisabled: // has no step
	}
	switch {
	case n.Why != "":
		text += ": " + n.Why
	case n.To == UnroutedLink && n.Kind == NoticeDelayed:
		text += ": no home is known to have its mailbox"
	}
	return text
}

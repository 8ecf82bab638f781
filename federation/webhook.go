package federation

import (
	"errors"
	"time"
)

// ErrTooManyWebhooks is returned by the record at the limit of a DID.
var ErrTooManyWebhooks = errors.New("federation: too many hooks")

// WebhookID is the ULID of a webhook.
type WebhookID = EventID

// WebhookLink is the link name of deliveries to webhooks. No link has this name.
const WebhookLink = "webhook"

// WebhookName returns the name of a webhook in dead letters and logs.
func WebhookName(id WebhookID) string { return WebhookLink + "/" + id.String() }

// Webhook is an address that receives the entries of an inbox or the steps of a handoff by POST.
type Webhook struct {
	ID          WebhookID `json:"id"`
	DID         DID       `json:"did"`
	Participant string    `json:"participant,omitempty"` // on the link of its messages; "" for an inbox
	// Handoff is the followed handoff, or zero for an inbox or messages. Each step filed since Since is
	// posted, including the steps of DID itself. The webhook ends with the handoff.
	Handoff HandoffID `json:"handoff,omitzero"`
	Label   string    `json:"label,omitempty"` // chosen by the owner; only if Handoff is set
	Sealed  []byte    `json:"-"`               // data of the posting network, opaque to the record
	URL     string    `json:"url"`
	Since   time.Time `json:"since"`
	// Disabled is the time when the address answered 410, or zero. Only the owner can enable it again.
	Disabled time.Time `json:"disabled,omitzero"`
	Why      string    `json:"why,omitempty"`
	// Key is the [KeyID] of the session's key, or "". When the key ends, the webhook is disabled.
	Key string `json:"-"`
	// Session is the session that creates or enables the webhook, or "". It is not stored.
	Session string `json:"-"`
	// Unbound is the ID of the session if it is unbound, otherwise "". A bound proof disables the
	// webhook.
	Unbound string    `json:"-"`
	Ends    time.Time `json:"-"` // time to disable it, or zero for never
}

// In returns the webhook with the data of a session.
func (h Webhook) In(s Session) Webhook {
	h.Session, h.Key, h.Unbound, h.Ends = s.ID, s.Key, s.Unbound(), s.Ends
	return h
}

// Over reports whether the webhook must be disabled at the given time.
func (h Webhook) Over(at time.Time) bool { return !h.Ends.IsZero() && !at.Before(h.Ends) }

// Push is one delivery to a webhook: a step, a notice, or content from a network's own tables. Pushes
// with the same order key are made in order, notices after steps.
type Push struct {
	Item    int64  // in the queue of the webhook; notices come last
	Entry   Entry  // with cursor and number, or zero
	Notice  Notice // on the [InboxLink], with cursor, or zero
	Content Content
	State   DeliveryState // waiting, delivered, refused or dead
	Queued  time.Time
	Attempt int       // failed attempts
	Next    time.Time // zero for immediately, or behind a push with the same order key
	Reason  string    // last error, or why it was not delivered
	Ended   time.Time
	// Broken is the reason why the record cannot read it, or "".
	Broken string
}

// Ref returns the ID of the step or message, or [Notice.Ref].
func (p Push) Ref() string {
	switch {
	case p.Notice.Kind != "":
		return p.Notice.Ref()
	case !p.Entry.Row().ID.IsZero():
		return p.Entry.Row().ID.String()
	case p.Content != nil:
		return p.Content.Ref()
	}
	return ""
}

// Handoff returns the handoff of the step, or the zero ID.
func (p Push) Handoff() HandoffID {
	if p.Notice.Kind != "" {
		return p.Notice.Row().Handoff
	}
	if p.Content != nil {
		return p.Content.About()
	}
	return p.Entry.Row().Handoff
}

// Content is an item in a network's own tables, opaque to the record and the webhooks.
type Content interface {
	// Ref identifies the item within its participant.
	Ref() string
	// About returns the handoff of the item, or the zero ID.
	About() HandoffID
	// Place is the position among the participant's items, from 1.
	Place() uint64
}

// WebhookBacklog counts the deliveries of one webhook.
type WebhookBacklog struct {
	Backlog

	Dead int // abandoned, and not replayed
}

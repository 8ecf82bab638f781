package federation

import (
	"errors"
	"time"
)

// ErrTooManyWebhooks is returned by the record for a webhook beyond the limit of a DID.
var ErrTooManyWebhooks = errors.New("federation: too many hooks")

// WebhookID is the ULID of a webhook.
type WebhookID = EventID

// WebhookLink is the link name of deliveries to webhooks. No link has this name.
const WebhookLink = "webhook"

// WebhookName returns the name of a webhook in dead letters and in the log.
func WebhookName(id WebhookID) string { return WebhookLink + "/" + id.String() }

// Webhook is an address to which the entries of an inbox or the steps of a handoff are posted.
type Webhook struct {
	ID          WebhookID `json:"id"`
	DID         DID       `json:"did"`                   // its owner, and the owner of the inbox
	Participant string    `json:"participant,omitempty"` // name on the link of its messages; "" for an inbox
	// Handoff is the handoff that the webhook follows, or zero for an inbox or messages. Each step
	// filed since Since is posted, including steps of DID itself. The webhook ends with the
	// handoff.
	Handoff HandoffID `json:"handoff,omitzero"`
	Label   string    `json:"label,omitempty"` // chosen by its owner; only if it follows a handoff
	Sealed  []byte    `json:"-"`               // data of the posting network, opaque to the record
	URL     string    `json:"url"`
	Since   time.Time `json:"since"`
	// Disabled is the time at which its address answered 410, or zero. Nothing is posted until its
	// owner enables it again.
	Disabled time.Time `json:"disabled,omitzero"`
	Why      string    `json:"why,omitempty"`
	// Key is the [KeyID] of the key that began the session of the webhook, or "". The end of that
	// key disables the webhook.
	Key string `json:"-"`
	// Session is the ID of the session that creates or enables the webhook, or "". It is not
	// stored.
	Session string `json:"-"`
	// Unbound is the ID of the webhook's session if that session is unbound, otherwise "". A bound
	// proof of the participant disables the webhook.
	Unbound string    `json:"-"`
	Ends    time.Time `json:"-"` // when to disable it; zero for never
}

// In returns the webhook with the data of the session that creates or enables it.
func (h Webhook) In(s Session) Webhook {
	h.Session, h.Key, h.Unbound, h.Ends = s.ID, s.Key, s.Unbound(), s.Ends
	return h
}

// Over reports whether a webhook must be disabled at the given time.
func (h Webhook) Over(at time.Time) bool { return !h.Ends.IsZero() && !at.Before(h.Ends) }

// Push is one delivery to a webhook, pending or ended: a step, a notice, or content for a
// participant in a network's own tables. Pushes with the same order key are made in order, notices
// after steps.
type Push struct {
	Item    int64         // position among the items of its webhook; notices come last
	Entry   Entry         // with its cursor and number; otherwise zero
	Notice  Notice        // on the [InboxLink], with its cursor; otherwise zero
	Content Content       // in a network's own tables; otherwise nil
	State   DeliveryState // waiting, delivered, refused or dead
	Queued  time.Time
	Attempt int       // failed attempts
	Next    time.Time // next attempt; zero for immediately, or behind a push with the same order key
	Reason  string    // error of the last attempt, or why an ended push was not delivered
	Ended   time.Time
	// Broken is the reason why the record cannot read it, or "".
	Broken string
}

// Ref returns the ID of the pushed step or message, or [Notice.Ref].
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

// Content is an item for a participant in a network's own tables. Only the network that filed it
// uses its type; it is opaque to the record and the webhooks.
type Content interface {
	// Ref identifies the item among the items of its participant.
	Ref() string
	// About returns the handoff of the item, the zero ID if there is none.
	About() HandoffID
	// Place is the position among the items of its participant, from 1.
	Place() uint64
}

// WebhookBacklog counts the pending and dead deliveries of one webhook.
type WebhookBacklog struct {
	Backlog

	Dead int // abandoned, and not replayed
}

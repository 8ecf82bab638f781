package federation

import (
	"errors"
	"time"
)

// ErrTooManyWebhooks is returned by [federationtest.Webhooks.AddWebhook] for one more than a DID may have.
var ErrTooManyWebhooks = errors.New("federation: too many hooks")

// WebhookID names a hook. It is a ULID, as the id of an event is.
type WebhookID = EventID

// WebhookLink is how deliveries to hooks are called where those to links have the name of
// the link. No link has it.
const WebhookLink = "webhook"

// WebhookName returns how a hook is called among links, in dead letters and in the log.
func WebhookName(id WebhookID) string { return WebhookLink + "/" + id.String() }

// Webhook is an address of somebody's own to which what reaches an inbox is posted.
type Webhook struct {
	ID          WebhookID `json:"id"`
	DID         DID       `json:"did"`                   // whose it is, and whose inbox
	Participant string    `json:"participant,omitempty"` // name on a link of the participant that gets its messages there; "" for one that gets the inbox of DID
	URL         string    `json:"url"`
	Since       time.Time `json:"since"`
	// Disabled is when its address said that there is nobody any more; zero before that.
	// Nothing is posted to it from then on, until it is enabled again.
	Disabled time.Time `json:"disabled,omitzero"`
	Why      string    `json:"why,omitempty"` // it is disabled
}

// Push is one thing that a hook is owed, or was: a step, a notice, or what a network's own
// tables hold for a participant. The pushes of one handoff are a lane, as the rows of a feed are: they are made in
// their order, notices after steps, and hold up no others.
type Push struct {
	Item    int64         // position among those of its hook; notices come last
	Entry   Entry         // of an inbox, with its cursor and number; zero for all else
	Notice  Notice        // on the [InboxLink], with its cursor; zero for all else
	Content Content       // of a network's own tables, for a participant; nil for all else
	State   DeliveryState // waiting, delivered, refused or dead
	Queued  time.Time
	Attempt int       // how often it was made, and failed
	Next    time.Time // of one that waits: when it is made; zero for at once, or behind another one of its lane
	Reason  string    // why the last attempt failed; of one that is over, why it was not delivered
	Ended   time.Time // zero while it waits
	// Broken is why the record cannot read it; "" for one that it can.
	Broken string
}

// Ref names what is pushed: the id of the step, that of the message, or [Notice.Ref].
func (p Push) Ref() string {
	switch {
	case p.Notice.Kind != "":
		return p.Notice.Ref()
	case !p.Entry.Event.ID.IsZero():
		return p.Entry.Event.ID.String()
	case p.Content != nil:
		return p.Content.Ref()
	}
	return ""
}

// Handoff returns the handoff that it is about, none where it is about no step.
func (p Push) Handoff() HandoffID {
	if p.Notice.Kind != "" {
		return p.Notice.Event.Handoff
	}
	if p.Content != nil {
		return p.Content.About()
	}
	return p.Entry.Event.Handoff
}

// Content is what a network's own tables hold for a participant. The network that filed it
// knows its type; the record and the webhooks do not look inside.
type Content interface {
	// Ref names it among what its participant gets.
	Ref() string
	// About returns the handoff that it is about, the zero ID where there is none.
	About() HandoffID
	// Place is its position among what its participant gets, from 1.
	Place() uint64
}

// WebhookBacklog is what one hook has still to be told, and what it never was.
type WebhookBacklog struct {
	Backlog

	Dead int // given up, and not put back
}

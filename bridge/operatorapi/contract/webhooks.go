package contract

import "baton/federation"

// Webhook is an address that the steps in an inbox are posted to.
type Webhook struct {
	ID       string `json:"id"`
	DID      string `json:"did"`
	Agent    string `json:"agent,omitempty"` // handle, of one that gets an agent's messages
	URL      string `json:"url"`
	Since    Moment `json:"since"`
	Waiting  int    `json:"waiting"`
	Oldest   Moment `json:"oldest,omitzero"` // of what waits
	Dead     int    `json:"dead"`
	Disabled Moment `json:"disabled,omitzero"`
	Why      string `json:"disabled_why,omitempty"`

	*WebhookDetail
}

// WebhookDetail is what one webhook says of itself when it is read alone.
type WebhookDetail struct {
	Deliveries []WebhookDelivery `json:"deliveries"` // the newest first
	NextCursor string            `json:"next_cursor"`
}

// WebhookDelivery is one thing that a webhook is owed, or was.
type WebhookDelivery struct {
	Of        string                   `json:"of"` // id of an event, or of a message that is none
	HandoffID federation.HandoffID     `json:"handoff_id,omitzero"`
	Verb      federation.Verb          `json:"verb,omitempty"`
	State     federation.DeliveryState `json:"state"`
	Attempt   int                      `json:"attempt"`
	Queued    Moment                   `json:"queued"`
	Next      Moment                   `json:"next,omitzero"`
	Ended     Moment                   `json:"ended,omitzero"`
	LastError string                   `json:"last_error,omitempty"`
}

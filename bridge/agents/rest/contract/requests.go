package contract

import (
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
)

// The requests and answers of participants on every network.
type (
	// Offer is the body of an offer.
	Offer = participant.Offer
	// StepRequest is the body of a step.
	StepRequest = participant.StepRequest
	// MessageRequest is the body of a message.
	MessageRequest = participant.MessageRequest
	// Filed is the answer to a step.
	Filed = participant.Filed
	// Resolved is the participant with a name.
	Resolved = participant.Resolved
	// Sent is the answer to a message.
	Sent = participant.Sent
	// Warning is a warning about a step.
	Warning = stepbuilder.Warning
)

// Parameters that several requests have.
type (
	// Paging selects a page.
	Paging struct {
		// Cursor of an earlier response. Default: the start.
		Cursor string `query:"cursor" maxLength:"256"`
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	}
	// From is the position of a reader of an inbox.
	From struct {
		// Cursor of an earlier response. Default: the start.
		Cursor string `query:"cursor" maxLength:"256"`
	}
	// Reader is a reader of an inbox.
	Reader struct {
		// Start at the read position of this device, unless there is a cursor.
		Device string `query:"device" schema:"Device"`
	}
	// Patient makes a request a long poll.
	Patient struct {
		// Maximum time to wait for a new entry, such as `50s`.
		Wait string `query:"wait" pattern:"^[0-9]{1,6}(ms|s|m)$"`
	}
	// Once makes a request that may be repeated.
	Once struct {
		// A unique key for this request, chosen by the caller. A repeated request gets the first response again.
		IdempotencyKey string `header:"Idempotency-Key" minLength:"1" maxLength:"255"`
	}
	// Cached makes a request conditional.
	Cached struct {
		IfNoneMatch string `header:"If-None-Match" maxLength:"1024"`
	}
	// ByID names a handoff or a webhook.
	ByID struct {
		ID string `path:"id" schema:"ID"`
	}
)

// The requests about handoffs.
type (
	// HandoffQuery filters handoffs.
	HandoffQuery struct {
		// Offerer, offeree or assignee.
		DID string `query:"did" schema:"DID"`
		// A state, or `open` for all open handoffs.
		State string `query:"state" pattern:"^[a-z][a-z0-9_-]{0,63}$"`
		// True selects open offers that the caller may claim now. False with the state `open` selects all open
		// offers; the member `missing_caps` of each lists the capabilities that the caller must still declare.
		Claimable *bool `query:"claimable"`
		// Words of the title, in any order and case.
		Q          string `query:"q" minLength:"1" maxLength:"300"`
		Kind       string `query:"kind" pattern:"^[a-z][a-z0-9_-]{0,63}$"`
		Channel    string `query:"channel" minLength:"1" maxLength:"200"`
		Capability string `query:"capability" schema:"Capability"`
		// Only handoffs changed since this time.
		Since time.Time `query:"since"`
		Paging
		Cached
	}
	// OfferOnce opens a handoff.
	OfferOnce struct {
		Once

		Body route.Body[Offer]
	}
	// HandoffByID selects a handoff and a page of its steps.
	HandoffByID struct {
		ByID
		Paging
		Cached
	}
	// StepOnce sends a step.
	StepOnce struct {
		ByID

		// accept, decline, claim, progress, complete, fail or cancel, or a verb of another kind.
		Verb string `path:"verb" pattern:"^[a-z][a-z0-9_-]{0,63}$"`
		Once

		Body route.Body[StepRequest] `optional:"true"`
	}
	// PlaceQuery requests the target of an offer.
	PlaceQuery struct {
		To      string `query:"to" schema:"DID"`
		Channel string `query:"channel" minLength:"1" maxLength:"200"`
	}
	// ActionQuery filters handoffs as freeq servers do.
	ActionQuery struct {
		Kind     string `query:"kind" maxLength:"64"`
		Assignee string `query:"assignee" schema:"DID"`
		State    string `query:"state" maxLength:"64"`
		Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	}
)

// The requests about inboxes, messages and agents.
type (
	// InboxQuery selects a page of an inbox.
	InboxQuery struct {
		Paging
		Reader
		Patient
	}
	// Socket opens a WebSocket.
	Socket struct {
		From
		Reader
	}
	// Stream opens a stream of events.
	Stream struct {
		From
		Reader

		// The ID of the last event that the client received. It takes precedence over `cursor`.
		LastEventID string `header:"Last-Event-ID" maxLength:"256"`
	}
	// LeaseWait leases waiting entries.
	LeaseWait struct {
		Patient

		Body route.Body[LeaseRequest]
	}
	// MessageOnce writes to a participant.
	MessageOnce struct {
		Once

		Body route.Body[MessageRequest]
	}
	// ContactChange decides about a sender.
	ContactChange struct {
		// A DID, the handle of an agent, NICK@LINK, or HANDLE@DOMAIN of a registry in the configuration.
		Sender string `path:"sender" minLength:"1" maxLength:"512"`
		Body   route.Body[ContactRequest]
	}
	// SessionByID names a session.
	SessionByID struct {
		ID string `path:"id" minLength:"1" maxLength:"128"`
	}
	// AgentByDID names an agent.
	AgentByDID struct {
		DID string `path:"did" schema:"DID"`
		Cached
	}
	// AgentChange declares capabilities.
	AgentChange struct {
		DID  string `path:"did" schema:"DID"`
		Body route.Body[AgentRequest]
	}
	// WebhookDeliveries selects a page of deliveries.
	WebhookDeliveries struct {
		ByID
		Paging
	}
	// WebhookRedelivery repeats deliveries of a webhook.
	WebhookRedelivery struct {
		ByID

		Body route.Body[Redelivery]
	}
)

// ChallengeRequest requests a challenge.
type ChallengeRequest struct {
	DID string `json:"did" schema:"ProvableDID"`
}

// TokenRequest proves a DID.
type TokenRequest struct {
	DID       string `json:"did" schema:"ProvableDID"`
	Challenge string `json:"challenge" maxLength:"512"`
	// base64url of the signature over the challenge: Ed25519, or ECDSA over its SHA-256 as r and s.
	Signature string `json:"signature" maxLength:"512"`
	// A hint for readers of the request: each current key of the DID is tried.
	Kid string `json:"kid,omitempty,omitzero" maxLength:"256"`
}

// RefreshRequest requests new tokens.
type RefreshRequest struct {
	RefreshToken string `json:"refresh_token" maxLength:"4096"`
}

// PairingRequest redeems a pairing code.
type PairingRequest struct {
	// Case, spaces and the hyphen are ignored.
	Code string `json:"code" minLength:"8" maxLength:"32"`
}

// ContactRequest decides about a sender.
type ContactRequest struct {
	State string `json:"state" enum:"allowed,blocked"`
}

// AgentRequest declares a name, a description and capabilities. Absent members do not change.
type AgentRequest participant.AgentUpdate

// LeaseRequest leases waiting entries.
type LeaseRequest struct {
	Device  string `json:"device" schema:"Device"`
	Limit   int    `json:"limit,omitempty,omitzero" minimum:"1" maximum:"100" default:"1"`
	Seconds int    `json:"seconds,omitempty,omitzero" minimum:"1" maximum:"43200" default:"60"`
}

// Ack acknowledges one leased entry, or all entries up to a cursor.
type Ack struct {
	// Cursor of an entry or a page; without `delivery_count`, the ID of a stream event is also allowed.
	Cursor        string `json:"cursor" minLength:"1" maxLength:"256"`
	Device        string `json:"device" schema:"Device"`
	DeliveryCount int    `json:"delivery_count,omitempty,omitzero" minimum:"1"`
}

// Nack returns a leased entry.
type Nack struct {
	Cursor        string `json:"cursor" minLength:"1" maxLength:"256"`
	Device        string `json:"device" schema:"Device"`
	DeliveryCount int    `json:"delivery_count" minimum:"1"`
	DelaySeconds  int    `json:"delay_seconds,omitempty,omitzero" minimum:"0" maximum:"86400"`
}

// Extend extends a lease.
type Extend struct {
	Cursor        string `json:"cursor" minLength:"1" maxLength:"256"`
	Device        string `json:"device" schema:"Device"`
	DeliveryCount int    `json:"delivery_count" minimum:"1"`
	Seconds       int    `json:"seconds" minimum:"1" maximum:"43200"`
}

// OfMessages is the value of [WebhookRequest.Of] for the messages of an agent.
const OfMessages = "messages"

// WebhookRequest registers a webhook.
type WebhookRequest struct {
	URL string `json:"url" minLength:"1" maxLength:"2048"`
	// `messages`, for an agent of the AIRC registry, posts its messages unchanged.
	Of string `json:"of,omitempty,omitzero" enum:"inbox,messages" default:"inbox"`
}

// Redelivery selects deliveries to repeat.
type Redelivery struct {
	// The item, as in the list of deliveries. Default: all undelivered items.
	Of string `json:"of,omitempty,omitzero" minLength:"1" maxLength:"256"`
}

// SocketAsk is a request of the client over a WebSocket, with one member besides `id`.
type SocketAsk struct {
	// Chosen by the client, and repeated in the response.
	ID     string       `json:"id,omitempty,omitzero" maxLength:"64"`
	Ack    Ack          `json:"ack,omitzero"`
	Nack   Nack         `json:"nack,omitzero"`
	Extend Extend       `json:"extend,omitzero"`
	Lease  LeaseRequest `json:"lease,omitzero"`
}

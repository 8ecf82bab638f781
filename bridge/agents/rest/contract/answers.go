package contract

import (
	"encoding/json"
	"time"
)

// Handoff is a handoff. A list has no steps.
type Handoff struct {
	Assignee string    `json:"assignee,omitempty,omitzero"`
	Caps     []string  `json:"caps"`
	Deadline time.Time `json:"deadline,omitzero"`
	Dialect  string    `json:"dialect"`
	Home     string    `json:"home"`
	ID       string    `json:"id" schema:"ID"`
	Kind     string    `json:"kind"`
	// Only for an open offer: required capabilities that the caller has not declared.
	MissingCaps []string  `json:"missing_caps,omitzero"`
	Moved       time.Time `json:"moved"`
	// Cursor of the next page of steps.
	NextCursor string    `json:"next_cursor,omitempty,omitzero"`
	Offeree    string    `json:"offeree,omitempty,omitzero"`
	Offerer    string    `json:"offerer"`
	Opened     time.Time `json:"opened"`
	Over       bool      `json:"over"`
	Priority   string    `json:"priority,omitempty,omitzero"`
	Replaces   string    `json:"replaces,omitempty,omitzero"`
	State      string    `json:"state"`
	Steps      []Step    `json:"steps,omitempty,omitzero"`
	Title      string    `json:"title"`
	Venue      string    `json:"venue"`
	Version    int64     `json:"version"`
}

// HandoffPage is a page of handoffs.
type HandoffPage struct {
	Items []Handoff `json:"items"`
	// Empty after the last page.
	NextCursor string `json:"next_cursor"`
}

// Step is a signed step.
type Step struct {
	Context     string    `json:"context,omitempty,omitzero"`
	ContextHash string    `json:"context_hash,omitempty,omitzero"`
	Dialect     string    `json:"dialect"`
	Document    string    `json:"document"`
	EventID     string    `json:"event_id" schema:"ID"`
	Evidence    Evidence  `json:"evidence,omitzero"`
	Filed       time.Time `json:"filed"`
	// The same as `from`, if `signed_by` is present.
	For string `json:"for,omitempty,omitzero"`
	// The DID to write to.
	From       string `json:"from"`
	HandoffID  string `json:"handoff_id" schema:"ID"`
	Name       string `json:"name"`
	Note       string `json:"note,omitempty,omitzero"`
	Provenance string `json:"provenance"`
	// base64url of the key that verified the step.
	PublicKey string `json:"public_key,omitempty,omitzero"`
	Signature string `json:"signature"`
	// The DID of the signing key, if it is not `from`.
	SignedBy string    `json:"signed_by,omitempty,omitzero"`
	State    string    `json:"state"`
	Time     time.Time `json:"time"`
	Title    string    `json:"title,omitempty,omitzero"`
	Verb     string    `json:"verb"`
	Verdict  string    `json:"verdict"`
}

// Evidence is the address and the hash of foreign bytes.
type Evidence struct {
	Sha256 string `json:"sha256"`
	URL    string `json:"url"`
}

// Place is the target of an offer.
type Place struct {
	// `handoff` or `act`.
	Dialect string `json:"dialect"`
	Target  string `json:"target"`
}

// Action is a handoff in the format of freeq servers.
type Action struct {
	ActID    string   `json:"act_id"`
	Assignee *string  `json:"assignee"`
	Caps     []string `json:"caps"`
	// Unix seconds.
	Deadline         *int64  `json:"deadline"`
	DroppedUnchecked int     `json:"dropped_unchecked"`
	Kind             string  `json:"kind"`
	Offeree          *string `json:"offeree"`
	Offerer          string  `json:"offerer"`
	// Empty if this gateway is the home.
	Origin      string  `json:"origin"`
	Replaces    *string `json:"replaces"`
	State       string  `json:"state"`
	StoredState string  `json:"stored_state"`
	// Unix seconds.
	Updated int64  `json:"updated"`
	Venue   string `json:"venue"`
}

// ActionEvent is a step in the format of freeq servers.
type ActionEvent struct {
	ActorDID     string  `json:"actor_did"`
	Canonical    string  `json:"canonical"`
	ConfirmState *string `json:"confirm_state"`
	EventID      string  `json:"event_id"`
	Signature    string  `json:"signature"`
	// Unix seconds.
	Timestamp int64  `json:"timestamp"`
	Venue     string `json:"venue"`
}

// ActionLog is a handoff with its log, in the format of freeq servers.
type ActionLog struct {
	ActID  string        `json:"act_id"`
	Events []ActionEvent `json:"events"`
	Task   *Action       `json:"task"`
	Venue  string        `json:"venue"`
}

// Actions is a list of handoffs in the format of freeq servers.
type Actions struct {
	Tasks []Action `json:"tasks"`
}

// InboxPage is a page of an inbox.
type InboxPage struct {
	Items []Entry `json:"items"`
	// Cursor of the next page.
	NextCursor string `json:"next_cursor"`
}

// Entry is a step or a message, according to its type.
type Entry struct {
	Cursor  string  `json:"cursor"`
	Message Message `json:"message,omitzero"`
	// Current state of the handoff; absent for a message.
	StateNow string `json:"state_now,omitempty,omitzero"`
	Step     Step   `json:"step,omitzero"`
	// `step` or `message`
	Type string `json:"type"`
	// True until the entry is acknowledged.
	Waits bool `json:"waits"`
}

// Message is private text from another participant.
type Message struct {
	Evidence Evidence  `json:"evidence,omitzero"`
	Filed    time.Time `json:"filed"`
	// DID of its author.
	From string `json:"from"`
	// The handoff that the text refers to.
	Handoff string `json:"handoff,omitempty,omitzero"`
	// The same on every network.
	ID           string       `json:"id"`
	Introduction Introduction `json:"introduction,omitzero"`
	// Display name of the author.
	Name string `json:"name"`
	// Network on which the message was written.
	Network string    `json:"network"`
	Text    string    `json:"text"`
	Time    time.Time `json:"time"`
	To      string    `json:"to"`
}

// Introduction comes with the first message of a sender, until the recipient allows or blocks it.
type Introduction struct {
	// Path of putContact for the sender.
	Contact string `json:"contact"`
	// Explains that the sender is unknown, and how to allow or block it.
	Text string `json:"text"`
}

// Leases are the entries leased by a device.
type Leases struct {
	Items []Lease `json:"items"`
}

// Lease is an entry leased by a device.
type Lease struct {
	Cursor        string  `json:"cursor"`
	DeliveryCount int     `json:"delivery_count"`
	Device        string  `json:"device"`
	Message       Message `json:"message,omitzero"`
	// Current state of the handoff; absent for a message.
	StateNow string `json:"state_now,omitempty,omitzero"`
	Step     Step   `json:"step,omitzero"`
	// `step` or `message`
	Type  string    `json:"type"`
	Until time.Time `json:"until"`
}

// SocketTell is a message of the gateway over a WebSocket, with one member besides `id`.
type SocketTell struct {
	Done  bool  `json:"done,omitempty,omitzero"`
	Entry Entry `json:"entry,omitzero"`
	// ID of the request, in a response.
	ID      string  `json:"id,omitempty,omitzero"`
	Leases  Leases  `json:"leases,omitzero"`
	Notice  Notice  `json:"notice,omitzero"`
	Problem Problem `json:"problem,omitzero"`
}

// NoticePage is a page of notices.
type NoticePage struct {
	Items []Notice `json:"items"`
	// Cursor of the next page.
	NextCursor string `json:"next_cursor"`
}

// Notice is about a step or a webhook of the caller.
type Notice struct {
	// Machine-readable reason: the code of a refusal, or for example `expired`, `failed` or `operator`.
	Code      string `json:"code,omitempty,omitzero"`
	Cursor    string `json:"cursor"`
	EventID   string `json:"event_id,omitempty,omitzero" schema:"ID"`
	HandoffID string `json:"handoff_id,omitempty,omitzero" schema:"ID"`
	// `delayed`, `delivered`, `undeliverable` or `refused`; for a webhook `disabled`.
	Notice string `json:"notice"`
	// Readable text.
	Text string    `json:"text"`
	Time time.Time `json:"time"`
	// Destination: a link, a registry, or the DID of an inbox; absent if the notice is about the step as a whole.
	To string `json:"to,omitempty,omitzero"`
	// Address of the webhook.
	URL       string `json:"url,omitempty,omitzero"`
	Verb      string `json:"verb,omitempty,omitzero"`
	WebhookID string `json:"webhook_id,omitempty,omitzero" schema:"ID"`
	// Readable reason.
	Why string `json:"why,omitempty,omitzero"`
}

// ContactPage is a page of contacts.
type ContactPage struct {
	Items []Contact `json:"items"`
	// Empty after the last page.
	NextCursor string `json:"next_cursor"`
}

// Contact is the decision about a sender.
type Contact struct {
	// Absent for a sender of an AIRC registry without a proved DID.
	DID string `json:"did,omitempty,omitzero"`
	// Display name of the sender.
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	// `allowed`, `blocked`, or `introduced` if the caller has not decided yet.
	State string `json:"state"`
}

// Problem is a problem document of RFC 9457.
type Problem struct {
	// For `unknown-name` and `ambiguous-name`: the participants with this or a similar name.
	Candidates []Resolved `json:"candidates,omitzero"`
	// Code of a refusal, or `usage`, `unauthorized`, `forbidden`, `not-found`, `conflict`, `idempotency-conflict`, `unknown-name`, `ambiguous-name`, `rate-limited`, `unavailable` or `failed`.
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Seconds; 0 if unknown.
	RetryAfter int `json:"retry_after"`
	// The same request may succeed later.
	Retryable bool   `json:"retryable"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Type      string `json:"type"`
}

// Challenge is a challenge, which is valid once.
type Challenge struct {
	// The exact text to sign. It begins with the name of the gateway.
	Challenge string    `json:"challenge"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Tokens are the tokens of a session.
type Tokens struct {
	AccessToken  string    `json:"access_token"`
	ExpiresAt    time.Time `json:"expires_at"`
	RefreshToken string    `json:"refresh_token"`
	TokenType    string    `json:"token_type"`
}

// PairingCode is a new pairing code.
type PairingCode struct {
	// Two groups of four characters.
	Code string `json:"code"`
	// The party that the code logs in as.
	DID       string    `json:"did"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Session is one login of the caller.
type Session struct {
	// Address of the client at the login.
	Address string `json:"address"`
	// Kind of login: `did`, `code`, `device`, `pairing`, `page`, or a method of the AIRC registry.
	Began string `json:"began"`
	// The name of the agent host; empty for none.
	Client    string    `json:"client"`
	CreatedAt time.Time `json:"created_at"`
	// True for the session of this request.
	Current   bool      `json:"current"`
	ExpiresAt time.Time `json:"expires_at"`
	ID        string    `json:"id"`
	// Last issue of a token.
	LastUsedAt time.Time `json:"last_used_at"`
}

// SessionList is a list of sessions.
type SessionList struct {
	Items []Session `json:"items"`
}

// Agent is the declaration of an agent.
type Agent struct {
	Caps        []string `json:"caps"`
	Description string   `json:"description,omitempty,omitzero"`
	DID         string   `json:"did"`
	Name        string   `json:"name"`
}

// WebhookList is a list of webhooks.
type WebhookList struct {
	Items []Webhook `json:"items"`
}

// Webhook is a webhook.
type Webhook struct {
	CreatedAt time.Time `json:"created_at"`
	// Deliveries that failed permanently.
	Dead        int       `json:"dead"`
	DisabledAt  time.Time `json:"disabled_at,omitzero"`
	DisabledWhy string    `json:"disabled_why,omitempty,omitzero"`
	ID          string    `json:"id" schema:"ID"`
	// Posted entries: `inbox`, or `messages` of an agent of the AIRC registry.
	Of string `json:"of"`
	// `whpk_` and the Ed25519 key in base64, for `v1a`.
	PublicKey string `json:"public_key"`
	// `whsec_` and 32 bytes in base64, for `v1`. Only in the response to the registration.
	Secret string `json:"secret,omitempty,omitzero"`
	URL    string `json:"url"`
	// Pending deliveries.
	Waiting int `json:"waiting"`
}

// WebhookDeliveryPage is a page of deliveries.
type WebhookDeliveryPage struct {
	Items []WebhookDelivery `json:"items"`
	// Empty after the last page.
	NextCursor string `json:"next_cursor"`
}

// WebhookDelivery is a delivery to a webhook.
type WebhookDelivery struct {
	// Number of failed attempts.
	Attempt   int       `json:"attempt"`
	Ended     time.Time `json:"ended,omitzero"`
	HandoffID string    `json:"handoff_id,omitempty,omitzero"`
	LastError string    `json:"last_error,omitempty,omitzero"`
	// Time of the next attempt. Absent if it is immediate, or waits for an earlier delivery of its handoff.
	Next time.Time `json:"next,omitzero"`
	// The posted item: `event_id` of a step; for a notice, followed by a slash and the notice; or the ID of a message.
	Of     string    `json:"of"`
	Queued time.Time `json:"queued"`
	// `waiting`, `delivered`, `refused` if the webhook is disabled, or `dead`.
	State string `json:"state"`
	Verb  string `json:"verb,omitempty,omitzero"`
	// The `webhook-id` of each attempt.
	WebhookID string `json:"webhook_id"`
}

// Redelivered is the number of repeated deliveries.
type Redelivered struct {
	Deliveries int `json:"deliveries"`
}

// Push is the body of a request to a webhook. `data` is an Entry, a Notice, or for an AIRC agent its inbox message.
type Push struct {
	Data      json.RawMessage `json:"data" type:"object"`
	Timestamp time.Time       `json:"timestamp"`
	// The kind of handoff and the verb, such as `handoff.offer`; `notice.` and the notice, such as `notice.delayed`; or `airc.message`.
	Type string `json:"type"`
}

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
	// Of an open offer: the capabilities that it asks for and the caller has not declared.
	MissingCaps []string  `json:"missing_caps,omitzero"`
	Moved       time.Time `json:"moved"`
	// Where the steps go on.
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

// Step is a step as it was signed.
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
	// base64url of the key that verified it.
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

// Place is the place where an offer would be written.
type Place struct {
	// `handoff` or `act`.
	Dialect string `json:"dialect"`
	Target  string `json:"target"`
}

// Action is a handoff as freeq servers show it.
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
	// Empty for one whose home is this gateway.
	Origin      string  `json:"origin"`
	Replaces    *string `json:"replaces"`
	State       string  `json:"state"`
	StoredState string  `json:"stored_state"`
	// Unix seconds.
	Updated int64  `json:"updated"`
	Venue   string `json:"venue"`
}

// ActionEvent is a step as freeq servers show it.
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

// ActionLog is a handoff with its log as freeq servers show it.
type ActionLog struct {
	ActID  string        `json:"act_id"`
	Events []ActionEvent `json:"events"`
	Task   *Action       `json:"task"`
	Venue  string        `json:"venue"`
}

// Actions is a list of handoffs as freeq servers show it.
type Actions struct {
	Tasks []Action `json:"tasks"`
}

// InboxPage is a page of an inbox.
type InboxPage struct {
	Items []Entry `json:"items"`
	// Read on from here.
	NextCursor string `json:"next_cursor"`
}

// Entry is a step or a message, as its type says.
type Entry struct {
	Cursor  string  `json:"cursor"`
	Message Message `json:"message,omitzero"`
	// Current state of the handoff; absent for a message.
	StateNow string `json:"state_now,omitempty,omitzero"`
	Step     Step   `json:"step,omitzero"`
	// `step` or `message`
	Type string `json:"type"`
	// It is not acknowledged yet.
	Waits bool `json:"waits"`
}

// Message is private text of another participant.
type Message struct {
	Evidence Evidence  `json:"evidence,omitzero"`
	Filed    time.Time `json:"filed"`
	// DID of its author.
	From string `json:"from"`
	// The handoff that it is about.
	Handoff string `json:"handoff,omitempty,omitzero"`
	// The same one on every network.
	ID           string       `json:"id"`
	Introduction Introduction `json:"introduction,omitzero"`
	// What people call its author.
	Name string `json:"name"`
	// On which it was written.
	Network string    `json:"network"`
	Text    string    `json:"text"`
	Time    time.Time `json:"time"`
	To      string    `json:"to"`
}

// Introduction is with the first message of a sender, while the recipient has decided nothing about it.
type Introduction struct {
	// Path of putContact for the sender.
	Contact string `json:"contact"`
	// That the sender is unknown, and how to allow and to block it.
	Text string `json:"text"`
}

// Leases are the entries that a device has.
type Leases struct {
	Items []Lease `json:"items"`
}

// Lease is an entry that a device has for a while.
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

// SocketTell is what the gateway sends over a WebSocket. One of the members but `id`.
type SocketTell struct {
	Done  bool  `json:"done,omitempty,omitzero"`
	Entry Entry `json:"entry,omitzero"`
	// Of what is answered.
	ID      string  `json:"id,omitempty,omitzero"`
	Leases  Leases  `json:"leases,omitzero"`
	Notice  Notice  `json:"notice,omitzero"`
	Problem Problem `json:"problem,omitzero"`
}

// NoticePage is a page of notices.
type NoticePage struct {
	Items []Notice `json:"items"`
	// Read on from here.
	NextCursor string `json:"next_cursor"`
}

// Notice is about a step of the caller's, or about a webhook.
type Notice struct {
	// Why, for programs: a refusal's code, or `expired`, `failed`, `operator` and the like.
	Code      string `json:"code,omitempty,omitzero"`
	Cursor    string `json:"cursor"`
	EventID   string `json:"event_id,omitempty,omitzero" schema:"ID"`
	HandoffID string `json:"handoff_id,omitempty,omitzero" schema:"ID"`
	// `delayed`, `delivered`, `undeliverable` or `refused`; of a webhook `disabled`.
	Notice string `json:"notice"`
	// For people.
	Text string    `json:"text"`
	Time time.Time `json:"time"`
	// The link, the registry or the DID whose inbox it was to reach; absent if it is about the step as a whole.
	To string `json:"to,omitempty,omitzero"`
	// Of the webhook.
	URL       string `json:"url,omitempty,omitzero"`
	Verb      string `json:"verb,omitempty,omitzero"`
	WebhookID string `json:"webhook_id,omitempty,omitzero" schema:"ID"`
	// Why, for people.
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
	// Absent for a sender of an AIRC registry that proved none.
	DID string `json:"did,omitempty,omitzero"`
	// What people call the sender.
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	// `allowed`, `blocked`, or `introduced`: it wrote, and the caller has decided nothing
	State string `json:"state"`
}

// Problem is RFC 9457.
type Problem struct {
	// Of `unknown-name` and `ambiguous-name`: the participants with the name or a similar one.
	Candidates []Resolved `json:"candidates,omitzero"`
	// Of a refusal, else `usage`, `unauthorized`, `forbidden`, `not-found`, `conflict`, `idempotency-conflict`, `unknown-name`, `ambiguous-name`, `rate-limited`, `unavailable` or `failed`.
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Seconds; 0 for an unknown time.
	RetryAfter int `json:"retry_after"`
	// The same request may succeed later.
	Retryable bool   `json:"retryable"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Type      string `json:"type"`
}

// Challenge is a challenge, which is valid once.
type Challenge struct {
	// Sign this text as it is. It begins with the name of the gateway.
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
	// The party for which it logs in.
	DID       string    `json:"did"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Session is one login of the caller.
type Session struct {
	// Address of the client at its start.
	Address string `json:"address"`
	// How it began: `did`, `code`, `device`, `pairing`, `page`, or a method of the AIRC registry.
	Began string `json:"began"`
	// The name of the agent host; empty for none.
	Client    string    `json:"client"`
	CreatedAt time.Time `json:"created_at"`
	// This request is part of it.
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
	// Deliveries that were given up.
	Dead        int       `json:"dead"`
	DisabledAt  time.Time `json:"disabled_at,omitzero"`
	DisabledWhy string    `json:"disabled_why,omitempty,omitzero"`
	ID          string    `json:"id" schema:"ID"`
	// What is posted: `inbox`, or `messages` of the agent that registered at the AIRC registry here.
	Of string `json:"of"`
	// `whpk_` and the Ed25519 key in base64, for `v1a`.
	PublicKey string `json:"public_key"`
	// `whsec_` and 32 bytes in base64, for `v1`. Only where the webhook was just made.
	Secret string `json:"secret,omitempty,omitzero"`
	URL    string `json:"url"`
	// Deliveries that are still to be made.
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
	// How often it failed.
	Attempt   int       `json:"attempt"`
	Ended     time.Time `json:"ended,omitzero"`
	HandoffID string    `json:"handoff_id,omitempty,omitzero"`
	LastError string    `json:"last_error,omitempty,omitzero"`
	// When it is posted. Absent for at once, or after an earlier one of its handoff.
	Next time.Time `json:"next,omitzero"`
	// What is posted: `event_id` of a step, with a slash and what it says of a notice, or the id of a message that is no step.
	Of     string    `json:"of"`
	Queued time.Time `json:"queued"`
	// `waiting`, `delivered`, `refused` where the webhook is disabled, or `dead`.
	State string `json:"state"`
	Verb  string `json:"verb,omitempty,omitzero"`
	// The `webhook-id` of each attempt.
	WebhookID string `json:"webhook_id"`
}

// Redelivered is the number of deliveries that are made again.
type Redelivered struct {
	Deliveries int `json:"deliveries"`
}

// Push is the body of a request to a webhook. `data` is an Entry, a Notice, or for an AIRC agent the message as its inbox has it.
type Push struct {
	Data      json.RawMessage `json:"data" type:"object"`
	Timestamp time.Time       `json:"timestamp"`
	// The kind of handoff and the verb, such as `handoff.offer`; `notice.` and what it says, such as `notice.delayed`; or `airc.message`.
	Type string `json:"type"`
}

package admin

import (
	"net/http"

	"github.com/baton-gateway/baton/federation"
)

// Peer is another registry, or another home.
type Peer struct {
	Name     string `json:"name"` // its domain, or its home.name
	Network  string `json:"network"`
	Mode     string `json:"mode"`             // allow, limit, hold or block
	Origin   string `json:"origin"`           // of the mode
	Source   string `json:"source,omitempty"` // of the peer: configuration, or record if an operator added it
	URL      string `json:"url,omitempty"`
	Dialect  string `json:"dialect,omitempty"`  // registries only
	Unsigned string `json:"unsigned,omitempty"` // policy for its unsigned messages
	Waiting  int    `json:"waiting"`            // undelivered messages, or steps without a receipt
	Oldest   Moment `json:"oldest,omitzero"`
	Dead     int    `json:"dead"`
	Held     bool   `json:"held"`
	Hold
	LastError string `json:"last_error,omitempty"`

	*PeerHome // of a home
}

// Hold is the hold of a link or a peer, to which nothing is delivered meanwhile. It is empty
// without a hold.
type Hold struct {
	HeldSince  Moment `json:"held_since,omitzero"`
	HoldReason string `json:"hold_reason,omitempty"` // the text of the operator
	// PeerMode is "hold" for a delivery to a home with this mode, which waits until the mode changes.
	PeerMode string `json:"peer_mode,omitempty"`
}

// PeerHome has the details that only other homes have.
type PeerHome struct {
	State       string  `json:"state"` // of the link to it: up, dialling or down
	Path        string  `json:"path"`  // relay or https
	LastHeard   Moment  `json:"last_heard,omitzero"`
	SkewSeconds float64 `json:"skew_seconds"` // how far our clock is ahead of its clock
	Forks       []Fork  `json:"forks"`        // newest first
	Doubts      []Doubt `json:"doubts"`
}

// Doubt counts statements of a home that failed a check.
type Doubt struct {
	Kind  federation.MisbehaviorKind `json:"kind"` // voice, mailbox, ruling or step
	Times int                        `json:"times"`
	First Moment                     `json:"first"`
	Last  Moment                     `json:"last"`
	Why   string                     `json:"why"` // the last time
}

// Fork is a handoff for which a home signed two histories. Both are stored.
type Fork struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"` // where they diverge
	Found   Moment               `json:"found"`
}

// Peering is the body of a request to add another home.
type Peering struct {
	Act

	URL string `json:"url"` // without a path
	// AllowPrivate confirms an address that is private or has no TLS.
	AllowPrivate bool `json:"allow_private,omitempty"`
}

// Peered has the results of the checks of another home and of adding it.
type Peered struct {
	Peer   Peer    `json:"peer"`
	Checks []Check `json:"checks"`
	// Canary is the outcome of a handoff offered to it; nil if none was offered.
	Canary *Canary `json:"canary,omitempty"`
}

// Canary is a handoff from this home to another one, which completes it automatically.
type Canary struct {
	Handoff federation.HandoffID `json:"handoff"`
	Green   bool                 `json:"green"`
	Took    string               `json:"took"`             // a duration
	Reason  string               `json:"reason,omitempty"` // if it is not green
}

// Mode is the body of a change of mode.
type Mode struct {
	Act

	Mode string `json:"mode"`
	New  bool   `json:"new,omitempty"` // the name is of a registry not known yet
}

// Compared is the result of a comparison of histories with another home.
type Compared struct {
	Compared int    `json:"compared"` // handoffs
	Sent     int    `json:"sent"`     // handoffs of this home whose missing steps were sent to the other home
	Lost     []Loss `json:"lost"`
}

// Loss is a handoff of the other home that lost steps there.
type Loss struct {
	Handoff federation.HandoffID `json:"handoff_id"`
	Version federation.Version   `json:"version"` // steps stored here
	Have    federation.Version   `json:"have"`    // steps that the other home has
}

// Check is the result of one check.
type Check struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or FAIL
	Detail string `json:"detail"`
}

// Link is the present state of a link.
type Link struct {
	Name      string `json:"name"`
	Network   string `json:"network"`
	State     string `json:"state"`
	LastHeard Moment `json:"last_heard,omitzero"`
	Waiting   int    `json:"waiting"`         // pending deliveries to it
	Oldest    Moment `json:"oldest,omitzero"` // when the oldest of their steps was filed
	NextDial  Moment `json:"next_dial,omitzero"`
	LastError string `json:"last_error"`
	Hold

	Agent LinkAgent `json:"agent,omitzero"` // of a link to one external agent

	*LinkDetail // only of a single link
}

// Troubles are the counts that an operator checks first.
type Troubles struct {
	Links   int `json:"links"`   // held, or neither up nor on standby
	Waiting int `json:"waiting"` // pending deliveries
	Dead    int `json:"dead"`    // dead letters
}

// LinkAgent is the external agent behind a link. The values of its card are empty until the link
// was up.
type LinkAgent struct {
	DID      federation.DID `json:"did"`
	Card     string         `json:"card"` // its address
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Protocol string         `json:"protocol"` // binding and version
	Updates  string         `json:"updates"`  // how the agent reports changes of its tasks
	Claims   string         `json:"claims"`   // capabilities of the open offers that it gets, separated by spaces
	Tasks    int            `json:"tasks"`    // in progress
	Obstacle string         `json:"obstacle"` // the first reason why a task waits for an operator; "" for none
}

// LinkDetail has the details of a link that lists leave out.
type LinkDetail struct {
	Negotiated  map[string]string `json:"negotiated"`
	Channels    []string          `json:"channels"`
	Limits      LinkLimits        `json:"limits"`
	SkewSeconds float64           `json:"skew_seconds"` // how far our clock is ahead
	NotCarried  []string          `json:"not_carried"`
	Obstacles   []string          `json:"obstacles,omitempty"` // what blocks deliveries or receipts
}

// LinkLimits are the limits of incoming messages of a link. Zero is no limit.
type LinkLimits struct {
	UserEventsPerMinute int `json:"user_events_per_minute"`
	LinkEventsPerSecond int `json:"link_events_per_second"`
}

// Policy has the rules and limits that the gateway applies to steps.
type Policy struct {
	// Rules are in the order of their evaluation. The last one is require of [policy].
	Rules  []PolicyRule  `json:"rules"`
	Limits []PolicyLimit `json:"limits"`
}

// PolicyRule is the requirement for matching steps. An empty list matches all.
type PolicyRule struct {
	Verbs      []string `json:"verbs"`
	Peers      []string `json:"peers"`
	Recipients []string `json:"recipients"`
	Senders    []string `json:"senders"`
	Require    string   `json:"require"` // signed, vouched, nothing or deny
	File       string   `json:"file"`
	Line       int      `json:"line"` // 0 for a default
}

// PolicyLimit is one key of the table [limits].
type PolicyLimit struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as in the configuration
	File  string `json:"file"`  // empty for a default
	Line  int    `json:"line"`  // 0 for a default
}

// Binding assigns a name to a DID.
type Binding struct {
	Network string         `json:"network"`
	Name    string         `json:"name"`
	DID     federation.DID `json:"did"`
	Vouch   bool           `json:"vouch"`
	Origin  string         `json:"origin"`
	Since   Moment         `json:"since,omitzero"` // of a binding in the record
}

// Bind is the body of a request to bind a name.
type Bind struct {
	Act

	DID   string `json:"did"`
	Vouch bool   `json:"vouch,omitempty"`
}

// Block is a source that an operator blocked.
type Block struct {
	What    string               `json:"what"`
	Kind    federation.BlockKind `json:"kind"`
	Reason  string               `json:"reason"`
	Since   Moment               `json:"since"`
	Expires Moment               `json:"expires"` // "" for a block without an end
}

// BlockAsk is the body of a request to block a source.
type BlockAsk struct {
	Act

	What  string `json:"what"`          // see [federation.ParseBlock]
	For   string `json:"for,omitempty"` // a duration; "" for a block without an end
	Purge bool   `json:"purge,omitempty"`
}

// Purged counts the items that a purge ended and dropped, or would.
type Purged struct {
	federation.Purged

	Handoffs int `json:"handoffs"` // offered by the source
}

// Blocked is a new block, or with DryRun the block that would be added.
type Blocked struct {
	Block

	Purged *Purged `json:"purged,omitempty"` // nil without a purge
	DryRun bool    `json:"dry_run,omitempty"`
}

// AnswerStatus implements [route.Statused].
func (b Blocked) AnswerStatus() int {
	if b.DryRun {
		return http.StatusOK
	}
	return http.StatusCreated
}

// Sender has the counts of one DID, address or link.
type Sender struct {
	Name    string `json:"name"`
	Steps   int    `json:"steps"`   // all judged steps
	Refused int    `json:"refused"` // of those
	Limited int    `json:"limited"` // refused by a rate limit
	Blocked int    `json:"blocked"` // steps, logins and connections refused by a block
	Bytes   int64  `json:"bytes"`   // of the documents and evidence of all steps
}

// EraseAsk is the body of a request to erase a person.
type EraseAsk struct {
	Act

	DID string `json:"did"`
}

// Erased counts what an erasure erased or would erase.
type Erased struct {
	federation.Erasing

	DID    federation.DID `json:"did"`
	Files  []string       `json:"files"` // files below data_dir that may still contain the text; the operator deletes them
	DryRun bool           `json:"dry_run,omitempty"`
}

// Webhook is an address to which the steps in an inbox are posted.
type Webhook struct {
	ID       string `json:"id"`
	DID      string `json:"did"`
	Agent    string `json:"agent,omitempty"` // its handle, if it gets the messages of an agent
	URL      string `json:"url"`
	Since    Moment `json:"since"`
	Waiting  int    `json:"waiting"`
	Oldest   Moment `json:"oldest,omitzero"` // of the pending deliveries
	Dead     int    `json:"dead"`
	Disabled Moment `json:"disabled,omitzero"`
	Why      string `json:"disabled_why,omitempty"`

	*WebhookDetail
}

// WebhookDetail has the details of a webhook that lists leave out.
type WebhookDetail struct {
	Deliveries []WebhookDelivery `json:"deliveries"` // newest first
	NextCursor string            `json:"next_cursor"`
}

// WebhookDelivery is one pending or past delivery to a webhook.
type WebhookDelivery struct {
	Of        string                   `json:"of"` // id of an event or a message
	HandoffID federation.HandoffID     `json:"handoff_id,omitzero"`
	Verb      federation.Verb          `json:"verb,omitempty"`
	State     federation.DeliveryState `json:"state"`
	Attempt   int                      `json:"attempt"`
	Queued    Moment                   `json:"queued"`
	Next      Moment                   `json:"next,omitzero"`
	Ended     Moment                   `json:"ended,omitzero"`
	LastError string                   `json:"last_error,omitempty"`
}

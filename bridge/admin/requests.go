package admin

import (
	"encoding/json"
	"io"

	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// List is the request for a list.
type List interface {
	// List returns the requested page, and whether the list is watched.
	List() (page Paging, watch bool)
}

// Paging is the request for a page of a list.
type Paging struct {
	Limit  *int   `query:"limit" minimum:"1" maximum:"500"` // Maximum number of items, 50 by default.
	Cursor string `query:"cursor"`                          // The next_cursor of an earlier page.
}

// List implements [List].
func (p Paging) List() (page Paging, watch bool) { return p, false }

// Watching is the request for a page of a list, or for JSON lines.
type Watching struct {
	Paging

	Watch bool `query:"watch"` // Answer JSON lines until the client leaves.
}

// List implements [List].
func (w Watching) List() (page Paging, watch bool) { return w.Paging, w.Watch }

// Removal is the request for a change without a body.
type Removal struct {
	Reason string `query:"reason"`  // The text for the audit log.
	DryRun bool   `query:"dry_run"` // Return the same answer without a change.
}

// Act returns the request as the body of a change.
func (r Removal) Act() Act { return Act(r) }

// The requests for one thing.
type (
	// ByID names a thing by its ID.
	ByID struct {
		ID string `path:"id"`
	}
	// ByName names a link or a peer.
	ByName struct {
		Name string `path:"name"`
	}
	// ByDID names a DID.
	ByDID struct {
		DID string `path:"did"`
	}
	// IDPage names a thing, and a page of its parts.
	IDPage struct {
		ID string `path:"id"`
		Paging
	}
)

// The requests for changes of one thing.
type (
	// ActOnID changes a thing.
	ActOnID struct {
		ID   string `path:"id"`
		Body route.Body[Act]
	}
	// IDChange changes a thing in one of several ways.
	IDChange struct {
		ID   string `path:"id"`
		Verb string `path:"verb"`
		Body route.Body[Act]
	}
	// ActOnName changes a named thing.
	ActOnName struct {
		Name string `path:"name"`
		Body route.Body[Act]
	}
	// ActOnHandle changes a handle.
	ActOnHandle struct {
		Handle string `path:"handle"`
		Body   route.Body[Act]
	}
	// LinkChange changes a link.
	LinkChange struct {
		Name string `path:"name"`
		Verb string `path:"verb"`
		Body route.Body[Act]
	}
	// FeedChange changes deliveries.
	FeedChange struct {
		ID   string `path:"id"`
		Verb string `path:"verb"`
		Link string `query:"link"` // A link.
		Peer string `query:"peer"` // A peer.
		// With the ID "all": only those queued at least so long ago: a duration.
		Older string `query:"older"`
		Body  route.Body[Act]
	}
	// DeadChange settles dead letters.
	DeadChange struct {
		ID    string `path:"id"`
		Verb  string `path:"verb"`
		Cause string `query:"cause"` // With the ID "all": only those with this reason.
		Peer  string `query:"peer"`  // With the ID "all": only those to this link or peer.
		Body  route.Body[Act]
	}
	// WebhookChange changes a webhook.
	WebhookChange struct {
		ID   string `path:"id"`
		Verb string `path:"verb"`
		DID  string `query:"did"` // A DID.
		Of   string `query:"of"`  // An event or message; all failed deliveries by default.
		Body route.Body[Act]
	}
	// SessionsEnd ends sessions.
	SessionsEnd struct {
		DID  string `path:"did"` // The ID of a session, or a DID of the participant: of an agent any of its DIDs.
		Body route.Body[Act]
	}
	// StepOf takes a step in a handoff.
	StepOf struct {
		ID   string `path:"id"`
		Verb string `path:"verb"`
		Body route.Body[Ask]
	}
	// InboxAck acknowledges entries of an inbox.
	InboxAck struct {
		DID  string `path:"did"`
		Body route.Body[Ack]
	}
	// InboxMove moves a mailbox.
	InboxMove struct {
		DID  string `path:"did"`
		Body route.Body[Move]
	}
	// PeerMode changes the mode of a peer.
	PeerMode struct {
		Name string `path:"name"`
		Body route.Body[Mode]
	}
	// KeyRotation replaces a key.
	KeyRotation struct {
		Name string `path:"name"`
		Body route.Body[Rotation]
	}
	// NameBinding binds a name.
	NameBinding struct {
		Network string `path:"network"`
		Name    string `path:"name"`
		Body    route.Body[Bind]
	}
	// NameUnbinding ends a binding.
	NameUnbinding struct {
		Network string `path:"network"`
		Name    string `path:"name"`
		Removal
	}
	// PeerRemoval removes a peer.
	PeerRemoval struct {
		Name string `path:"name"`
		Removal
	}
	// Unblocking ends a block.
	Unblocking struct {
		What string `path:"what"`
		Removal
	}
)

// HandoffQuery selects handoffs.
type HandoffQuery struct {
	DID        string `query:"did"`        // A DID.
	State      string `query:"state"`      // A state of handoffs.
	Kind       string `query:"kind"`       // A kind of handoffs.
	Channel    string `query:"channel"`    // A channel, such as #ops.
	Capability string `query:"capability"` // A capability that the offer asks for.
	Since      string `query:"since"`      // At this time or later: RFC 3339.
	Search     string `query:"search"`     // An ID or its last six characters or more, a DID, or words of the title.
	Watching
}

// PlaceQuery describes the offer whose place is requested.
type PlaceQuery struct {
	From    string `query:"from"`    // The DID that offers.
	To      string `query:"to"`      // The DID that the offer is for; empty for anyone.
	Channel string `query:"channel"` // A channel, such as #ops.
}

// Blob is a context to store.
type Blob struct {
	Owner   string    `query:"owner"` // The DID whose quota the content counts against.
	Content io.Reader `body:"application/octet-stream"`
}

// InboxQuery selects entries of an inbox.
type InboxQuery struct {
	DID    string `path:"did"`
	Device string `query:"device"` // Start at the position of this device.
	Watching
}

// ParticipantCall is an operation of a participant.
type ParticipantCall struct {
	DID       string                      `path:"did"` // The participant that acts: a DID for which the gateway signs, or that signs by itself.
	Operation string                      `path:"operation" enum:"acknowledge,act,check,decide,declare,explain,handoff,handoffs,inbox,moved,offer,pair,passport,place,reserve,resolve,say,store,take,whois"`
	Arguments route.Body[json.RawMessage] // The arguments of the operation.
}

// FeedQuery selects deliveries.
type FeedQuery struct {
	Link    string `query:"link"`    // A link.
	Peer    string `query:"peer"`    // A peer.
	Handoff string `query:"handoff"` // A handoff, or the end of its ID.
	Older   string `query:"older"`   // Queued at least so long ago: a duration.
	Watching
}

// DeadQuery selects dead letters.
type DeadQuery struct {
	Reason string `query:"reason"` // A reason of dead letters.
	Peer   string `query:"peer"`   // A peer.
	Watching
}

// HeldQuery selects held messages.
type HeldQuery struct {
	To string `query:"to"` // To one handle.
	Watching
}

// WebhookQuery selects webhooks.
type WebhookQuery struct {
	DID string `query:"did"` // A DID.
	Paging
}

// TopQuery selects senders.
type TopQuery struct {
	By    string `query:"by"`    // did, address or link.
	Since string `query:"since"` // A duration back from now, from 1m to 1h.
	Watching
}

// SessionQuery selects sessions.
type SessionQuery struct {
	DID string `query:"did"` // A DID: of an agent any of its DIDs.
	Paging
}

// AuditQuery selects changes.
type AuditQuery struct {
	Since string `query:"since"` // At this time or later: RFC 3339.
	Actor string `query:"actor"` // One operator.
	Watching
}

// Held is a message that waits for consent. Its sender is unverified and of another registry.
type Held struct {
	ID       int64  `json:"id"`
	From     string `json:"from"` // the handle to accept or reject
	To       string `json:"to"`   // the handle of its recipient
	Text     string `json:"text"` // its body; without one, its payload
	Received Moment `json:"received"`
}

// Arrived is one step in an inbox.
type Arrived struct {
	Cursor     federation.Cursor     `json:"cursor"` // after it
	HandoffID  federation.HandoffID  `json:"handoff_id"`
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"` // the author
	Name       string                `json:"name"`
	State      federation.State      `json:"state"` // of the handoff after the step
	Filed      Moment                `json:"filed"`
	Provenance federation.Provenance `json:"provenance"`
	Title      string                `json:"title,omitempty"`
	Note       string                `json:"note,omitempty"`
}

// Ack is the body of an acknowledgement.
type Ack struct {
	Cursor federation.Cursor `json:"cursor"`
	Device string            `json:"device,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

// Move is the body of a request to move a mailbox to another home.
type Move struct {
	Act

	Home string `json:"home"`
}

// Moved is the result of a [Move].
type Moved struct {
	DID     federation.DID `json:"did"`
	Home    string         `json:"home"`    // the home with the mailbox now
	Taken   int            `json:"taken"`   // moved entries
	Waiting int            `json:"waiting"` // entries still here
}

// Waiting is a pending delivery.
type Waiting struct {
	ID        string               `json:"id"`             // of the event, or of a message that is not a step
	Link      string               `json:"link,omitempty"` // or webhook/ID, or notices/LINK
	Peer      string               `json:"peer,omitempty"` // another registry
	HandoffID federation.HandoffID `json:"handoff_id,omitzero"`
	Verb      federation.Verb      `json:"verb,omitempty"`
	Queued    Moment               `json:"queued"`
	Attempt   int                  `json:"attempt"`
	Next      Moment               `json:"next,omitzero"` // absent if it is tried at once or waits for another delivery
	Behind    bool                 `json:"behind"`        // waits for another delivery of its handoff
	LastError string               `json:"last_error"`
	Held      bool                 `json:"held"` // an operator holds its destination
}

// Shape counts the deliveries that wait for one destination, by age.
type Shape struct {
	Link   string `json:"link,omitempty"` // or webhook/ID, or notices/LINK
	Peer   string `json:"peer,omitempty"`
	Rows   int    `json:"rows"`
	Ages   []int  `json:"ages"` // younger than 1m, 5m, 1h, 24h, and older
	Oldest Moment `json:"oldest,omitzero"`
	Held   bool   `json:"held"`
	Reason string `json:"reason,omitempty"` // why it is held
	Since  Moment `json:"held_since,omitzero"`
}

// DeadLetter is a delivery that was given up. In a list it has no attempts and no raw
// bytes.
type DeadLetter struct {
	ID        int64                 `json:"id"`
	Link      string                `json:"link,omitempty"`
	Peer      string                `json:"peer,omitempty"` // another registry
	Reason    federation.DeadReason `json:"reason"`
	LastError string                `json:"last_error"`
	EventID   federation.EventID    `json:"event_id,omitzero"`
	HandoffID federation.HandoffID  `json:"handoff_id,omitzero"`
	Verb      federation.Verb       `json:"verb,omitempty"`
	Message   string                `json:"message,omitempty"` // id of the message for a registry
	Attempt   int                   `json:"attempt"`
	Queued    Moment                `json:"queued"`
	Died      Moment                `json:"died"`
	Replayed  Moment                `json:"replayed,omitzero"`

	*DeadDetail
}

// DeadDetail has the details of a dead letter that lists leave out.
type DeadDetail struct {
	Verdict   string    `json:"verdict"` // on the signature when it was filed; "" if it cannot be read
	Raw       string    `json:"raw"`     // the signed document, or the document of a message; base64 if it is not UTF-8
	Signature string    `json:"signature,omitempty"`
	Attempts  []Attempt `json:"attempts"` // the last attempts
	Fix       string    `json:"fix"`      // possible remedies
	Broken    string    `json:"broken,omitempty"`
}

// Attempt is one failed attempt.
type Attempt struct {
	Number int    `json:"number"`
	Time   Moment `json:"time"`
	Error  string `json:"error"`
}

// Token is an operator token, without the token itself.
type Token struct {
	Name    string           `json:"name"`
	Scope   federation.Scope `json:"scope"`
	Created Moment           `json:"created"`
	Expires Moment           `json:"expires"`
}

// Session is a session of a participant, without its tokens.
type Session struct {
	ID          string           `json:"id"`
	Participant string           `json:"participant"` // a DID, or the handle of an agent
	Began       federation.Began `json:"began"`       // how
	Client      string           `json:"client"`      // as it calls itself
	Address     string           `json:"address"`     // of the client, at the start
	Created     Moment           `json:"created"`
	Used        Moment           `json:"used"` // last issue of a token
	Expires     Moment           `json:"expires"`
}

// TokenAsk asks for a token.
type TokenAsk struct {
	Name   string           `json:"name,omitempty"` // "": the scope and some digits
	Scope  federation.Scope `json:"scope"`
	TTL    string           `json:"ttl,omitempty"` // a duration, at most a year; 720h
	Reason string           `json:"reason,omitempty"`
}

// PairAsk asks for a pairing code.
type PairAsk struct {
	DID    string `json:"did"` // for which it logs in
	Reason string `json:"reason,omitempty"`
}

// PairingCode is a new pairing code.
type PairingCode struct {
	Code      string         `json:"code"` // shown only once
	DID       federation.DID `json:"did"`
	ExpiresAt Moment         `json:"expires_at"`
}

// NewToken is a token made just now.
type NewToken struct {
	Token

	Text string `json:"token"` // shown only once
}

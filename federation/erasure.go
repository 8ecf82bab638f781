package federation

import (
	"crypto/sha256"
	"time"
)

// Erasure has two digests of an erased step. They keep the log verifiable and identify repeated
// steps.
type Erasure struct {
	At       time.Time `json:"at"`
	Document [32]byte  `json:"document"` // SHA-256 of the signed document, see [Link]
	Digest   [32]byte  `json:"digest"`   // see [Event.Digest]
}

// DocumentDigest returns the SHA-256 of the signed document.
func (e Event) DocumentDigest() [32]byte {
	if e.Erased != nil {
		return e.Erased.Document
	}
	return sha256.Sum256([]byte(e.Signature.Document))
}

// FiledVerdict returns the verdict on a filed step. Only valid steps are filed, and an erased step
// cannot be verified again.
func (e Event) FiledVerdict() Verdict {
	if e.Erased != nil {
		return Unverifiable
	}
	return Valid
}

// Erase returns the step without its content. The verb, DIDs, times, venue and references to other
// steps stay, so that the lifecycle can be replayed.
func (e Event) Erase(now time.Time) Event {
	if e.Erased != nil {
		return e
	}
	from := e.Arrival
	return Event{
		ID: e.ID, Handoff: e.Handoff, Kind: e.Kind, Verb: e.Verb, From: e.From, For: e.For, To: e.To, Venue: e.Venue, Dialect: e.Dialect,
		Deadline: e.Deadline, BidDeadline: e.BidDeadline, Subject: e.Subject, Accepts: e.Accepts, Replaces: e.Replaces, Stamped: e.Stamped,
		Provenance: e.Provenance, Signature: Signature{KeyID: e.Signature.KeyID, Key: e.Signature.Key},
		Erased: &Erasure{At: now, Document: e.DocumentDigest(), Digest: e.Digest()},
		Arrival: Arrival{
			Network: from.Network, Link: from.Link, Home: from.Home, Path: from.Path, RemoteVenue: from.RemoteVenue, ReadsInbox: from.ReadsInbox,
			Received: from.Received, ActingFor: from.ActingFor, Orphaned: from.Orphaned, AcceptedFrom: from.AcceptedFrom, Place: from.Place,
		},
	}
}

// Erase returns the view without the text of the offer.
func (v View) Erase(now time.Time) View {
	v.Title, v.Caps, v.Priority, v.Erased = "", nil, "", now
	return v
}

// ErasureQuery names a person: its DIDs, and its names on links with participants.
type ErasureQuery struct {
	DIDs         []DID
	Participants []string
}

// Erasing is the result of an erasure, planned or done.
type Erasing struct {
	// Open lists the open handoffs of the person, up to [MaxOpenNamed]. If there are any, nothing
	// is erased.
	Open []HandoffID `json:"open,omitempty"`

	Handoffs  int `json:"handoffs"`
	Documents int `json:"documents"` // signed documents of steps and receipts in these handoffs
	Messages  int `json:"messages"`  // private text, in the record and in the tables of networks
	Evidence  int `json:"evidence"`  // originals behind vouched steps
	Contexts  int `json:"contexts"`
	Waiting   int `json:"waiting"` // deliveries, inbox entries, deferred and pending steps, dead letters
	Other     int `json:"other"`   // notices, kept answers, webhooks, declarations

	// Journals are the session histories kept by links. Sessions in Running are still open, and
	// their histories were not erased.
	Journals int      `json:"journals"`
	Running  []string `json:"running,omitempty"`

	// Copies are the links, peers and homes that received steps or messages.
	Copies []string `json:"copies"`

	All []HandoffID `json:"-"` // all handoffs of the person, including those erased earlier
}

// MaxOpenNamed bounds the open handoffs listed by an erasure.
const MaxOpenNamed = 20

// Purged counts the rows deleted by a purge.
type Purged struct {
	Inbox    int `json:"inbox"`    // unread entries of inboxes
	Messages int `json:"messages"` // pending entries for participants in the tables of a network
	Deferred int `json:"deferred"` // steps that waited for a key, or for the ruling of another home
	Dead     int `json:"dead"`
	Outbox   int `json:"outbox"` // deliveries to links, their peers and other homes
}

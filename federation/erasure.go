package federation

import (
	"crypto/sha256"
	"time"
)

// Erasure contains two digests of an erased step, to verify the log and detect duplicates.
type Erasure struct {
	At       time.Time `json:"at"`
	Document [32]byte  `json:"document"`
	Digest   [32]byte  `json:"digest"`
}

// DocumentDigest returns the SHA-256 of the signed document.
func (e Event) DocumentDigest() [32]byte {
	if e.Erased != nil {
		return e.Erased.Document
	}
	return sha256.Sum256([]byte(e.Signature.Document))
}

// FiledVerdict returns the verdict on a filed step. Only valid steps are filed, but an erased one can
// no longer be verified.
func (e Event) FiledVerdict() Verdict {
	if e.Erased != nil {
		return Unverifiable
	}
	return Valid
}

// Erase returns the step without its content. The verb, DIDs, times, venue and references to other
// steps remain, to replay the lifecycle.
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

// ErasureQuery names a person by its DIDs and by its names on links.
type ErasureQuery struct {
	DIDs         []DID
	Participants []string
}

// Erasing is a planned or completed erasure.
type Erasing struct {
	// Open lists at most [MaxOpenNamed] open handoffs of the person. If there are any, nothing is
	// erased.
	Open []HandoffID `json:"open,omitempty"`

	Handoffs  int `json:"handoffs"`
	Documents int `json:"documents"` // signed documents of steps and receipts in these handoffs
	Messages  int `json:"messages"`  // private text, in the record and in the tables of networks
	Evidence  int `json:"evidence"`  // originals behind vouched steps
	Contexts  int `json:"contexts"`
	Waiting   int `json:"waiting"` // deliveries, inbox entries, deferred and pending steps, dead letters
	Other     int `json:"other"`   // notices, kept answers, webhooks, declarations

	// Journals counts the erased session histories of links. Sessions in Running are open, and keep
	// their histories.
	Journals int      `json:"journals"`
	Running  []string `json:"running,omitempty"`

	// Copies lists the links, peers and homes that received steps or messages.
	Copies []string `json:"copies"`

	All []HandoffID `json:"-"` // includes those erased earlier
}

// MaxOpenNamed bounds [Erasing.Open].
const MaxOpenNamed = 20

// Purged counts the items that a purge ended and dropped, or would.
type Purged struct {
	Inbox    int `json:"inbox"`    // unread entries of inboxes
	Messages int `json:"messages"` // pending entries for participants in the tables of a network
	Deferred int `json:"deferred"` // steps that waited for a key, or for the ruling of another home
	Dead     int `json:"dead"`
	Outbox   int `json:"outbox"` // deliveries to links, their peers and other homes
}

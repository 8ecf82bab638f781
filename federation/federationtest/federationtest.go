// Package federationtest has fixtures for tests: plausible steps, people and keys, addresses for
// servers, and inputs of hostile peers. The steps have only placeholder signatures, because a
// record does not read signed documents.
package federationtest

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

// At returns a time some seconds after the start of every test.
func At(seconds int) time.Time {
	return time.Date(2026, time.November, 21, 12, 0, seconds, 0, time.UTC)
}

// ID returns the n-th event ID, with the time [At] n.
func ID(n int) federation.EventID {
	id := ulid.ULID{}
	_ = id.SetTime(ulid.Timestamp(At(n))) // fails in the year 10889
	copy(id[6:], fmt.Sprintf("%010d", n))
	return federation.EventID(id)
}

// Person returns the did:plc of a named person.
func Person(name string) federation.DID {
	return "did:plc:" + federation.DID(federation.DID(name).Hash()[:24])
}

// Key returns the public key of a DID.
func Key(did federation.DID) ed25519.PublicKey { return Signer(did).Public }

// Signer returns the signing key of a DID.
func Signer(did federation.DID) federation.SigningKey {
	seed := sha256.Sum256([]byte(did))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{Public: public, DID: did, Sign: func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}}
}

// Offer returns the n-th step: an offer in #ops on the link "oftc".
func Offer(n int, from, to federation.DID) federation.Event {
	ev := federation.Event{
		ID: ID(n), Handoff: ID(n), Kind: federation.Handoff, Verb: federation.Offer,
		From: from, To: to, Venue: "#ops", Dialect: federation.HandoffTags,
		Title: fmt.Sprintf("Review patch %d", n), Caps: []string{"go", "review"}, Deadline: At(n + 3600),
	}
	return arrive(n, ev)
}

// Step returns the n-th step, which answers an offer.
func Step(n int, offer federation.Event, verb federation.Verb, from federation.DID) federation.Event {
	ev := federation.Event{
		ID: ID(n), Handoff: offer.Handoff, Kind: offer.Kind, Verb: verb,
		From: from, Venue: offer.Venue, Dialect: offer.Dialect, ReplyTo: offer.ID.String(),
	}
	return arrive(n, ev)
}

// Adds the fields set by the wire: tags, a signature, an arrival.
func arrive(n int, ev federation.Event) federation.Event {
	ev.Provenance, ev.Stamped = federation.Signed, true
	ev.Fields = map[string]string{"id": ev.ID.String(), "verb": string(ev.Verb), "from": string(ev.From), "title": ev.Title}
	key := Key(ev.From)
	ev.Signature = federation.Signature{
		KeyID: federation.KeyID(key), Key: key, Document: Document(ev.Fields),
		Bytes: make([]byte, ed25519.SignatureSize), Text: strings.Repeat("A", 86),
	}
	ev.Arrival = federation.Arrival{
		Network: "spanningtree", Link: "oftc", Name: ev.From.Short(), MessageID: fmt.Sprintf("msg-%d", n), Received: At(n),
	}
	return ev
}

// Vouch returns a step as a gateway would file it for an agent, with the agent's message as
// evidence.
func Vouch(ev federation.Event, original string) federation.Event {
	digest := sha256.Sum256([]byte(original))
	ev.Provenance = federation.Vouched
	ev.Evidence = &federation.Evidence{
		URL: fmt.Sprintf("https://gw.example/evidence/%x", digest), Digest: digest, Bytes: []byte(original), Source: digest,
	}
	ev.Arrival.Network, ev.Arrival.Link, ev.Arrival.Name = "airc", "airc", ""
	return ev
}

// Confirm returns the n-th event, the home's receipt for a step.
func Confirm(n int, step federation.Event) federation.Event {
	ev := federation.Event{
		ID: ID(n), Handoff: step.Handoff, Kind: step.Kind, Verb: federation.Confirm,
		From: "did:web:gw.example", Venue: step.Venue, Dialect: step.Dialect, Subject: step.ID,
	}
	ev = arrive(n, ev)
	ev.Arrival = federation.Arrival{Network: "home", Link: "home", Received: At(n)}
	return ev
}

// Document returns a stand-in for the canonical document of fields.
func Document(fields map[string]string) string {
	var doc strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&doc, "%s=%s\n", name, fields[name])
	}
	return doc.String()
}

// File returns the filing of a step judged against a view. It goes to the inboxes of the other
// parties and to no link.
func File(ev federation.Event, before federation.View) federation.Filing {
	after := before
	if !before.Exists() {
		after = federation.View{
			ID: ev.Handoff, Kind: ev.Kind, Dialect: ev.Dialect, Home: "gw.example", Venue: ev.Venue,
			Offerer: ev.From, Offeree: ev.To, Title: ev.Title, Caps: ev.Caps, Deadline: ev.Deadline,
			Opened: ev.Arrival.Received,
		}
	}
	after.Version++
	after.Moved = ev.Arrival.Received
	after.State = stateAfter(ev, before.State)
	if after.State == federation.Assigned && after.Assignee == "" {
		after.Assignee = ev.From
	}
	after.Clock, after.Since, after.Over = "", time.Time{}, true
	switch after.State {
	case federation.Offered, federation.Open:
		after.Clock, after.Since, after.Over = federation.UnansweredClock, after.Moved, false
	case federation.Assigned:
		after.Clock, after.Since, after.Over = federation.AbandonedClock, after.Moved, false
	case federation.None, federation.Completed, federation.Failed, federation.Declined, federation.Cancelled, federation.Expired:
	}
	return federation.Filing{
		Event: ev, After: before.Version, View: after, Inboxes: after.Others(ev.From), Filed: ev.Arrival.Received,
	}
}

func stateAfter(ev federation.Event, before federation.State) federation.State {
	switch ev.Verb {
	case federation.Offer:
		if ev.To == "" {
			return federation.Open
		}
		return federation.Offered
	case federation.Accept, federation.Claim:
		return federation.Assigned
	case federation.Decline:
		return federation.Declined
	case federation.Complete:
		return federation.Completed
	case federation.Fail:
		return federation.Failed
	case federation.Cancel:
		return federation.Cancelled
	case federation.Expire:
		return federation.Expired
	case federation.Progress, federation.Confirm:
	}
	return before
}

// NewAgent returns an agent with two keys: one kept by the gateway and one of its own.
func NewAgent(handle string) agents.Agent {
	kept, own := federation.DID("did:key:zKept"+handle), federation.DID("did:key:zOwn"+handle)
	return agents.Agent{
		Handle: handle, DID: kept, OwnDID: own, KeptKey: Key(kept), Registered: At(1),
		Keys: []agents.Key{{ID: "k_" + handle, DID: own, Public: Key(own), Created: At(1)}},
	}
}

// Message returns a message with the n-th ID, sent at [At] n.
func Message(n int, from, to string) agents.Message {
	return agents.Message{
		ID: fmt.Sprintf("message-%d", n), From: from, To: to, Received: At(n),
		Envelope: fmt.Appendf(nil, `{"v":"0.1","body":"number %d <&>"}`, n),
	}
}

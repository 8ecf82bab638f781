// Package outboxes keeps the pending deliveries in the record: of steps to links, of messages
// to peers of a registry, and of both to webhooks. It keeps how each ended, and dead letters.
package outboxes

import "baton/federation/store/engine"

// Outboxes are the outboxes of one record. Everything may be called concurrently.
//
// The transaction that files an entry of an inbox, or a notice on the [federation.InboxLink],
// queues its deliveries to the webhooks of the inbox. The transaction that files a step queues its
// deliveries to the webhooks that follow its handoff. PeerTook, Bury and Delayed file a
// [federation.Notice] to the signer of a step, unless the network notifies the signer itself.
type Outboxes struct{ db *engine.DB }

// New returns the outboxes in a database.
func New(db *engine.DB) *Outboxes { return &Outboxes{db} }

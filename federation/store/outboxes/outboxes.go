// Package outboxes keeps the pending deliveries in the record: of steps to links, of messages
// to peers of a registry, and of both to webhooks. It keeps how each ended, and dead letters.
package outboxes

import "baton/federation/store/engine"

// Outboxes are the outboxes of one record. Everything may be called concurrently.
type Outboxes struct{ db *engine.DB }

// New returns the outboxes in a database.
func New(db *engine.DB) *Outboxes { return &Outboxes{db} }

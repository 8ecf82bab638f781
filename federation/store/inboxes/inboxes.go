// Package inboxes keeps the inbox of each DID in the record: its entries, the leases and
// devices of its readers, and the notices to the signers of steps.
package inboxes

import "baton/federation/store/engine"

// Inboxes are the inboxes of one record. Everything may be called concurrently. If several devices
// ask for an entry, the record decides which one leases it, and whose Ack counts.
type Inboxes struct{ db *engine.DB }

// New returns the inboxes in a database.
func New(db *engine.DB) *Inboxes { return &Inboxes{db} }

// Package journals keeps journals in the record: named lists of entries that links append to,
// such as the histories of sessions.
package journals

import "baton/federation/store/engine"

// Journals are the journals of one record. Everything may be called concurrently.
type Journals struct{ db *engine.DB }

// New returns the journals in a database.
func New(db *engine.DB) *Journals { return &Journals{db} }

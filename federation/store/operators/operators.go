// Package operators keeps in the record what operators decide and look at: changes with their
// authors, tokens, blocks, modes of peers, newcomers and the growth of the record.
package operators

import "baton/federation/store/engine"

// Operators are the decisions of operators in one record. Everything may be called
// concurrently.
type Operators struct{ db *engine.DB }

// New returns the decisions in a database.
func New(db *engine.DB) *Operators { return &Operators{db} }

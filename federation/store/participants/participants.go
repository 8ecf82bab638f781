// Package participants keeps in the record what belongs to the people and agents behind links:
// bindings of DIDs to names, histories of keys, sessions, declared capabilities and the answers
// to repeated requests. It also keeps which keys the gateway wrote the record with.
package participants

import (
	"baton/federation"
	"baton/federation/store/engine"
)

// Participants are the participants of one record. Everything may be called concurrently.
type Participants struct {
	db       *engine.DB
	bound    engine.Cache[boundKey, federation.BoundName]
	boundTo  engine.Cache[federation.DID, []federation.BoundName]
	bindings engine.Cache[federation.DID, federation.Binding]
}

// New returns the participants in a database.
func New(db *engine.DB) *Participants {
	s := &Participants{db: db}
	s.bound.Attach(db)
	s.boundTo.Attach(db)
	s.bindings.Attach(db)
	return s
}

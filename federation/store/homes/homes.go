// Package homes keeps in the record what is known of other homes: their addresses, their
// offences and forks, the handoffs shared with each, rulings, and where mailboxes are.
package homes

import (
	"baton/federation"
	"baton/federation/store/engine"
)

// Homes are the other homes of one record. Everything may be called concurrently.
type Homes struct {
	db        *engine.DB
	mailboxes engine.Cache[federation.DID, federation.MailboxLocation]
}

// New returns the homes in a database.
func New(db *engine.DB) *Homes {
	s := &Homes{db: db}
	s.mailboxes.Attach(db)
	return s
}

// Package handoffs keeps the logs of handoffs in the record: events, views, evidence and
// blobs, the lists of handoffs, the tombstones of pruned steps, and the steps that wait for a
// key or for a ruling of their home. Nothing is filed here: [baton/federation/store.Record.Append]
// writes a step with all that goes with it.
package handoffs

import "baton/federation/store/engine"

// Logs are the logs of one record. Everything may be called concurrently.
type Logs struct {
	db       *engine.DB
	deferred engine.Cache[struct{}, bool] // whether there is any step
}

// New returns the logs in a database.
func New(db *engine.DB) *Logs {
	s := &Logs{db: db}
	s.deferred.Attach(db)
	return s
}

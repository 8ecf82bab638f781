// Package store is the record of a home, in an SQLite file or on PostgreSQL. It implements the
// ports of the pure packages of federation, and calls the [engine.Tables] that a network keeps
// beside its own. It decides nothing about steps: home judges them before.
//
// [Open] and [OpenPostgres] return a [Record]. Each subject has a package of its own, whose
// methods the Record has:
//
//   - handoffs: logs, views, lists, evidence, and steps that wait
//   - inboxes: arrivals of a DID, its devices, leases and notices
//   - journals: what links append, such as histories of sessions
//   - outboxes: pending deliveries to links, peers and webhooks, and dead letters
//   - participants: bindings, keys, sessions
//   - homes: other homes, and where mailboxes are
//   - operators: what operators decide and look at
//
// This package has the changes of several subjects at once: [Record.Append], [Record.Prune],
// [Record.Purge], [Record.Delay] and [Record.Expire]. The package engine is the database of all
// of them. Package offline examines and copies a record that is not open, backup makes archives
// of it, and registry has the tables of a registry of agents. The tests here run
// the promises of the methods against both databases.
package store

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
	"baton/federation/store/homes"
	"baton/federation/store/inboxes"
	"baton/federation/store/journals"
	"baton/federation/store/operators"
	"baton/federation/store/outboxes"
	"baton/federation/store/participants"
)

// Record is one open record. It has the methods of its subjects, and methods that change
// several subjects at once. Everything may be called concurrently, and blocks on the disk. A
// change is durable: after a nil error it survives a power cut. Each method returns an error that
// wraps [*federation.UnavailableError] if the disk cannot be written or read now.
type Record struct {
	*handoffs.Logs
	*inboxes.Inboxes
	*journals.Journals
	*outboxes.Outboxes
	*participants.Participants
	*homes.Homes
	*operators.Operators

	db *engine.DB
}

// Open opens the record at a path, as [engine.Open] does. The tables belong to a network; nil
// is none. A record is always opened with the tables that it was made with.
func Open(ctx context.Context, path string, tables engine.Tables, reg prometheus.Registerer, pragmas ...engine.Pragma) (*Record, error) {
	db, err := engine.Open(ctx, path, tables, reg, pragmas...)
	if err != nil {
		return nil, err
	}
	return record(db), nil
}

// OpenPostgres opens the record in a PostgreSQL database, as [engine.OpenPostgres] does. The
// tables belong to a network; nil is none.
func OpenPostgres(ctx context.Context, dsn string, tables engine.Tables, reg prometheus.Registerer) (*Record, error) {
	db, err := engine.OpenPostgres(ctx, dsn, tables, reg)
	if err != nil {
		return nil, err
	}
	return record(db), nil
}

func record(db *engine.DB) *Record {
	return &Record{
		Logs:         handoffs.New(db),
		Inboxes:      inboxes.New(db),
		Journals:     journals.New(db),
		Outboxes:     outboxes.New(db),
		Participants: participants.New(db),
		Homes:        homes.New(db),
		Operators:    operators.New(db),
		db:           db,
	}
}

// Ready commits one row: nothing less proves that the disk takes writes.
func (s *Record) Ready(ctx context.Context) error { return s.db.Ready(ctx) }

// RunExclusive is [engine.DB.RunExclusive].
func (s *Record) RunExclusive(ctx context.Context, name string, do func(context.Context)) error {
	return s.db.RunExclusive(ctx, name, do)
}

// Close ends the record after the writes that a batch had taken are on disk. Later calls
// return the first result. The other methods then fail with a [*federation.UnavailableError].
func (s *Record) Close() error { return s.db.Close() }

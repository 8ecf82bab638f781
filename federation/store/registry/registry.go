// Package registry keeps a registry of agents in the record: agents with their keys, their
// messages, and consent, in tables of its own beside the tables of the core (see [engine.Tables]).
//
// [Open] and [OpenPostgres] return a [Record]: the record of the core, and the [Registry] on
// it. [Tables] gives the core the schema of both databases, the parts of its queries, and the
// writes of effects. A message about a step is filed in the transaction of the step, as a
// [federation.Effect] of the type [agents.Posting]. The queries here may join tables of the
// core; queries of the core never join these tables.
//
// Everything may be called concurrently. The errors are the errors of the record.
package registry

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

// Registry is what the record keeps of one registry.
type Registry struct {
	db     *engine.DB
	agents engine.Cache[agentName, agents.Agent]
}

// Tables are the tables of a registry as the core calls them. The zero Tables are not bound
// to a record yet.
type Tables struct{ registry *Registry }

var _ engine.Tables = Tables{}

// Record is a record with the tables of a registry.
type Record struct {
	*store.Record
	*Registry
}

// Open opens the record at a path, as [store.Open] does, with the tables of a registry.
func Open(ctx context.Context, path string, reg prometheus.Registerer, pragmas ...engine.Pragma) (*Record, error) {
	r := &Registry{}
	record, err := store.Open(ctx, path, Tables{r}, reg, pragmas...)
	if err != nil {
		return nil, err
	}
	return &Record{record, r}, nil
}

// OpenPostgres opens the record in a PostgreSQL database, as [store.OpenPostgres] does, with
// the tables of a registry.
func OpenPostgres(ctx context.Context, dsn string, reg prometheus.Registerer) (*Record, error) {
	r := &Registry{}
	record, err := store.OpenPostgres(ctx, dsn, Tables{r}, reg)
	if err != nil {
		return nil, err
	}
	return &Record{record, r}, nil
}

//go:embed schema/*.sql schema/postgres/*.sql
var schema embed.FS

// Attach implements [engine.Tables].
func (t Tables) Attach(db *engine.DB) {
	t.registry.db = db
	t.registry.agents.Attach(db)
}

// Delay implements [engine.Tables].
func (t Tables) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	return t.registry.delayHandOuts(ctx, before, now, limit)
}

// Expire implements [engine.Tables].
func (t Tables) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	return t.registry.expireHandOuts(ctx, before, now, limit)
}

// Apply implements [engine.Tables].
func (Tables) Apply(ctx context.Context, q engine.Tx, effect federation.Effect) error {
	p, ok := effect.(agents.Posting)
	if !ok {
		return fmt.Errorf("no table takes a %T", effect)
	}
	if _, err := post(ctx, q, p); err != nil {
		return fmt.Errorf("post message: %w", err)
	}
	return nil
}

// change makes a change of agents, which are cached. It goes on to its end even where the
// caller leaves: a caller that caches agents too forgets them after the change, and not
// before.
func (s *Registry) change(ctx context.Context, apply func(context.Context, engine.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, q engine.Tx) error {
		q.Then(s.agents.ForgetAll)
		return apply(ctx, q)
	})
}

// positions returns the positions in the inbox of a handle.
func positions(handle string) inboxes.Positions { return inboxes.PositionsOf("handle", handle) }

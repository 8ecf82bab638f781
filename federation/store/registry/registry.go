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
	"baton/federation/store/offline"
	"baton/federation/store/queue"
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
func Open(ctx context.Context, path string, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	r := &Registry{}
	record, err := store.Open(ctx, path, Tables{r}, reg, options...)
	if err != nil {
		return nil, err
	}
	return &Record{record, r}, nil
}

// OpenPostgres opens the record in a PostgreSQL database, as [store.OpenPostgres] does, with
// the tables of a registry.
func OpenPostgres(ctx context.Context, dsn string, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	r := &Registry{}
	record, err := store.OpenPostgres(ctx, dsn, Tables{r}, reg, options...)
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

// SQL implements [engine.Tables].
func (Tables) SQL() engine.SQL {
	return engine.SQL{
		Schema: schema,
		Known: `(EXISTS (SELECT 1 FROM agent WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM agent WHERE own_did = ?1)
			OR EXISTS (SELECT 1 FROM agent_key WHERE did = ?1))`,
		Used: `EXISTS (SELECT 1 FROM agent WHERE handle > '')`,
		Reached: `(EXISTS (SELECT 1 FROM actor r JOIN agent a ON a.did = r.did OR a.own_did = r.did WHERE r.n = i.did)
			OR EXISTS (SELECT 1 FROM actor r JOIN agent_key k ON k.did = r.did WHERE r.n = i.did)
			OR EXISTS (SELECT 1 FROM event o JOIN actor r ON r.n = i.did JOIN bound_name n ON n.did = r.did AND n.network = '` + agents.Link + `'
				JOIN message m ON m.recipient = n.name AND m.event = o.id WHERE o.seq = i.event))`,
		Deliveries: `SELECT s.seq, s.id, '` + agents.Link + `', m.recipient,
				CASE WHEN m.ended IS NOT NULL THEN m.outcome WHEN h.state = 'expired' THEN 'expired' ELSE 'waiting' END, 0, 0, '',
				CASE WHEN m.ended IS NOT NULL THEN m.ended WHEN h.state = 'expired' THEN h.moved ELSE 0 END
			FROM message m JOIN event s ON s.id = m.event AND s.handoff || '' = m.handoff JOIN agent a ON a.handle = m.recipient JOIN handoff h ON h.id = m.handoff
			WHERE m.handoff = ?1 AND s.version > 0`,
		Orphans: []string{
			`SELECT 'keys of agent ' || k.handle, 'are of nobody' FROM agent_key k
				WHERE NOT EXISTS (SELECT 1 FROM agent a WHERE a.handle = k.handle)`,
			`SELECT 'skill ' || s.skill, 'is of nobody' FROM agent_skill s
				WHERE NOT EXISTS (SELECT 1 FROM agent a WHERE a.n = s.agent)`,
		},
		DocumentStep: `(SELECT s.seq FROM message m JOIN event s ON s.id = m.event AND s.handoff || '' = m.handoff
			WHERE m.id = r.message AND m.sender = r.sender ORDER BY m.n DESC LIMIT 1)`,
		DocumentTold: `EXISTS (SELECT 1 FROM agent WHERE handle = ?1)`,
		Waiting: `SELECT CAST(?2 AS bigint) AS destination, m.n + ` + queue.MessageBase + ` AS item, coalesce(m.handoff, m.sender) AS lane, coalesce(s.n, 0) AS sender, m.received AS queued
			FROM agent a JOIN message m ON m.recipient = a.handle AND m.position > a.shown AND m.deleted = 0 LEFT JOIN actor s ON s.did = m.sender WHERE a.handle = ?1`,
		ItemStep:   `(SELECT e.seq FROM message m JOIN event e ON e.id = m.event AND e.handoff || '' = m.handoff WHERE m.n = f.item - ` + queue.MessageBase + `)`,
		ItemsNamed: `SELECT n + ` + queue.MessageBase + ` FROM message WHERE recipient = ?4 AND (event = ?3 OR id = ?3)`,
	}
}

// Location is where a record is: in an SQLite file, or in a PostgreSQL database.
type Location struct {
	Path string // of the file
	DSN  string // the connection string of the database; "" for a file
}

// Open opens the record and brings an older one forward.
func (l Location) Open(ctx context.Context, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	if l.DSN != "" {
		return OpenPostgres(ctx, l.DSN, reg, options...)
	}
	return Open(ctx, l.Path, reg, options...)
}

// Examine examines the whole record, as [offline.Examine] does.
func (l Location) Examine(ctx context.Context, rules offline.Rules) (offline.Report, error) {
	if l.DSN != "" {
		return offline.ExaminePostgres(ctx, l.DSN, Tables{}, rules)
	}
	return offline.Examine(ctx, l.Path, Tables{}, rules)
}

// Upgrade brings an older record forward, as [engine.Migrate] does, or with dry reports what that
// would do. It writes lines about a long upgrade, as [engine.Lines] does.
func (l Location) Upgrade(ctx context.Context, dry bool, now time.Time, write func(line string)) (engine.Upgrade, error) {
	switch {
	case l.DSN != "" && dry:
		return engine.PlanPostgres(ctx, l.DSN)
	case l.DSN != "":
		return engine.MigratePostgres(ctx, l.DSN, Tables{}, engine.Lines(write))
	case dry:
		return engine.Plan(ctx, l.Path)
	}
	return engine.Migrate(ctx, l.Path, Tables{}, now, engine.Lines(write))
}

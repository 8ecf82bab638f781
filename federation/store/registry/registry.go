// Package registry stores a registry of agents in the record: agents with their keys, their
// messages, and consent, in its own tables next to the tables of the core (see [engine.Tables]).
//
// A message about a step is filed in the transaction of the step, as a [federation.Effect] of the
// type [agents.Posting]. The queries here may join tables of the core, but not vice versa.
//
// All methods are safe for concurrent use, and return the errors of the record.
package registry

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/store"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// Registry is the part of the record for one registry.
type Registry struct {
	db     *engine.DB
	agents engine.Cache[agentName, agents.Agent]
}

// Tables are the tables of a registry for the core. The zero Tables are not bound to a record yet.
type Tables struct{ registry *Registry }

var _ engine.Tables = Tables{}

// Record is a record with the tables of a registry.
type Record struct {
	*store.Record
	*Registry
}

// Open opens the record at a path, like [store.Open], with the tables of a registry.
func Open(ctx context.Context, path string, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	r := &Registry{}
	record, err := store.Open(ctx, path, Tables{r}, reg, options...)
	if err != nil {
		return nil, err
	}
	return &Record{record, r}, nil
}

// OpenPostgres opens the record in a PostgreSQL database, like [store.OpenPostgres], with the
// tables of a registry.
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
		return fmt.Errorf("no table stores a %T", effect)
	}
	if _, err := post(ctx, q, p); err != nil {
		return fmt.Errorf("post message: %w", err)
	}
	return nil
}

// Completes even if the caller's context ends. A caller with a cache of agents must invalidate it
// after the change, not before.
func (s *Registry) change(ctx context.Context, apply func(context.Context, engine.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, q engine.Tx) error {
		q.Then(s.agents.ForgetAll)
		q.Then(s.db.KeyOwners.ForgetAll)
		return apply(ctx, q)
	})
}

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
		ItemName:   `(SELECT m.id FROM message m WHERE m.n = f.item - ` + queue.MessageBase + `)`,
		ItemsNamed: `SELECT n + ` + queue.MessageBase + ` FROM message WHERE recipient = ?4 AND (event = ?3 OR id = ?3)`,
	}
}

// Location is the location of a record: an SQLite file, or a PostgreSQL database.
type Location struct {
	Path string
	DSN  string // "" for a file
}

// Open opens the record and upgrades an older one.
func (l Location) Open(ctx context.Context, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	if l.DSN != "" {
		return OpenPostgres(ctx, l.DSN, reg, options...)
	}
	return Open(ctx, l.Path, reg, options...)
}

// Examine examines a whole record, like [fsck.Examine].
func (l Location) Examine(ctx context.Context, rules fsck.Rules) (fsck.Report, error) {
	if l.DSN != "" {
		return fsck.ExaminePostgres(ctx, l.DSN, Tables{}, rules)
	}
	return fsck.Examine(ctx, l.Path, Tables{}, rules)
}

// Upgrade upgrades an older record, like [engine.Migrate]. With dry, it only plans the upgrade. It
// reports a long upgrade in lines, like [engine.Lines].
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

// Bound is a record with the bindings of operators. An agent has the DIDs bound to its handle, and
// a DID with an account is known even before its first step.
type Bound struct {
	*Record

	Names BoundNames
	// Forget is called with the DID of each key of an agent whose keys changed.
	Forget func(federation.DID)
}

// RotateKey is [Record.RotateKey].
func (r Bound) RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error) {
	agent, err := r.Record.RotateKey(ctx, handle, by, key, now, until)
	r.changed(agent)
	return agent, err
}

// RevokeKey is [Record.RevokeKey].
func (r Bound) RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error) {
	agent, err := r.Record.RevokeKey(ctx, handle, by, kid, reason, now)
	r.changed(agent)
	return agent, err
}

// RevokeAgent is [Record.RevokeAgent].
func (r Bound) RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error {
	if err := r.Record.RevokeAgent(ctx, handle, by, reason, now); err != nil {
		return err
	}
	agent, err := r.Record.Agent(ctx, handle)
	r.changed(agent)
	return err
}

// ProveKey is [Record.ProveKey].
func (r Bound) ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error) {
	if _, err := r.Record.ProveKey(ctx, handle, kid, did, now); err != nil {
		return agents.Agent{}, err
	}
	r.Forget(did)
	return r.Agent(ctx, handle)
}

// ReleaseHandle is [Record.ReleaseHandle].
func (r Bound) ReleaseHandle(ctx context.Context, handle string, now time.Time) error {
	before, err := r.Agent(ctx, handle)
	if err == nil {
		err = r.Record.ReleaseHandle(ctx, handle, now)
	}
	r.changed(before)
	return err
}

func (r Bound) changed(agent agents.Agent) {
	for _, key := range agent.Keys {
		if key.Proved() {
			r.Forget(key.DID)
		}
	}
}

// Agent is [Record.Agent], with the DID bound to the handle.
func (r Bound) Agent(ctx context.Context, handle string) (agents.Agent, error) {
	agent, err := r.Record.Agent(ctx, handle)
	if err != nil {
		return agent, err
	}
	b, err := r.Names.Bound(ctx, agents.Link, handle)
	if errors.Is(err, federation.ErrNotFound) {
		return agent, nil
	}
	agent.Bound = b
	return agent, err
}

// IsAgent reports whether a DID belongs to an agent.
func (r Bound) IsAgent(ctx context.Context, did federation.DID) (bool, error) {
	_, err := r.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// AgentOf is [Record.AgentOf], and also finds an agent by a DID bound to its handle.
func (r Bound) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	agent, err := r.Record.AgentOf(ctx, did)
	if err == nil {
		return r.Agent(ctx, agent.Handle)
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return agent, err
	}
	bound, err := r.Names.Of(ctx, did)
	if err != nil {
		return agents.Agent{}, err
	}
	for _, b := range bound {
		if b.Network == agents.Link {
			return r.Agent(ctx, b.Name)
		}
	}
	return agents.Agent{}, fmt.Errorf("look up agent of %s: %w", did, federation.ErrNotFound)
}

// SessionNames returns the owners of the sessions of the participant with the given DID: its DIDs,
// and the handle of an agent.
func (r Bound) SessionNames(ctx context.Context, did federation.DID) ([]string, error) {
	names := []string{string(did)}
	agent, err := r.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	names = append(names, agent.Handle)
	for _, other := range agent.DIDs() {
		if other != did {
			names = append(names, string(other))
		}
	}
	return names, nil
}

// DeclaresItself reports whether a DID is an agent of the registry, or declared a name or
// capabilities.
func (r Bound) DeclaresItself(ctx context.Context, did federation.DID) (bool, error) {
	if known, err := r.IsAgent(ctx, did); known || err != nil {
		return known, err
	}
	declaration, err := r.Declaration(ctx, did)
	return declaration.Name != "" || len(declaration.Caps) > 0, err
}

// Declared returns the distinct capabilities of a DID: declared ones, and the skills registered by
// its agent.
func (r Bound) Declared(ctx context.Context, did federation.DID) ([]string, error) {
	declaration, err := r.Declaration(ctx, did)
	if err != nil {
		return nil, err
	}
	said := slices.Clone(declaration.Caps)
	agent, err := r.AgentOf(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	var registered struct {
		Skills []string `json:"skills"`
	}
	if len(agent.Capabilities) > 0 {
		if err := federation.DecodeJSON(agent.Capabilities, &registered); err != nil {
			return nil, fmt.Errorf("read capabilities of %s: %w", agent.Handle, err)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(append(said, registered.Skills...)))), nil
}

// Binding is [Record.Binding]. For a DID without a signed step, it returns the binding of its
// account.
func (r Bound) Binding(ctx context.Context, did federation.DID) (federation.Binding, error) {
	b, err := r.Record.Binding(ctx, did)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	bound, ofErr := r.Names.Of(ctx, did)
	if ofErr != nil {
		return b, ofErr
	}
	for _, name := range bound {
		if name.Network != agents.Link {
			return federation.Binding{DID: did, Link: name.Network, Name: name.Name, First: name.Name}, nil
		}
	}
	return b, err
}

// BindingByHash is [Record.BindingByHash], and also finds the DIDs of bindings.
func (r Bound) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	b, err := r.Record.BindingByHash(ctx, prefix)
	if !errors.Is(err, federation.ErrNotFound) {
		return b, err
	}
	did, ofErr := r.Names.ByHash(ctx, prefix)
	switch {
	case ofErr != nil:
		return b, ofErr
	case did == "":
		return b, err
	}
	if b, err = r.Binding(ctx, did); errors.Is(err, federation.ErrNotFound) {
		return federation.Binding{DID: did}, nil
	}
	return b, err
}

// BoundNames looks up the names of DIDs. A binding in the configuration takes precedence over one
// in the record, so each name has one DID.
type BoundNames struct {
	Record     *Record
	Configured func() []federation.BoundName // may change while the gateway runs
}

// Bound returns the binding of a name, or [federation.ErrNotFound].
func (n BoundNames) Bound(ctx context.Context, network, name string) (federation.BoundName, error) {
	if b, ok := n.configuredAs(network, name); ok {
		return b, nil
	}
	return n.Record.BoundName(ctx, network, name)
}

// Of returns the bindings of a DID, beginning with the configuration.
func (n BoundNames) Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	var all []federation.BoundName
	for _, b := range n.Configured() {
		if b.DID == did {
			all = append(all, b)
		}
	}
	kept, err := n.Record.NamesOf(ctx, did)
	for _, b := range kept {
		if _, overruled := n.configuredAs(b.Network, b.Name); !overruled {
			all = append(all, b)
		}
	}
	return all, err
}

func (n BoundNames) configuredAs(network, name string) (federation.BoundName, bool) {
	all := n.Configured()
	i := slices.IndexFunc(all, func(b federation.BoundName) bool { return b.Network == network && b.Name == name })
	if i < 0 {
		return federation.BoundName{}, false
	}
	return all[i], true
}

const namesPage = 500

// ByHash returns the only DID of all bindings whose hash has a prefix, or "" for none or several.
// It reads all bindings, because operators create them by hand and there are never many.
func (n BoundNames) ByHash(ctx context.Context, prefix string) (federation.DID, error) {
	all, last := slices.Clone(n.Configured()), federation.BoundName{}
	for more := true; more; {
		page, err := n.Record.BoundNames(ctx, last.Network, last.Name, namesPage)
		if err != nil {
			return "", err
		}
		if more = len(page) == namesPage; more {
			last = page[namesPage-1]
		}
		all = append(all, page...)
	}
	var found federation.DID
	for _, b := range all {
		switch {
		case !strings.HasPrefix(b.DID.Hash(), prefix) || b.DID == found:
		case found != "":
			return "", nil
		default:
			found = b.DID
		}
	}
	return found, nil
}

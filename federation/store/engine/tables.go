package engine

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Tables are the tables of a network for its own participants, in the same database as the tables
// of the core. Methods with a [Tx] run in the transaction of a write, and block on the database.
// Their errors undo that write.
type Tables interface {
	// Attach passes their database to the tables, once, before any other call.
	Attach(db *DB)
	// SQL returns the migrations of the tables, and their parts of the core's queries.
	SQL() SQL
	// Apply writes an effect. It returns an error for an effect of other tables.
	Apply(ctx context.Context, q Tx, effect federation.Effect) error
	// Content returns the row for a participant's webhook in these tables. An unreadable row is not
	// an error; broken is the reason.
	Content(ctx context.Context, q Tx, participant string, item int64) (content federation.Content, broken string, err error)
	// Notifier returns the link that notifies a DID about its webhooks, or "" if the DID is not a
	// participant.
	Notifier(ctx context.Context, q Tx, did federation.DID) (link string, err error)
	// Forget deletes the rows of a pruned handoff.
	Forget(ctx context.Context, q Tx, handoff string) error
	// Purge deletes the pending rows of some DIDs and participants, both JSON arrays, or only
	// counts them if dry.
	Purge(ctx context.Context, q Tx, dids, participants string, dry bool) (int, error)
	// Erasable counts the messages that [Tables.Erase] would erase, and returns the peers that
	// received any of them.
	Erasable(ctx context.Context, q Tx, handoffs, participants string) (messages int, peers []string, err error)
	// Erase erases the messages of some handoffs, and of names on links, both JSON arrays.
	Erase(ctx context.Context, q Tx, handoffs, participants string, now time.Time) error
	// Delay files a [federation.NoticeDelayed] for up to limit steps filed for participants at or
	// before a given time and not fetched yet.
	Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error)
	// Expire abandons up to limit such steps.
	Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error)
	// PeerDeliveryEnded records that a delivery to a peer ended, as delivered or abandoned.
	PeerDeliveryEnded(ctx context.Context, q Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error
}

// SQL is the part of a network in the core: its migrations, and parts of queries that the core
// inserts into its own. An empty part means tables without such a row.
type SQL struct {
	// Schema has the migrations of the tables: schema/NNNN_name.sql for SQLite, and
	// schema/postgres/NNNN_name.sql. Each runs after the record's own migration of its version.
	Schema fs.FS
	// Known is a condition: the DID ?1 is a participant.
	Known string
	// Used is a condition: there is any participant.
	Used string
	// Reached is a condition: the step of the entry i of an inbox reaches its DID by these
	// tables.
	Reached string
	// Deliveries is a SELECT of the deliveries of the steps of handoff ?1, with the columns of
	// [deliveries.Outboxes.Deliveries].
	Deliveries string
	// Orphans are SELECTs of orphaned rows: their place and a description.
	Orphans []string
	// DocumentStep is the seq of the event that the document r carries, or NULL.
	DocumentStep string
	// DocumentTold is a condition: the network itself reports to the sender ?1 the deliveries of
	// its documents.
	DocumentTold string
	// Waiting is a SELECT of the pending items of the participant ?1, as deliveries to the
	// destination ?2 of a webhook: destination, item, lane, sender and queueing time.
	Waiting string
	// ItemStep is the seq of the event that f.item carries, or NULL.
	ItemStep string
	// ItemName is the ID of the message that f.item carries, or NULL.
	ItemName string
	// ItemsNamed is a SELECT of the items of the participant ?4 with the reference ?3.
	ItemsNamed string
}

// Queries without a network's part must run too.
func (p SQL) filled() SQL {
	const never = `1 = 0`
	p.Known, p.Used = cmp.Or(p.Known, never), cmp.Or(p.Used, never)
	p.Reached, p.DocumentTold = cmp.Or(p.Reached, never), cmp.Or(p.DocumentTold, never)
	const nothing = `CAST(NULL AS bigint)`
	p.DocumentStep, p.ItemStep = cmp.Or(p.DocumentStep, nothing), cmp.Or(p.ItemStep, nothing)
	p.ItemName = cmp.Or(p.ItemName, `CAST(NULL AS text)`)
	p.ItemsNamed = cmp.Or(p.ItemsNamed, `SELECT seq FROM event WHERE id = ?3 AND ?4 = ''`)
	p.Waiting = cmp.Or(p.Waiting, `SELECT CAST(?2 AS bigint) AS destination, seq AS item, handoff AS lane, signer AS sender, filed AS queued FROM event WHERE id = ?1 AND seq < 0`)
	return p
}

func (s *DB) attach(t Tables) *DB {
	if t != nil {
		s.Tables, s.Parts = t, t.SQL()
		t.Attach(s)
	}
	s.Parts = s.Parts.filled()
	s.KeyOwners.Attach(s)
	return s
}

// Dialect is the database of a query. Queries use the common syntax of SQLite and PostgreSQL;
// Dialect covers the remaining differences.
type Dialect int

// The databases.
const (
	InSQLite Dialect = iota
	InPostgres
)

// Parameters are written for SQLite, "?" and "?1"; PostgreSQL has only "$1". Quoted text has no
// question marks here.
func (d Dialect) rebind(query string) string {
	if d == InSQLite {
		return query
	}
	var said strings.Builder
	last := 0
	for before, after, found := strings.Cut(query, "?"); ; before, after, found = strings.Cut(after, "?") {
		said.WriteString(before)
		if !found {
			return said.String()
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		n, err := strconv.Atoi(after[:digits])
		if err != nil { // a bare one
			n = last + 1
		}
		last, after = max(last, n), after[digits:]
		said.WriteString("$" + strconv.Itoa(n))
	}
}

func (d Dialect) values(args []any) ([]any, error) {
	if d == InSQLite {
		return args, nil // its driver does the same
	}
	values := make([]any, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		if truth, ok := value.(bool); ok {
			value = int64(0)
			if truth {
				value = int64(1)
			}
		}
		values[i] = value
	}
	return values, nil
}

// Tail returns the expression for the last characters of a text.
func (d Dialect) Tail(text, length string) string {
	if d == InPostgres {
		return "right(" + text + ", " + length + ")"
	}
	return "substr(" + text + ", -" + length + ")"
}

const maxRemembered = 1 << 14

// Cache caches rows that rarely change, and absent rows, because several links read each step. If
// several processes may open a record, nothing is cached. The zero Cache is empty. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	off   bool // set before first use
	mu    sync.Mutex
	kept  map[K]*V // nil for an absent row
	edges uint64   // counts the invalidations
}

// Attach turns the cache off for a record that other processes may write to. Call it before the
// first use.
func (r *Cache[K, V]) Attach(db *DB) { r.off = db.Replicated() }

// Off reports whether the cache is off.
func (r *Cache[K, V]) Off() bool { return r.off }

// Find returns the cached value of a key, otherwise the result of look. Callers share the value,
// and must not change it. The only cached error is [federation.ErrNotFound].
func (r *Cache[K, V]) Find(key K, look func() (V, error)) (V, error) {
	r.mu.Lock()
	value, known := r.kept[key]
	edge := r.edges
	r.mu.Unlock()
	if !known {
		found, err := look()
		switch {
		case err == nil:
			value = &found
		case !errors.Is(err, federation.ErrNotFound):
			return found, err
		}
		r.remember(key, value, edge)
	}
	if value == nil {
		return *new(V), federation.ErrNotFound
	}
	return *value, nil
}

// Peek returns the cached value of a key without a lookup.
func (r *Cache[K, V]) Peek(key K) (value V, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.kept[key]; found != nil {
		return *found, true
	}
	return value, false
}

// A row that may have changed since it was read is not cached.
func (r *Cache[K, V]) remember(key K, value *V, edge uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off || edge != r.edges {
		return
	}
	if r.kept == nil || len(r.kept) >= maxRemembered {
		r.kept = map[K]*V{}
	}
	r.kept[key] = value
}

// Forget drops a key. Call it at the end of each transaction that may have changed its row, see
// [Tx.Then].
func (r *Cache[K, V]) Forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, key)
	r.edges++
}

// ForgetAll is Forget for all keys.
func (r *Cache[K, V]) ForgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = nil
	r.edges++
}

// Known caches committed rows that no replica ever deletes or changes. The zero Known is empty. It
// is safe for concurrent use.
type Known[K comparable] struct {
	mu   sync.Mutex
	kept map[K]struct{}
}

// Has reports whether a row is cached.
func (k *Known[K]) Has(row K) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.kept[row]
	return known
}

// Add caches rows. Call it after the commit of a write that wrote or found them.
func (k *Known[K]) Add(rows ...K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, row := range rows {
		if k.kept == nil || len(k.kept) >= maxRemembered {
			k.kept = map[K]struct{}{}
		}
		k.kept[row] = struct{}{}
	}
}

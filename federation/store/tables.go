package store

import (
	"cmp"
	"context"
	"io/fs"
	"time"

	"baton/federation"
)

// Tables are the tables of a network that keeps its own participants in the record, beside
// the tables of the core and in the same database: a write of the network about a step joins
// the transaction of the step. The core calls these methods, and does not look inside.
//
// Methods with a [Tx] run in the transaction of a write, and block on the database. Their
// errors undo that write.
type Tables interface {
	// Attach gives the tables the record that they are in, once, before anything else.
	Attach(r *Record)
	// Schema returns the migrations that make the tables, one for each version of the record:
	// schema/NNNN_name.sql for SQLite, and schema/postgres/NNNN_name.sql. Each runs after the
	// record's own migration of its version.
	Schema() fs.FS
	// Queries returns the parts of queries that the core cannot know.
	Queries() Queries
	// Apply makes the write that an effect of a step is. It returns an error for an effect
	// that is none of these tables.
	Apply(ctx context.Context, q Tx, effect federation.Effect) error
	// Content returns what a webhook of a participant is to be given: its row in these
	// tables. A row that cannot be read is no error: broken says why.
	Content(ctx context.Context, q Tx, participant string, item int64) (content federation.Content, broken string, err error)
	// Notifier returns the link on which a DID is told of its webhooks, "" for a DID that
	// is no participant.
	Notifier(ctx context.Context, q Tx, did federation.DID) (link string, err error)
	// Forget drops what belongs to a handoff that is pruned.
	Forget(ctx context.Context, q Tx, handoff string) error
	// Purge drops what waits of some DIDs and participants, both JSON arrays, or where dry
	// only counts it.
	Purge(ctx context.Context, q Tx, dids, participants string, dry bool) (int, error)
	// Delay files a [federation.NoticeDelayed] for up to limit steps that were filed for
	// participants at or before a time, and which these have not fetched.
	Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error)
	// Expire gives up to limit of them up.
	Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error)
	// PeerDeliveryEnded notes that a relay was delivered or given up.
	PeerDeliveryEnded(ctx context.Context, q Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error
}

// Queries are parts of SQL that the core puts into queries of its own. An empty one stands
// for tables that have no such row. Parameters are numbered as each says.
type Queries struct {
	// Known is a condition: the DID ?1 is a participant.
	Known string
	// Used is a condition: there is any participant.
	Used string
	// Reached is a condition: the step of the entry i of an inbox reaches its DID by these
	// tables.
	Reached string
	// Deliveries is a SELECT of what became of the steps of the handoff ?1, with the
	// columns of [Record.Deliveries].
	Deliveries string
	// Orphans are SELECTs of rows that belong to nothing: where, and what.
	Orphans []string
	// PeerDeliveryStep is the seq of the event that the relay r carries, or NULL.
	PeerDeliveryStep string
	// PeerDeliveryTold is a condition: the network itself tells the sender ?1 what becomes of its
	// relays.
	PeerDeliveryTold string
	// Waiting is a SELECT of the items that wait for the participant ?1, as rows to push to
	// the webhook ?2: webhook, item, order key and the time that it was queued.
	Waiting string
	// ItemStep is the seq of the event that the item ?1 carries, or NULL.
	ItemStep string
	// ItemsNamed is a SELECT of the items of the participant ?4 that the reference ?3 names.
	ItemsNamed string
	// StepItem is the item that carries the event ?2 to the participant of the webhook h, or
	// NULL.
	StepItem string
}

// filled returns queries that run without any table of a network.
func (p Queries) filled() Queries {
	const never = `1 = 0`
	p.Known, p.Used = cmp.Or(p.Known, never), cmp.Or(p.Used, never)
	p.Reached, p.PeerDeliveryTold = cmp.Or(p.Reached, never), cmp.Or(p.PeerDeliveryTold, never)
	const nothing = `CAST(NULL AS bigint)`
	p.PeerDeliveryStep, p.ItemStep, p.StepItem = cmp.Or(p.PeerDeliveryStep, nothing), cmp.Or(p.ItemStep, nothing), cmp.Or(p.StepItem, nothing)
	p.ItemsNamed = cmp.Or(p.ItemsNamed, `SELECT seq FROM event WHERE id = ?3 AND ?4 = ''`)
	p.Waiting = cmp.Or(p.Waiting, `SELECT ?2, seq, handoff, filed FROM event WHERE id = ?1 AND seq < 0`)
	return p
}

// attach gives a record the tables of a network; nil is none.
func (s *Record) attach(t Tables) *Record {
	if t != nil {
		s.tables, s.parts = t, t.Queries()
		t.Attach(s)
	}
	s.parts = s.parts.filled()
	return s
}

// Tx runs queries in the transaction of a write, or reads committed rows. Queries are
// constants in SQL that SQLite and PostgreSQL both understand, since each is parsed once. Its
// errors are the errors of the record: [federation.ErrNotFound] for a missing row,
// [*federation.UnavailableError] for a disk that cannot be used now.
type Tx struct{ q *statements }

// Exec returns how many rows changed.
func (t Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return t.q.exec(ctx, query, args...)
}

// Row reads the first row into dest.
func (t Tx) Row(ctx context.Context, query string, args []any, dest ...any) error {
	return t.q.row(ctx, query, args, dest...)
}

// Then has something done when the transaction is over, however that ends, and before the
// callers that wrote in it go on.
func (t Tx) Then(do func()) { t.q.then(do) }

// Scanner is one row of an answer.
type Scanner = scanner

// Rows reads all rows, each with scan.
func Rows[T any](ctx context.Context, t Tx, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	return rows(ctx, t.q, scan, query, args...)
}

// ScanOne reads a row of one column.
func ScanOne[T any](row Scanner) (T, error) { return scanOne[T](row) }

// AtMost ends a query that returns a bounded number of rows.
const AtMost = atMost

// Stamp returns a time as it is kept, and Moment the time that was.
func Stamp(t time.Time) int64 { return stamp(t) }

// Moment returns the time of a stamp.
func Moment(at int64) time.Time { return moment(at) }

// OrNull keeps an absent name out of unique indexes.
func OrNull(text string) any { return orNull(text) }

// NotNull keeps absent bytes as empty ones.
func NotNull(b []byte) []byte { return notNull(b) }

// Reads returns what reads the record, as it was committed.
func (s *Record) Reads() Tx { return Tx{s.reads} }

// Write makes one change and waits until it is on disk. When Write returns an error, apply
// may still be running: [Written] returns an answer safely.
func (s *Record) Write(ctx context.Context, apply func(context.Context, Tx) error) error {
	return s.write(ctx, func(ctx context.Context, q *statements) error { return apply(ctx, Tx{q}) })
}

// Written makes one change and returns what it answered.
func Written[T any](ctx context.Context, s *Record, apply func(context.Context, Tx) (T, error)) (T, error) {
	return written(ctx, s, func(ctx context.Context, q *statements) (T, error) { return apply(ctx, Tx{q}) })
}

// Replicated reports whether other processes may write to the record too.
func (s *Record) Replicated() bool { return s.leases != nil }

// ClaimBlob keeps a blob as long as a handoff; "" is none.
func ClaimBlob(ctx context.Context, t Tx, handoff string, capability federation.Capability) error {
	return claimBlob(ctx, t.q, handoff, capability)
}

// Enqueue queues a relay in the transaction of a write.
func Enqueue(ctx context.Context, t Tx, r federation.PeerDelivery) error { return enqueue(ctx, t.q, r) }

// OwnKey notes the owner of a key. The first DID keeps it.
func OwnKey(ctx context.Context, t Tx, key []byte, owner federation.DID) error {
	return ownKey(ctx, t.q, key, owner)
}

// PutWindow notes in the history of a DID when a key was good.
func PutWindow(ctx context.Context, t Tx, w federation.KeyWindow) error {
	return putWindow(ctx, t.q, w)
}

// NoteStep files a notice about a step of the record, by its seq.
func NoteStep(ctx context.Context, t Tx, step int64, n federation.Notice) error {
	return noteStep(ctx, t.q, step, n)
}

// DecodeView reads a row of one view.
func DecodeView(row Scanner) (federation.View, error) { return scanView(row) }

// Positions names the inbox of a participant in its cursors, so that a cursor of another
// inbox is told apart.
type Positions struct{ ref inboxRef }

// PositionsOf returns the positions in one inbox.
func PositionsOf(kind, owner string) Positions { return Positions{newInboxRef(kind, owner)} }

// At returns the cursor after the n-th entry.
func (p Positions) At(n uint64) federation.Cursor { return p.ref.cursor(n) }

// Parse returns the number of the entry before a cursor, 0 for the start. It returns
// [federation.ErrUnknownCursor] for a cursor that is none of this inbox.
func (p Positions) Parse(c federation.Cursor) (n uint64, err error) {
	err = p.ref.parse(c, &n)
	return n, err
}

// Cache keeps what was read of rows that hardly ever change, and which are not there. It
// may be used concurrently.
type Cache[K comparable, V any] struct{ kept remembered[K, V] }

// Attach turns the cache off for a record that other processes may write to. It is called
// before the first use.
func (c *Cache[K, V]) Attach(r *Record) { c.kept.off = r.Replicated() }

// Find returns what is kept under a key, or else what look says. Callers share what is
// returned, and must not change it. [federation.ErrNotFound] is kept, and no other error.
func (c *Cache[K, V]) Find(key K, look func() (V, error)) (V, error) { return c.kept.find(key, look) }

// ForgetAll drops what is kept. It is called at the end of each transaction that may have
// changed such a row, see [Tx.Then].
func (c *Cache[K, V]) ForgetAll() { c.kept.forgetAll() }

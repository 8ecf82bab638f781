package engine

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
	// Attach gives the tables the database that they are in, once, before anything else.
	Attach(db *DB)
	// SQL returns the migrations of the tables, and the parts of queries that the core cannot know.
	SQL() SQL
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
	// Erasable counts the messages that [Tables.Erase] would erase, and returns the peers that
	// were given any of them.
	Erasable(ctx context.Context, q Tx, handoffs, participants string) (messages int, peers []string, err error)
	// Erase erases the messages of some handoffs, and of names on links, both JSON arrays.
	Erase(ctx context.Context, q Tx, handoffs, participants string, now time.Time) error
	// Delay files a [federation.NoticeDelayed] for up to limit steps that were filed for
	// participants at or before a time, and which these have not fetched.
	Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error)
	// Expire gives up to limit of them up.
	Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error)
	// PeerDeliveryEnded notes that a relay was delivered or given up.
	PeerDeliveryEnded(ctx context.Context, q Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error
}

// SQL is what the core takes of a network: migrations, and parts of queries that it puts into
// its own. An empty part stands for tables that have no such row. Parameters are numbered as
// each part says.
type SQL struct {
	// Schema has the migrations that make the tables, one for each version of the record:
	// schema/NNNN_name.sql for SQLite, and schema/postgres/NNNN_name.sql. Each runs after the
	// record's own migration of its version.
	Schema fs.FS
	// Known is a condition: the DID ?1 is a participant.
	Known string
	// Used is a condition: there is any participant.
	Used string
	// Reached is a condition: the step of the entry i of an inbox reaches its DID by these
	// tables.
	Reached string
	// Deliveries is a SELECT of what became of the steps of the handoff ?1, with the
	// columns of [outboxes.Outboxes.Deliveries].
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
	// ItemSender is the SQL expression for the sender of p.item, or NULL.
	ItemSender string
	// ItemsNamed is a SELECT of the items of the participant ?4 that the reference ?3 names.
	ItemsNamed string
	// StepItem is the item that carries the event ?2 to the participant of the webhook h, or
	// NULL.
	StepItem string
}

// filled returns queries that run without any table of a network.
func (p SQL) filled() SQL {
	const never = `1 = 0`
	p.Known, p.Used = cmp.Or(p.Known, never), cmp.Or(p.Used, never)
	p.Reached, p.PeerDeliveryTold = cmp.Or(p.Reached, never), cmp.Or(p.PeerDeliveryTold, never)
	const nothing = `CAST(NULL AS bigint)`
	p.PeerDeliveryStep, p.ItemStep, p.StepItem = cmp.Or(p.PeerDeliveryStep, nothing), cmp.Or(p.ItemStep, nothing), cmp.Or(p.StepItem, nothing)
	p.ItemSender = cmp.Or(p.ItemSender, `CAST(NULL AS text)`)
	p.ItemsNamed = cmp.Or(p.ItemsNamed, `SELECT seq FROM event WHERE id = ?3 AND ?4 = ''`)
	p.Waiting = cmp.Or(p.Waiting, `SELECT ?2, seq, handoff, filed FROM event WHERE id = ?1 AND seq < 0`)
	return p
}

// attach gives a record the tables of a network; nil is none.
func (s *DB) attach(t Tables) *DB {
	if t != nil {
		s.Tables, s.Parts = t, t.SQL()
		t.Attach(s)
	}
	s.Parts = s.Parts.filled()
	return s
}

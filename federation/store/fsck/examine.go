// Package fsck reads a whole record without a gateway: [Examine] looks for damage, and
// [Transfer] copies a record from a file to PostgreSQL.
package fsck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/participants"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// A record with more damage needs a restore.
const maxDamage = 1000

// Rules check the handoffs of an examination.
type Rules interface {
	// Verify returns an error for a step whose signature does not verify. It does not block: the
	// key is in the step.
	Verify(ctx context.Context, ev federation.Event) error
	// VerifyText is Verify for text.
	VerifyText(t federation.Text) error
	// Replay returns the view after a step, or an error for an impossible step. The home comes from
	// the stored view, because steps do not name it.
	Replay(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error)
}

// DamageKind is a machine-readable kind of damage.
type DamageKind string

// The kinds of damage, in the order of the checks.
const (
	DamagedFile      DamageKind = "file"      // not a record of this program, or one of a newer version
	DamagedWAL       DamageKind = "wal"       // the write-ahead log lost its end
	DamagedPage      DamageKind = "page"      // SQLite cannot read a part of the file, or finds it inconsistent
	DamagedEvent     DamageKind = "event"     // a step contradicts the columns of its row
	DamagedChain     DamageKind = "chain"     // a step was changed, moved, added or removed
	DamagedSignature DamageKind = "signature" // the signature does not verify over the signed bytes
	DamagedView      DamageKind = "view"      // the stored view differs from the view computed from the log
	DamagedEvidence  DamageKind = "evidence"  // the original of a vouched step is missing or changed
	Orphan           DamageKind = "orphan"    // a row without the row that it belongs to
	LostKey          DamageKind = "key"       // a key used to write the record is missing; found by the caller
)

// Damage is one finding of an examination.
type Damage struct {
	Kind   DamageKind `json:"kind"`
	Where  string     `json:"where"` // a handoff, with its step if a step is damaged; otherwise a table or the file
	Detail string     `json:"detail"`
}

func (d Damage) String() string { return fmt.Sprintf("%s: %s: %s", d.Kind, d.Where, d.Detail) }

// Report is the result of an examination.
type Report struct {
	Version  int      `json:"version"` // of the record
	Handoffs int      `json:"handoffs"`
	Events   int      `json:"events"` // steps and receipts
	Erased   int      `json:"erased"` // events without documents: the chain has only their digests
	Damage   []Damage `json:"damage"` // the first 1000, in the order found

	OwnKeys []federation.KeyMark `json:"-"` // used to write the record
}

// Examine reads a consistent snapshot of a whole record without changing it. Another process may
// write to it meanwhile. An error means that the record could not be examined: it does not exist,
// is of an older version, or cannot be read now, which is a [*federation.UnavailableError].
func Examine(ctx context.Context, path string, tables engine.Tables, rules Rules) (Report, error) {
	e := &examination{report: Report{Damage: []Damage{}}, rules: rules, orphans: orphansOf(tables)}
	if err := e.open(ctx, path); err != nil {
		return e.report, fmt.Errorf("examine record %s: %w", path, err)
	}
	return e.report, nil
}

// ExaminePostgres is like [Examine], for a record in a PostgreSQL database. The server checks its
// pages.
func ExaminePostgres(ctx context.Context, dsn string, tables engine.Tables, rules Rules) (Report, error) {
	e := &examination{dialect: engine.InPostgres, report: Report{Damage: []Damage{}}, rules: rules, orphans: orphansOf(tables)}
	if err := e.connect(ctx, dsn); err != nil {
		return e.report, fmt.Errorf("examine record on PostgreSQL: %w", err)
	}
	return e.report, nil
}

type examination struct {
	dialect engine.Dialect
	report  Report
	rules   Rules
	conn    *sql.Conn
	path    string   // of a file
	orphans []string // queries for orphaned rows of a network's tables
}

func orphansOf(tables engine.Tables) []string {
	if tables == nil {
		return nil
	}
	return tables.SQL().Orphans
}

func (e *examination) found(kind DamageKind, where, detail string, args ...any) {
	if len(e.report.Damage) < maxDamage {
		e.report.Damage = append(e.report.Damage, Damage{Kind: kind, Where: where, Detail: fmt.Sprintf(detail, args...)})
	}
}

func (e *examination) open(ctx context.Context, path string) (err error) {
	e.path = path
	s, err := engine.OpenReadSnapshot(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.CheckLog()
	if errors.Is(err, engine.ErrCut) { // the rest is an earlier state of the record, and may be intact
		e.found(DamagedWAL, path+engine.WALSuffix, "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if e.conn, err = s.DB.Conn(ctx); err != nil {
		return e.broken(err)
	}
	defer func() { err = errors.Join(err, e.conn.Close()) }()
	if _, err := e.conn.ExecContext(ctx, "BEGIN"); err != nil { // all following reads use one snapshot
		return e.broken(err)
	}
	return e.broken(e.examine(ctx))
}

func (e *examination) connect(ctx context.Context, dsn string) (err error) {
	db, err := engine.ConnectPostgres(dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(engine.Failure(err), db.Close()) }()
	if e.conn, err = db.Conn(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.conn.Close()) }()
	if _, err := e.conn.ExecContext(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return err
	}
	if ok, err := e.checkPostgresVersion(ctx); err != nil || !ok {
		return err
	}
	return errors.Join(e.examineRows(ctx), e.commit(ctx))
}

func (e *examination) commit(ctx context.Context) error {
	_, err := e.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (e *examination) examine(ctx context.Context) error {
	if ok, err := e.checkVersion(ctx); err != nil || !ok {
		return err
	}
	if err := e.checkPages(ctx); err != nil {
		return err
	}
	return e.examineRows(ctx)
}

func (e *examination) examineRows(ctx context.Context) error {
	if err := e.checkLogs(ctx); err != nil {
		return err
	}
	if err := e.checkReceipts(ctx); err != nil {
		return err
	}
	if err := e.checkEvidence(ctx); err != nil {
		return err
	}
	if err := e.checkOrphans(ctx); err != nil {
		return err
	}
	return e.readOwnKeys(ctx)
}

func (e *examination) readOwnKeys(ctx context.Context) error {
	return engine.ReadOn(e.conn, e.dialect, func(q engine.Tx) (err error) {
		e.report.OwnKeys, err = participants.ReadOwnKeys(ctx, q)
		return err
	})
}

// After a read error of SQLite, nothing more can be read.
func (e *examination) broken(err error) error {
	coded, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch coded.Code() & 0xff {
	case sqlite3.SQLITE_NOTADB:
		e.found(DamagedFile, e.path, "%v", engine.NotRecord(err))
		return nil
	case sqlite3.SQLITE_CORRUPT:
		e.found(DamagedPage, e.path, "%v", err)
		return nil
	}
	return engine.Failure(err)
}

func (e *examination) checkVersion(ctx context.Context) (ok bool, err error) {
	planned, err := engine.PlanOn(ctx, e.conn, engine.InSQLite)
	return e.isVersion(e.path, planned, err)
}

func (e *examination) checkPostgresVersion(ctx context.Context) (ok bool, err error) {
	planned, err := engine.PlanOn(ctx, e.conn, engine.InPostgres)
	return e.isVersion("schema", planned, err)
}

func (e *examination) isVersion(where string, planned engine.Upgrade, err error) (ok bool, _ error) {
	if _, foreign := errors.AsType[engine.ForeignError](err); foreign {
		e.found(DamagedFile, where, "%v", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := planned.CheckNewer(); err != nil {
		e.found(DamagedFile, where, "%v", err)
		return false, nil
	}
	if planned.From < planned.To {
		return false, fmt.Errorf("the record is of version %d: bring it to version %d first, with baton migrate", planned.From, planned.To)
	}
	e.report.Version = planned.To
	return true, nil
}

func (e *examination) checkPages(ctx context.Context) error {
	found, err := e.conn.QueryContext(ctx, fmt.Sprintf("PRAGMA integrity_check(%d)", maxDamage))
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var verdict string
		if err := found.Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			e.found(DamagedPage, e.path, "%s", verdict)
		}
	}
	return found.Err()
}

// DamageError reports damage of an examined record.
type DamageError struct {
	First Damage
	More  int
}

// Sentence describes an undamaged record.
func (r Report) Sentence() string {
	line := fmt.Sprintf("sound: record of version %d, %d handoffs, %d events", r.Version, r.Handoffs, r.Events)
	if r.Erased > 0 {
		line += fmt.Sprintf(", %d of them erased: the chain has only their digests", r.Erased)
	}
	return line
}

// Err returns the damage as an error, or nil.
func (r Report) Err() error {
	if len(r.Damage) == 0 {
		return nil
	}
	return &DamageError{First: r.Damage[0], More: len(r.Damage) - 1}
}

// Error names the first damage.
func (e *DamageError) Error() string {
	if e.More == 0 {
		return e.First.String()
	}
	return fmt.Sprintf("%s (and %d more: --json lists them)", e.First, e.More)
}

// Each query returns the places of orphaned rows and a description.
func orphans() []string {
	return []string{
		`SELECT h.id, 'has no steps' FROM handoff h
			WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.handoff = h.id AND e.version IS NOT NULL)`,
		`SELECT e.handoff || ' receipt ' || e.id, 'is of a handoff that is not there' FROM event e
			WHERE e.version IS NULL AND e.state <> 'said' AND NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = e.handoff)`,
		`SELECT 'inbox of ' || coalesce(a.did, 'nobody'), 'holds event ' || i.event || ', which is not there' FROM inbox i LEFT JOIN actor a ON a.n = i.did
			WHERE a.n IS NULL OR NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = i.event)`,
		`SELECT 'delivery to ' || coalesce(d.name, 'nobody'), 'is of item ' || f.item || ', which is not there' FROM delivery f LEFT JOIN destination d ON d.n = f.destination
			WHERE d.n IS NULL OR CASE WHEN f.item < ` + queue.NoticeBase + ` THEN NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = f.item)
				WHEN f.item < ` + queue.MessageBase + ` THEN NOT EXISTS (SELECT 1 FROM notice n WHERE n.n = f.item - ` + queue.NoticeBase + `)
				WHEN f.item >= ` + queue.DocumentBase + ` THEN NOT EXISTS (SELECT 1 FROM document o WHERE o.n = f.item - ` + queue.DocumentBase + `) ELSE 1 = 0 END`,
		`SELECT 'lane ' || f.lane || ' to ' || d.name, 'waits, and its first delivery has no time' FROM (SELECT destination, lane, min(item) AS item FROM delivery
				WHERE state = 'waiting' AND rank <> 5 GROUP BY destination, lane) l
			JOIN delivery f ON f.item = l.item AND f.destination = l.destination JOIN destination d ON d.n = f.destination WHERE f.next IS NULL`,
		`SELECT 'document ' || o.n, 'is of no delivery' FROM document o WHERE NOT EXISTS (SELECT 1 FROM delivery f WHERE f.item = o.n + ` + queue.DocumentBase + `)`,
		`SELECT 'inbox of ' || coalesce((SELECT did FROM actor WHERE n = coalesce(m.did, w.did)), 'nobody'), 'is counted as ' || coalesce(m.entries, 0) || ' waiting, and has ' || coalesce(w.entries, 0)
			FROM (SELECT did, entries, size FROM mailbox WHERE entries <> 0 OR size <> 0) m
			FULL JOIN (SELECT did, count(*) AS entries, sum(waiting) AS size FROM inbox WHERE waiting IS NOT NULL GROUP BY did) w
			ON w.did = m.did WHERE m.entries IS DISTINCT FROM w.entries OR m.size IS DISTINCT FROM w.size`,
		`SELECT 'inbox of ' || coalesce((SELECT did FROM actor WHERE n = coalesce(s.did, w.did)), 'nobody'), 'is counted as ' || coalesce(s.entries, 0) || ' waiting of a sender, and has ' || coalesce(w.entries, 0)
			FROM share s FULL JOIN (SELECT i.did, e.signer, count(*) AS entries, sum(i.waiting) AS size FROM inbox i JOIN event e ON e.seq = i.event WHERE i.waiting IS NOT NULL GROUP BY i.did, e.signer) w
			ON w.did = s.did AND w.signer = s.sender WHERE s.entries IS DISTINCT FROM w.entries OR s.size IS DISTINCT FROM w.size`,
		`SELECT 'blob of ' || c.handoff, 'is not there, or not its handoff' FROM blob_claim c
			WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.capability = c.capability) OR NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = c.handoff)`,
		`SELECT d.name, 'is a destination, and its webhook is not there' FROM destination d
			WHERE d.kind = 'webhook' AND NOT EXISTS (SELECT 1 FROM webhook h WHERE h.id = substr(d.name, 9))`,
	}
}

func (e *examination) checkOrphans(ctx context.Context) error {
	for _, query := range append(orphans(), e.orphans...) {
		if err := e.eachPair(ctx, query, func(where, detail string) { e.found(Orphan, where, "%s", detail) }); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) checkEvidence(ctx context.Context) error {
	err := e.eachPair(ctx, `SELECT digest, bytes FROM evidence UNION ALL SELECT digest, content FROM blob`, func(digest, original string) {
		if sum := sha256.Sum256([]byte(original)); !bytes.Equal(sum[:], []byte(digest)) {
			e.found(DamagedEvidence, "original "+hex.EncodeToString([]byte(digest)), "was changed")
		}
	})
	if err != nil {
		return err
	}
	return e.checkOriginals(ctx)
}

func (e *examination) eachPair(ctx context.Context, query string, tell func(first, second string)) error {
	found, err := e.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var first, second string
		if err := found.Scan(&first, &second); err != nil {
			return err
		}
		tell(first, second)
	}
	return found.Err()
}

const originalsPage = 500

func (e *examination) checkOriginals(ctx context.Context) error {
	type named struct {
		seq   int64
		where string
		event handoffs.EventScan
	}
	scan := func(row engine.Scanner) (n named, err error) {
		err = row.Scan(append([]any{&n.seq, &n.where}, n.event.Dest()...)...)
		return n, err
	}
	return engine.ReadOn(e.conn, e.dialect, func(q engine.Tx) error {
		for last := int64(0); ; {
			page, err := engine.Rows(ctx, q, scan, `SELECT e.seq, e.handoff || ' event ' || e.id, `+handoffs.EventColumns+` FROM event e
				WHERE e.seq > ? ORDER BY e.seq LIMIT 0 + ?`, last, originalsPage)
			if err != nil {
				return err
			}
			for _, n := range page {
				last = n.seq
				ev, err := n.event.Read()
				if err != nil || ev.Evidence == nil {
					continue
				}
				var kept bool
				if err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM evidence WHERE digest = ?)`, []any{ev.Evidence.Digest[:]}, &kept); err != nil {
					return err
				}
				if !kept {
					e.found(DamagedEvidence, n.where, "its original is missing")
				}
			}
			if len(page) < originalsPage {
				return nil
			}
		}
	})
}

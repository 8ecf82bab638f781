package fsck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/baton-gateway/baton/federation/store/engine"
)

// Transferred is the result of a [Transfer], done or planned.
type Transferred struct {
	Version int          `json:"version"` // of both records
	Rows    int          `json:"rows"`
	Tables  []TableCount `json:"tables"`
}

// TableCount is the number of rows of a table.
type TableCount struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
}

// Transfer copies the record in a file into a PostgreSQL database without a record, or with an
// empty one. Before the commit, the copy is compared with the original, and examined as by
// [ExaminePostgres]: it is complete or absent. No other process may have the file open. With dry,
// Transfer does all of this and rolls the copy back.
func Transfer(ctx context.Context, path, dsn string, tables engine.Tables, rules Rules, dry bool) (Transferred, error) {
	t := &transfer{dry: dry, tables: tables, orphans: orphansOf(tables)}
	if err := t.run(ctx, path, dsn, rules); err != nil {
		return Transferred{}, fmt.Errorf("copy record %s to PostgreSQL: %w", path, err)
	}
	return t.done, nil
}

type transfer struct {
	from *sql.DB
	to   *sql.Conn
	dry  bool
	done Transferred

	tables  engine.Tables // of a network; nil means none
	orphans []string
}

type table struct {
	name    string
	columns []string
	key     []string // columns of the primary key
	counter string   // the automatically numbered column, or ""
}

func (t *transfer) run(ctx context.Context, path, dsn string, rules Rules) (err error) {
	s, err := engine.OpenReadSnapshot(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !s.Ours {
		return errors.New("a process has the record open: stop the gateway first")
	}
	t.from = s.DB
	planned, err := engine.PlanOn(ctx, s.DB, engine.InSQLite)
	if err == nil {
		err = planned.CheckNewer()
	}
	switch {
	case err != nil:
		return engine.NotRecord(err)
	case planned.From != planned.To:
		return fmt.Errorf("the record is of version %d: bring it to version %d first, with baton migrate", planned.From, planned.To)
	}
	db, err := engine.ConnectPostgres(dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(engine.Failure(err), db.Close()) }()
	if t.to, err = db.Conn(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.to.Close()) }()
	tx, err := t.to.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := t.copy(ctx, tx, planned.To, rules); err != nil || t.dry {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (t *transfer) copy(ctx context.Context, tx *sql.Tx, version int, rules Rules) error {
	made, err := engine.ApplyPostgres(ctx, tx, t.tables, nil)
	if err != nil {
		return err
	}
	if made.To != version {
		return fmt.Errorf("the schemas are of versions %d and %d", version, made.To)
	}
	t.done.Version = version
	tables, err := tables(ctx, tx)
	if err != nil {
		return err
	}
	for _, one := range tables {
		if err := t.copyTable(ctx, one); err != nil {
			return fmt.Errorf("table %s: %w", one.name, err)
		}
	}
	for _, one := range tables {
		if err := t.compare(ctx, one); err != nil {
			return fmt.Errorf("table %s: %w", one.name, err)
		}
	}
	e := &examination{dialect: engine.InPostgres, rules: rules, conn: t.to, orphans: t.orphans}
	if err := e.examineRows(ctx); err != nil {
		return err
	}
	if len(e.report.Damage) > 0 {
		return fmt.Errorf("the record is damaged: %s; baton verify lists what is", e.report.Damage[0])
	}
	return nil
}

// The result has all tables except the one with the version.
func tables(ctx context.Context, tx *sql.Tx) (found []table, err error) {
	scan := func(row engine.Scanner) (one table, err error) {
		var columns, key string
		err = row.Scan(&one.name, &columns, &key, &one.counter)
		one.columns, one.key = strings.Split(columns, ","), strings.Split(key, ",")
		return one, err
	}
	err = engine.ReadOn(tx, engine.InPostgres, func(q engine.Tx) (err error) {
		found, err = engine.Rows(ctx, q, scan, `SELECT c.relname,
			(SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
			(SELECT string_agg(a.attname, ',' ORDER BY k.n) FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k (column_number, n), pg_attribute a
				WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.column_number),
			coalesce((SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attidentity <> ''), '')
		FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname <> 'schema_version'
		ORDER BY c.relname`)
		return err
	})
	return found, err
}

func (t *transfer) copyTable(ctx context.Context, one table) error {
	if one.name == "heartbeat" { // has only temporary content
		return nil
	}
	var there int
	if err := t.to.QueryRowContext(ctx, `SELECT count(*) FROM `+one.name).Scan(&there); err != nil {
		return err
	}
	if there > 0 {
		return errors.New("there is a record in the database already, and it is not empty")
	}
	copied, err := t.copyRows(ctx, one)
	t.done.Tables, t.done.Rows = append(t.done.Tables, TableCount{Name: one.name, Rows: copied}), t.done.Rows+copied
	return err
}

func (t *transfer) copyRows(ctx context.Context, one table) (copied int, err error) {
	found, err := t.from.QueryContext(ctx, one.query())
	if err != nil {
		return 0, err
	}
	defer found.Close()
	err = t.to.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver is %T", driver)
		}
		n, err := conn.Conn().CopyFrom(ctx, pgx.Identifier{one.name}, one.columns, &valuesOf{Rows: found, width: len(one.columns)})
		copied = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return copied, t.numberOn(ctx, one)
}

func (one table) query() string {
	return `SELECT ` + strings.Join(one.columns, ", ") + ` FROM ` + one.name + ` ORDER BY ` + strings.Join(one.key, ", ")
}

// Numbers of deleted rows are not reused if the file has the last one.
func (t *transfer) numberOn(ctx context.Context, one table) error {
	if one.counter == "" {
		return nil
	}
	var last int64
	err := t.from.QueryRowContext(ctx, `SELECT max(coalesce((SELECT max(`+one.counter+`) FROM `+one.name+`), 0),
		coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0))`, one.name).Scan(&last)
	if err != nil {
		return err
	}
	_, err = t.to.ExecContext(ctx, `SELECT setval(pg_get_serial_sequence($1, $2), $3 + 1, false)`, one.name, one.counter, last)
	return err
}

func (t *transfer) compare(ctx context.Context, one table) error {
	if one.name == "heartbeat" {
		return nil
	}
	found, err := t.from.QueryContext(ctx, one.query())
	if err != nil {
		return err
	}
	defer found.Close()
	copied, err := t.to.QueryContext(ctx, one.query())
	if err != nil {
		return err
	}
	defer copied.Close()
	originals, copies := &valuesOf{Rows: found, width: len(one.columns)}, &valuesOf{Rows: copied, width: len(one.columns)}
	for originals.Next() {
		if !copies.Next() {
			return errors.Join(errors.New("the copy has fewer rows"), copies.Err())
		}
		if err := sameValues(originals, copies); err != nil {
			return err
		}
	}
	if err := originals.Err(); err != nil {
		return err
	}
	if copies.Next() {
		return errors.New("the copy has more rows")
	}
	return copies.Err()
}

func sameValues(originals, copies *valuesOf) error {
	original, err := originals.Values()
	if err != nil {
		return err
	}
	copied, err := copies.Values()
	if err != nil {
		return err
	}
	for i := range original {
		if plain(original[i]) != plain(copied[i]) {
			return fmt.Errorf("a row of the copy differs: %v instead of %v", copied[i], original[i])
		}
	}
	return nil
}

// Bytes and text are equal.
func plain(value any) any {
	if b, ok := value.([]byte); ok {
		return string(b)
	}
	return value
}

type valuesOf struct {
	*sql.Rows

	width int
}

// Values returns the values of the current row. SQLite's driver reads an empty BLOB as a nil slice,
// which PostgreSQL's driver would write as NULL.
func (v *valuesOf) Values() ([]any, error) {
	values, dest := make([]any, v.width), make([]any, v.width)
	for i := range values {
		dest[i] = &values[i]
	}
	err := v.Scan(dest...)
	for i, value := range values {
		if b, isBytes := value.([]byte); isBytes {
			values[i] = engine.NotNull(b)
		}
	}
	return values, err
}

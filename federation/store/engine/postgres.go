package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
)

// All replicas, each with one more connection for writing, must fit into the server's
// max_connections, 100 by default.
const maxPostgresReaders = 8

// One batch has this timeout, including the wait for other gateways. After it, the server counts as
// unreachable.
const patience = 30 * time.Second

// The server ends the transaction of a silent gateway, because others wait for it. Plans of
// prepared statements use only indexes: most are made while the tables are empty, and the server
// keeps them until it has statistics.
const writerSettings = `SET idle_in_transaction_session_timeout = '10s'; SET enable_seqscan = off`

// OpenPostgres opens the record in a PostgreSQL database, and migrates its schema to the newest
// version. The connection string is a libpq URL or keywords. Its search_path names the schema of
// the record, which contains nothing else.
//
// Several gateways may open a record concurrently: each write is one transaction, and only one runs
// at a time.
//
// Errors of opening are one line for the operator. They never show the password.
func OpenPostgres(ctx context.Context, dsn string, tables Tables, reg prometheus.Registerer, options ...Option) (*DB, error) {
	s, err := openPostgres(ctx, dsn, tables, reg, chosen(options))
	if err != nil {
		return nil, fmt.Errorf("open record on PostgreSQL: %w", err)
	}
	return s.attach(tables), nil
}

func openPostgres(ctx context.Context, dsn string, tables Tables, reg prometheus.Registerer, o settings) (_ *DB, err error) {
	var opened closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	writing, err := ConnectPostgres(dsn)
	if err != nil {
		return nil, err
	}
	opened = append(opened, writing)
	reader, err := ConnectPostgres(dsn)
	if err != nil {
		return nil, err
	}
	reader.SetMaxOpenConns(maxPostgresReaders)
	reader.SetMaxIdleConns(maxPostgresReaders)
	opened = append(opened, reader)
	done, err := migratePostgres(ctx, writing, tables, o.progress)
	if err != nil {
		return nil, err
	}
	o.report(done)
	dial := func(ctx context.Context) (*writer, error) {
		conn, err := writing.Conn(ctx)
		if err != nil {
			return nil, Failure(err)
		}
		if _, err := conn.ExecContext(ctx, writerSettings); err != nil {
			_ = conn.Close() // the error of the settings is the reason
			return nil, Failure(err)
		}
		return newWriter(InPostgres, conn), nil
	}
	s, err := begin(ctx, opened, newStatements(InPostgres, reader), dial, patience, reg)
	if err != nil {
		return nil, err
	}
	s.leases = openReplicaLeases(ctx, func(ctx context.Context) (*pgx.Conn, error) { return connectForLeases(ctx, dsn) })
	s.close = sync.OnceValue(closers{closer(s.close), s.leases}.Close)
	return s, nil
}

// ConnectPostgres returns a handle for a database, without connecting to it.
func ConnectPostgres(dsn string) (*sql.DB, error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*config, stdlib.OptionAfterConnect(promise)), nil
}

func parseDSN(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err == nil && config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "baton"
	}
	return config, err
}

func connectForLeases(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err = promise(ctx, conn); err == nil {
		_, err = conn.Exec(ctx, tcpSilence)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// Acknowledged writes must be on the server's disk, and on that of a standby if the server waits
// for one. Each statement of a transaction must see all earlier commits; with other isolation
// levels, it would not see commits made while the transaction waited for its turn.
func promise(ctx context.Context, conn *pgx.Conn) error {
	var commit, fsync, encoding, isolation string
	var standby bool
	err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('server_encoding'),
		current_setting('default_transaction_isolation'), pg_is_in_recovery()`).Scan(&commit, &fsync, &encoding, &isolation, &standby)
	switch {
	case err != nil:
		return err
	case fsync != "on":
		return errors.New("the server acknowledges writes before they are on disk: set fsync = on")
	case encoding != "UTF8":
		return fmt.Errorf("the database is encoded as %s: make one with ENCODING 'UTF8'", encoding)
	case standby:
		return &federation.UnavailableError{What: postgresRecord, Err: errors.New("the server is a standby, which is read-only")}
	}
	if commit != "on" && commit != "remote_apply" {
		_, err = conn.Exec(ctx, "SET synchronous_commit = on")
	}
	if err == nil && isolation != "read committed" {
		_, err = conn.Exec(ctx, "SET default_transaction_isolation = 'read committed'")
	}
	return err
}

// The name in errors directs an operator to the database server.
const postgresRecord = "record on PostgreSQL"

func postgresFailure(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return saidBy(said, err)
	}
	_, away := errors.AsType[net.Error](err)
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	broken := errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if away || refused || broken || pgconn.SafeToRetry(err) {
		return &federation.UnavailableError{What: postgresRecord, Err: err}
	}
	return err
}

// Maps an error of the server by the class of its code.
//
// spec: PostgreSQL "Error Codes"
func saidBy(said *pgconn.PgError, err error) error {
	switch said.Code[:2] {
	case "08", "25", "40", "53", "55", "57", "58": // connection, read-only, deadlock, no room, locked, shut down, disk
		return &federation.UnavailableError{What: postgresRecord, Err: err}
	}
	if said.Code == "22021" || said.Code == "22P05" {
		return &federation.RefusalError{Code: federation.InvalidTag, Detail: "PostgreSQL keeps no text with a zero byte, or that is not UTF-8"}
	}
	return err
}

// MigratePostgres migrates a record like [OpenPostgres], without opening it. The progress may be
// nil.
func MigratePostgres(ctx context.Context, dsn string, tables Tables, report Progress) (Upgrade, error) {
	return onPostgres(dsn, "migrate", func(db *sql.DB) (Upgrade, error) {
		return migratePostgres(ctx, db, tables, report)
	})
}

// PlanPostgres reports the steps of a [MigratePostgres], without changes.
func PlanPostgres(ctx context.Context, dsn string) (Upgrade, error) {
	return onPostgres(dsn, "read", func(db *sql.DB) (Upgrade, error) {
		planned, err := PlanOn(ctx, db, InPostgres)
		if err == nil {
			err = planned.CheckNewer()
		}
		return planned, err
	})
}

func onPostgres(dsn, what string, do func(*sql.DB) (Upgrade, error)) (Upgrade, error) {
	db, err := ConnectPostgres(dsn)
	if err != nil {
		return Upgrade{}, fmt.Errorf("%s record on PostgreSQL: %w", what, err)
	}
	done, err := do(db)
	if err := errors.Join(Failure(err), db.Close()); err != nil {
		return done, fmt.Errorf("%s record on PostgreSQL: %w", what, err)
	}
	return done, nil
}

func migratePostgres(ctx context.Context, db *sql.DB, tables Tables, report Progress) (Upgrade, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return Upgrade{}, Failure(err)
	}
	done, err := ApplyPostgres(ctx, tx, tables, report)
	if err != nil {
		return done, Failure(errors.Join(err, tx.Rollback()))
	}
	report.at(Committing, 0, 0)
	return done, Failure(tx.Commit())
}

// ApplyPostgres makes the changes of a migration. Gateways that start at the same time wait for
// each other.
func ApplyPostgres(ctx context.Context, tx *sql.Tx, tables Tables, report Progress) (Upgrade, error) {
	known, err := migrationsOf(postgresSchema, tables)
	if err != nil {
		return Upgrade{}, err
	}
	if _, err := tx.ExecContext(ctx, lockWriters); err != nil {
		return Upgrade{}, err
	}
	version, err := postgresVersion(ctx, tx)
	done := Upgrade{From: version, To: latest(known)}
	if err == nil {
		err = done.CheckNewer()
	}
	if err != nil || done.From == done.To {
		return done, err
	}
	if err := applyAll(ctx, tx, InPostgres, after(done.From, known), report); err != nil {
		return done, err
	}
	return done, setPostgresVersion(ctx, tx, done.To)
}

func setPostgresVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL);
		DELETE FROM schema_version; INSERT INTO schema_version (version) VALUES (%d)`, version))
	return err
}

// Returns 0 for an empty schema, and an error wrapping a [ForeignError] for a schema with tables of
// another program. The error wraps errDevelopment for a record older than version 1, with its
// version in a table record.
func postgresVersion(ctx context.Context, on asker) (version int, err error) {
	var schema sql.NullString
	var tables, ours, development int
	err = on.QueryRowContext(ctx, `SELECT current_schema(), count(*), count(*) FILTER (WHERE relname IN ('schema_version', 'heartbeat')),
			count(*) FILTER (WHERE relname IN ('record', 'heartbeat'))
		FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = to_regnamespace(quote_ident(current_schema()))`).Scan(&schema, &tables, &ours, &development)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read schema: %w", err)
	case !schema.Valid:
		return 0, errors.New("the schema in search_path is not there: CREATE SCHEMA makes it")
	case tables == 0:
		return 0, nil
	case ours != 2 && development == 2:
		return 0, fmt.Errorf("schema %s: %w", schema.String, errDevelopment)
	case ours != 2:
		return 0, fmt.Errorf("schema %s: %w", schema.String, errForeignSchema)
	}
	if err = on.QueryRowContext(ctx, `SELECT version FROM schema_version`).Scan(&version); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// MigratePostgres migrates a record as [OpenPostgres] does, without opening it.
func MigratePostgres(ctx context.Context, dsn string, tables Tables) (Upgrade, error) {
	return onPostgres(dsn, "migrate", func(db *sql.DB) (Upgrade, error) {
		return migratePostgres(ctx, db, tables)
	})
}

// PlanPostgres reports what [MigratePostgres] would do, and changes nothing.
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

// migratePostgres brings a schema to the newest version that this program knows, in one
// transaction.
func migratePostgres(ctx context.Context, db *sql.DB, tables Tables) (Upgrade, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return Upgrade{}, Failure(err)
	}
	done, err := ApplyPostgres(ctx, tx, tables)
	if err != nil {
		return done, Failure(errors.Join(err, tx.Rollback()))
	}
	return done, Failure(tx.Commit())
}

// ApplyPostgres makes the changes of a migration. Gateways that start at the same time
// wait for each other.
func ApplyPostgres(ctx context.Context, tx *sql.Tx, tables Tables) (Upgrade, error) {
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
	for _, m := range after(done.From, known) {
		if _, err := tx.ExecContext(ctx, m.statements); err != nil {
			return done, fmt.Errorf("apply %s: %w", m.name, err)
		}
	}
	return done, setPostgresVersion(ctx, tx, done.To)
}

func setPostgresVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL);
		DELETE FROM schema_version; INSERT INTO schema_version (version) VALUES (%d)`, version))
	return err
}

// postgresVersion returns 0 for an empty schema. It returns an error wrapping
// a [ForeignError] for a schema with tables of another program, and one wrapping
// errDevelopment for a record older than version 1, which kept its version in a table record.
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

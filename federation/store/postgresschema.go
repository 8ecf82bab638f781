package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
)

// errForeignSchema is a schema that some other program keeps.
var errForeignSchema = errors.New("there are tables of another program: name an empty schema in search_path, or another database")

// postgresStep brings a record on PostgreSQL to a version.
type postgresStep struct {
	version int
	name    string
}

// postgresSteps returns the migrations in order. The first makes a whole record: there
// were none before that version. From then on, each version has one for each database.
func postgresSteps() ([]postgresStep, error) {
	names, err := fs.Glob(schema, "schema/postgres/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	steps := make([]postgresStep, len(names))
	for i, name := range names {
		version, err := strconv.Atoi(path.Base(name)[:4])
		if err != nil {
			return nil, err
		}
		steps[i] = postgresStep{version, name}
	}
	return steps, nil
}

// MigratePostgres does alone what [OpenPostgres] does with an older record.
func MigratePostgres(ctx context.Context, dsn string) (Upgrade, error) {
	return onPostgres(dsn, "migrate", func(db *sql.DB) (Upgrade, error) { return migratePostgres(ctx, db) })
}

// PlanPostgres says what [MigratePostgres] would do, and changes nothing.
func PlanPostgres(ctx context.Context, dsn string) (Upgrade, error) {
	return onPostgres(dsn, "read", func(db *sql.DB) (Upgrade, error) {
		planned, err := planPostgres(ctx, db)
		if err == nil {
			err = planned.checkNewer()
		}
		return planned, err
	})
}

func onPostgres(dsn, what string, do func(*sql.DB) (Upgrade, error)) (Upgrade, error) {
	db, err := connectPostgres(dsn)
	if err != nil {
		return Upgrade{}, fmt.Errorf("%s record on PostgreSQL: %w", what, err)
	}
	done, err := do(db)
	if err := errors.Join(failure(err), db.Close()); err != nil {
		return done, fmt.Errorf("%s record on PostgreSQL: %w", what, err)
	}
	return done, nil
}

// migratePostgres brings a schema to the newest version that this program knows, in one
// transaction.
func migratePostgres(ctx context.Context, db *sql.DB) (Upgrade, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return Upgrade{}, failure(err)
	}
	done, err := applyPostgres(ctx, tx)
	if err != nil {
		return done, failure(errors.Join(err, tx.Rollback()))
	}
	return done, failure(tx.Commit())
}

// applyPostgres makes the changes of a migration. Gateways that start at the same time
// wait for each other.
func applyPostgres(ctx context.Context, tx *sql.Tx) (Upgrade, error) {
	if _, err := tx.ExecContext(ctx, lockWriters); err != nil {
		return Upgrade{}, err
	}
	done, err := planPostgres(ctx, tx)
	if err == nil {
		err = done.checkNewer()
	}
	if err != nil || done.From == done.To {
		return done, err
	}
	steps, err := postgresSteps()
	if err != nil {
		return done, err
	}
	for _, step := range steps {
		if step.version <= done.From {
			continue
		}
		text, err := schema.ReadFile(step.name)
		if err != nil {
			return done, err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return done, fmt.Errorf("apply %s: %w", step.name, err)
		}
	}
	return done, setPostgresVersion(ctx, tx, done.To)
}

func setPostgresVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS record (version bigint NOT NULL);
		DELETE FROM record; INSERT INTO record (version) VALUES (%d)`, version))
	return err
}

// planPostgres says what a migration would do.
func planPostgres(ctx context.Context, on asker) (Upgrade, error) {
	steps, err := postgresSteps()
	if err != nil {
		return Upgrade{}, err
	}
	version, err := postgresVersion(ctx, on)
	return Upgrade{From: version, To: steps[len(steps)-1].version}, err
}

// checkNewer refuses a record of a newer version than this program knows.
func (u Upgrade) checkNewer() error {
	if u.From > u.To {
		return newerError(u.From, u.To)
	}
	return nil
}

// postgresVersion returns 0 for an empty schema, and an error for one that some other
// program keeps.
func postgresVersion(ctx context.Context, on asker) (version int, err error) {
	var schema sql.NullString
	var tables, ours int
	err = on.QueryRowContext(ctx, `SELECT current_schema(), count(*), count(*) FILTER (WHERE relname IN ('record', 'heartbeat'))
		FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = to_regnamespace(quote_ident(current_schema()))`).Scan(&schema, &tables, &ours)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read schema: %w", err)
	case !schema.Valid:
		return 0, errors.New("the schema in search_path is not there: CREATE SCHEMA makes it")
	case tables == 0:
		return 0, nil
	case ours != 2:
		return 0, fmt.Errorf("schema %s: %w", schema.String, errForeignSchema)
	}
	if err = on.QueryRowContext(ctx, `SELECT version FROM record`).Scan(&version); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

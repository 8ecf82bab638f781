package registry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation/store"
)

// Location is where a record is: in an SQLite file, or in a PostgreSQL database.
type Location struct {
	Path string // of the file
	DSN  string // the connection string of the database; "" for a file
}

// Open opens the record and brings an older one forward.
func (l Location) Open(ctx context.Context, reg prometheus.Registerer) (*Record, error) {
	if l.DSN != "" {
		return OpenPostgres(ctx, l.DSN, reg)
	}
	return Open(ctx, l.Path, reg)
}

// Examine examines the whole record, as [store.Examine] does.
func (l Location) Examine(ctx context.Context, rules store.Rules) (store.Report, error) {
	if l.DSN != "" {
		return store.ExaminePostgres(ctx, l.DSN, Tables{}, rules)
	}
	return store.Examine(ctx, l.Path, Tables{}, rules)
}

// Upgrade brings an older record forward, as [store.Migrate] does, or with dry reports what that
// would do.
func (l Location) Upgrade(ctx context.Context, dry bool, now time.Time) (store.Upgrade, error) {
	switch {
	case l.DSN != "" && dry:
		return store.PlanPostgres(ctx, l.DSN)
	case l.DSN != "":
		return store.MigratePostgres(ctx, l.DSN, Tables{})
	case dry:
		return store.Plan(ctx, l.Path)
	}
	return store.Migrate(ctx, l.Path, Tables{}, now)
}

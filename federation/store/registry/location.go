package registry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation/store/engine"
	"baton/federation/store/offline"
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

// Examine examines the whole record, as [offline.Examine] does.
func (l Location) Examine(ctx context.Context, rules offline.Rules) (offline.Report, error) {
	if l.DSN != "" {
		return offline.ExaminePostgres(ctx, l.DSN, Tables{}, rules)
	}
	return offline.Examine(ctx, l.Path, Tables{}, rules)
}

// Upgrade brings an older record forward, as [engine.Migrate] does, or with dry reports what that
// would do.
func (l Location) Upgrade(ctx context.Context, dry bool, now time.Time) (engine.Upgrade, error) {
	switch {
	case l.DSN != "" && dry:
		return engine.PlanPostgres(ctx, l.DSN)
	case l.DSN != "":
		return engine.MigratePostgres(ctx, l.DSN, Tables{})
	case dry:
		return engine.Plan(ctx, l.Path)
	}
	return engine.Migrate(ctx, l.Path, Tables{}, now)
}

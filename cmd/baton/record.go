package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"baton/configs"
	"baton/federation/lifecycle"
	"baton/federation/store"
)

// openStore opens the record of a configuration, wherever that is.
func openStore(ctx context.Context, file *configs.File, reg prometheus.Registerer) (*store.Record, error) {
	if file.Store.Driver != configs.Postgres {
		return store.Open(ctx, file.Path(file.Store.Path), reg)
	}
	dsn, err := file.Secret(file.Store.DSNFile)
	if err != nil {
		return nil, err
	}
	return store.OpenPostgres(ctx, dsn, reg)
}

// examine examines the record of a configuration.
func examine(ctx context.Context, file *configs.File) (store.Report, error) {
	if file.Store.Driver != configs.Postgres {
		return store.Examine(ctx, file.Path(file.Store.Path), replay{lifecycle.Shipped()})
	}
	dsn, err := file.Secret(file.Store.DSNFile)
	if err != nil {
		return store.Report{}, err
	}
	return store.ExaminePostgres(ctx, dsn, replay{lifecycle.Shipped()})
}

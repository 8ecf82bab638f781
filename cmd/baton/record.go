package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"baton/configs"
	"baton/federation/lifecycle"
	"baton/federation/store"
	"baton/federation/store/registry"
)

// openStore opens the record of a configuration, wherever that is.
func openStore(ctx context.Context, file *configs.File, reg prometheus.Registerer) (*registry.Record, error) {
	if file.Store.Driver != configs.Postgres {
		return registry.Open(ctx, file.Path(file.Store.Path), reg)
	}
	dsn, err := file.Secret(file.Store.DSNFile)
	if err != nil {
		return nil, err
	}
	return registry.OpenPostgres(ctx, dsn, reg)
}

// examine examines the record of a configuration.
func examine(ctx context.Context, file *configs.File) (store.Report, error) {
	if file.Store.Driver != configs.Postgres {
		return store.Examine(ctx, file.Path(file.Store.Path), registry.Tables{}, replay{lifecycle.Shipped()})
	}
	dsn, err := file.Secret(file.Store.DSNFile)
	if err != nil {
		return store.Report{}, err
	}
	return store.ExaminePostgres(ctx, dsn, registry.Tables{}, replay{lifecycle.Shipped()})
}

package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/federation/signing"
	"baton/federation/store/registry"
)

// locate returns where the record of a configuration is.
func locate(file *configs.File) (registry.Location, error) {
	at := registry.Location{Path: file.Path(file.Store.Path)}
	if file.Store.Driver != configs.Postgres {
		return at, nil
	}
	var err error
	at.DSN, err = file.Secret(file.Store.DSNFile)
	return at, err
}

// openRecord opens the record of a configuration.
func openRecord(ctx context.Context, file *configs.File, reg prometheus.Registerer) (*registry.Record, error) {
	at, err := locate(file)
	if err != nil {
		return nil, err
	}
	return at.Open(ctx, reg)
}

// examination is the rules by which the commands examine a record. It implements [offline.Rules].
type examination struct{}

// Replay implements [offline.Rules].
func (examination) Replay(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	return lifecycle.Shipped().Follow(before, step, home)
}

// Verify implements [offline.Rules].
func (examination) Verify(ctx context.Context, ev federation.Event) error {
	return signing.VerifyAgain(ctx, ev, identity.ParseKeyDID)
}

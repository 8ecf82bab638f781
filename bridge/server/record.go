package server

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/federation/signing"
	"baton/federation/store/backup"
	"baton/federation/store/registry"
)

// Locate returns the location of the record of a configuration.
func Locate(file *configs.File) (registry.Location, error) {
	at := registry.Location{Path: file.Path(file.Store.Path)}
	if file.Store.Driver != configs.Postgres {
		return at, nil
	}
	var err error
	at.DSN, err = file.Secret(file.Store.DSNFile)
	return at, err
}

// openRecord opens the configured record. It refuses to create a record in an empty database if
// there is also a record in a file, because an interrupted copy leaves both.
func openRecord(ctx context.Context, file *configs.File, reg prometheus.Registerer) (*registry.Record, error) {
	at, err := Locate(file)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(at.Path); at.DSN != "" && err == nil && info.Size() > 0 {
		planned, err := at.Upgrade(ctx, true, time.Now())
		if err != nil {
			return nil, err
		}
		if planned.From == 0 {
			return nil, fmt.Errorf("the database of store.dsn_file is empty, and there is a record in %s: run baton migrate --to postgres, or move that file away", at.Path)
		}
	}
	return at.Open(ctx, reg)
}

// recordFiles returns the paths that only the owner may access: data_dir and the files of the
// record.
func recordFiles(file *configs.File) []string {
	paths := []string{file.Path(".")}
	if file.Store.Driver != configs.Postgres {
		record := file.Path(file.Store.Path)
		paths = append(paths, record, record+"-wal", record+"-shm")
	}
	return paths
}

// Examination is the rules by which the commands examine a record. It implements [offline.Rules].
type Examination struct{}

// Replay implements [offline.Rules].
func (Examination) Replay(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	return lifecycle.Shipped().Follow(before, step, home)
}

// Verify implements [offline.Rules].
func (Examination) Verify(ctx context.Context, ev federation.Event) error {
	return signing.VerifyAgain(ctx, ev, identity.ParseKeyDID)
}

// BackupSource returns the files of a configuration that a backup is made of.
func BackupSource(file *configs.File) backup.Source {
	s := backup.Source{Home: file.Home.Name, Record: file.Path(file.Store.Path), Config: file.Name(), Keys: KeyFolder(file).Dir}
	if file.Store.Driver == configs.Postgres {
		s.Record = ""
	}
	return s
}

// RestoreTarget returns the target of a restore into a configuration.
func RestoreTarget(file *configs.File) backup.Target {
	return backup.Target{Source: BackupSource(file), Dir: file.Path("."), Driver: file.Store.Driver}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation/store/backup"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/registry"
)

type migrateCommand struct {
	DryRun  bool   `help:"Print the effect, and change nothing."`
	To      string `help:"Copy the record from the file to an empty database: postgres." enum:"postgres," default:"" placeholder:"postgres"`
	DSNFile string `help:"With --to: a file with the connection string of the database." name:"dsn-file" placeholder:"FILE" type:"path"`
}

// Help has two examples.
func (migrateCommand) Help() string {
	return `Copies an older record to NAME.vVERSION-TIME.bak in the same folder, and upgrades it in one transaction. The copy is
the only way back. Before the commit, the command compares the rows, the events and the chains of handoffs with the old record.
An interrupted upgrade starts again from the beginning. It needs free disk space of 2.2 times the size of the record, and
changes nothing without it. With --dry-run, it counts rows and bytes, and estimates the time and the disk space. It refuses a
record of a newer version. It does not copy a record on PostgreSQL: run pg_dump first.

With --to, it copies the record from the file of store.path into a PostgreSQL database; no gateway may have it open. Before the
commit, the copy is compared row by row and verified as by baton verify. Then set store.driver and store.dsn_file.

Examples:

	baton migrate --dry-run
	baton migrate --to postgres --dsn-file /etc/baton/dsn`
}

// Run prints the applied migrations, or with a dry run the pending ones.
func (cmd migrateCommand) Run(ctx context.Context, c *cli, streams std) error {
	if (cmd.To == "") != (cmd.DSNFile == "") {
		return &usageError{errors.New("--to and --dsn-file go together")}
	}
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	if err := backup.CheckRestored(server.RestoreTarget(file)); err != nil {
		return err
	}
	if cmd.To != "" {
		return cmd.transfer(ctx, file, c, streams)
	}
	at, err := server.Locate(file)
	if err != nil {
		return err
	}
	done, err := at.Upgrade(ctx, cmd.DryRun, time.Now(), func(line string) { fmt.Fprintln(streams.err, line) })
	if err != nil {
		return err
	}
	return printLine(c, streams, done, done.Sentence(cmd.DryRun, file.Store.Driver != configs.Postgres))
}

func (cmd migrateCommand) transfer(ctx context.Context, file *configs.File, c *cli, streams std) error {
	dsn, err := file.Secret(cmd.DSNFile)
	if err != nil {
		return err
	}
	done, err := fsck.Transfer(ctx, file.Path(file.Store.Path), dsn, registry.Tables{}, server.Examination{}, cmd.DryRun)
	if err != nil {
		return err
	}
	verb := "copied, compared and examined"
	if cmd.DryRun {
		verb = "would copy"
	}
	return printLine(c, streams, done, fmt.Sprintf("%s %d rows of %d tables, a record of version %d", verb, done.Rows, len(done.Tables), done.Version))
}

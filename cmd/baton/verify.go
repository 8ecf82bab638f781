package main

import (
	"context"
	"fmt"

	"baton/configs"
	"baton/federation/store/offline"
)

// verifyCommand examines the whole record.
type verifyCommand struct{}

// Help has one example.
func (verifyCommand) Help() string {
	return `Reads every page, walks the chain of each handoff, verifies each signature with the key on record, rebuilds
each view from its log, looks for rows that belong to nothing, and for the keys that the record was written with. Changes nothing; a gateway may be running. Of a
record on PostgreSQL the pages are the server's to check.

Example:

	baton verify --json`
}

// Run prints what was examined, or fails with the first damage.
func (verifyCommand) Run(ctx context.Context, c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	at, err := locate(file)
	if err != nil {
		return err
	}
	report, err := at.Examine(ctx, examination{})
	if err != nil {
		return err
	}
	lost, err := lostKeys(ctx, file, report)
	if err != nil {
		return err
	}
	report.Damage = append(report.Damage, lost...)
	if c.JSON {
		err = printJSON(streams, report)
	} else if len(report.Damage) == 0 {
		_, err = fmt.Fprintln(streams.out, soundLine(report))
	}
	if err != nil {
		return err
	}
	return report.Err()
}

// soundLine returns the line about a record without damage.
func soundLine(report offline.Report) string {
	line := fmt.Sprintf("sound: record of version %d, %d handoffs, %d events", report.Version, report.Handoffs, report.Events)
	if report.Erased > 0 {
		line += fmt.Sprintf(", %d of them erased: of these the chain has digests alone", report.Erased)
	}
	return line
}

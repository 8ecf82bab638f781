// Package render shows answers of the operator API to people. A [Table] declares a list once, for a
// terminal and for the operator page. On a terminal, a command prints a list, one line for each
// detail, or one JSON document. Control sequences in answers are never sent to the terminal.
package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
)

type details [][2]string

func (d *details) add(name, value string) { *d = append(*d, [2]string{name, value}) }

func (d *details) addIf(name, value string) {
	if value != "" {
		d.add(name, value)
	}
}

func (d *details) print(out io.Writer) error {
	columns := newColumns(out)
	for _, each := range *d {
		fmt.Fprintf(columns, "%s\t%s\n", each[0], Cell(each[1]))
	}
	return columns.Flush()
}

// Cell returns a text as one cell: "-" for an empty one, and "?" for each character that could
// control the terminal or end the cell.
func Cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.ReplaceAll(Printable(text), "\t", "?")
}

// Printable returns a text with "?" for each character that could control the terminal. It keeps
// tabs, which separate columns.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// Age returns the age of a time in a short form, or "".
func Age(at admin.Moment, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	d := now.Sub(time.Time(at))
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	case d < 0:
		return "0s"
	}
	return d.Truncate(time.Second).String()
}

// Until returns the remaining time in a short form, or "".
func Until(at admin.Moment, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(time.Time(at).Sub(now), 0).Round(time.Second).String()
}

// Checks writes the results of checks, a line each.
func Checks(out io.Writer, checks []admin.Check) error {
	columns := newColumns(out)
	for _, each := range checks {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", Cell(each.State), Cell(each.Check), Cell(each.Detail))
	}
	return columns.Flush()
}

// Lines about a change do not state whether it was made, because the command marks a dry run.

// Erased returns the erased items, and a line for each remaining task.
func Erased(done admin.Erased) []string {
	lines := []string{fmt.Sprintf("%s: erased %d handoffs with %d documents, %d messages, %d originals, %d contexts; dropped %d that waited, %d notices, answers and webhooks, %d histories",
		done.DID, done.Handoffs, done.Documents, done.Messages, done.Evidence, done.Contexts, done.Waiting, done.Other, done.Journals)}
	for _, id := range done.Open {
		lines = append(lines, "still open, end it first: "+id.String())
	}
	for _, name := range done.Running {
		lines = append(lines, "still open, erase again after its end: "+name)
	}
	if len(done.Copies) > 0 {
		lines = append(lines, "copies were sent to: "+strings.Join(done.Copies, ", "))
	}
	for _, file := range done.Files {
		lines = append(lines, "may still have the text, delete it: "+file)
	}
	return lines
}

// Blocked returns the blocked source, and the items ended and dropped with it.
func Blocked(done admin.Blocked) string {
	line := done.What + " is blocked"
	if !done.Expires.IsZero() {
		line += " until " + done.Expires.String()
	}
	if p := done.Purged; p != nil {
		line += fmt.Sprintf("; ended %d handoffs; dropped %d inbox entries, %d messages, %d deferred steps, %d deliveries, %d dead letters",
			p.Handoffs, p.Inbox, p.Messages, p.Deferred, p.Outbox, p.Dead)
	}
	return line
}

// Compared writes the result of comparing histories with a home.
func Compared(out io.Writer, home string, done admin.Compared) error {
	_, err := fmt.Fprintf(out, "%s: %d handoffs compared, %d were incomplete there and are complete now\n", home, done.Compared, done.Sent)
	for _, lost := range done.Lost {
		if err == nil {
			_, err = fmt.Fprintf(out, "%s  orphaned: %s has %d of its %d steps; end it with baton handoff orphan end\n", lost.Handoff, home, lost.Have, lost.Version)
		}
	}
	return err
}

// Added reports an added home, with the round-trip time of a green canary.
func Added(done admin.Peered) string {
	if done.Canary.Green {
		return fmt.Sprintf("%s is added. canary: green, offered, accepted and completed in %s", done.Peer.Name, done.Canary.Took)
	}
	return done.Peer.Name + " is added."
}

// Diagnoses writes a line for each check of doctor.
func Diagnoses(out io.Writer, items []admin.Diagnosis) error {
	for _, each := range items {
		line := string(each.State) + " " + each.Check + ": " + each.Detail
		if each.State == admin.DiagnosisFail {
			line = strings.ToUpper(string(each.State)) + strings.TrimPrefix(line, string(each.State))
		}
		if each.Remedy != "" {
			line += "; " + each.Remedy
		}
		if _, err := fmt.Fprintln(out, Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// Policy writes the rules in the order of evaluation, then the limits.
func Policy(out io.Writer, policy admin.Policy) error {
	if err := Rules.Print(out, true, time.Time{}, NumberRules(policy)...); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return Limits.Print(out, true, time.Time{}, policy.Limits...)
}

// Settings returns a line for each configuration key changed by a reload.
func Settings(done admin.Reloaded) []string {
	var lines []string
	for _, s := range done.Changes {
		at := done.File
		if s.Line > 0 {
			at = place(done.File, s.Line)
		}
		const unset = "(not set)"
		effect := map[admin.SettingEffect]string{
			admin.SettingApplied: "applied", admin.SettingReconnect: "its link reconnects", admin.SettingRestart: "restart needed",
		}[s.Effect]
		lines = append(lines, fmt.Sprintf("%s: %s: %s -> %s (%s)", at, s.Key, cmp.Or(s.Before, unset), cmp.Or(s.After, unset), effect))
	}
	return lines
}

// LogLevels returns the levels of the log as a line.
func LogLevels(levels admin.LogLevels) string {
	said := []string{"the log level is " + levels.Level}
	for _, folder := range slices.Sorted(maps.Keys(levels.Packages)) {
		said = append(said, folder+" has "+levels.Packages[folder])
	}
	return strings.Join(said, ", ")
}

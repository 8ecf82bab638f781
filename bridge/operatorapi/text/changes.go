package text

import (
	"fmt"
	"io"
	"strings"

	"baton/bridge/operatorapi/contract"
)

// A line about a change does not say whether the change was made: the command marks a dry run.

// Erased returns what was erased, and a line for each thing that is left to do.
func Erased(done contract.Erased) []string {
	lines := []string{fmt.Sprintf("%s: erased %d handoffs with %d documents, %d messages, %d originals, %d contexts; dropped %d that waited, %d notices, answers and webhooks, %d histories",
		done.DID, done.Handoffs, done.Documents, done.Messages, done.Evidence, done.Contexts, done.Waiting, done.Other, done.Journals)}
	for _, id := range done.Open {
		lines = append(lines, "not over, end it first: "+id.String())
	}
	for _, name := range done.Running {
		lines = append(lines, "goes on, erase again after its end: "+name)
	}
	if len(done.Copies) > 0 {
		lines = append(lines, "copies went to: "+strings.Join(done.Copies, ", "))
	}
	for _, file := range done.Files {
		lines = append(lines, "may have the text still, delete it: "+file)
	}
	return lines
}

// Blocked returns what was blocked, and what was ended and dropped with it.
func Blocked(done contract.Blocked) string {
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
func Compared(out io.Writer, home string, done contract.Compared) error {
	_, err := fmt.Fprintf(out, "%s: %d handoffs compared, %d were incomplete there and are complete now\n", home, done.Compared, done.Sent)
	for _, lost := range done.Lost {
		if err == nil {
			_, err = fmt.Fprintf(out, "%s  orphaned: %s has %d of its %d steps; end it with baton handoff orphan end\n", lost.Handoff, home, lost.Have, lost.Version)
		}
	}
	return err
}

// Added returns that a home was added, with the time that a green canary took.
func Added(done contract.Peered) string {
	if done.Canary.Green {
		return fmt.Sprintf("%s is added. canary: green, offered, accepted and completed in %s", done.Peer.Name, done.Canary.Took)
	}
	return done.Peer.Name + " is added."
}

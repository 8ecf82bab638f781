// Package conform plays the cases that a network's gateway must pass. The package of the
// cases has them as text: a title "== section: name" for each case, and its lines below.
// Empty lines and lines that begin with # are comments. The network defines the meaning of
// a line.
package conform

import (
	"context"
	"errors"
	"strings"
)

// Result is what became of one case.
type Result struct {
	Section string
	Case    string
	Err     error // why it failed; nil for one that passed
}

// Skipped reports whether the case was not played, because the server does not claim what it
// checks.
func (r Result) Skipped() bool {
	_, unclaimed := errors.AsType[*UnclaimedError](r.Err)
	return unclaimed
}

// UnclaimedError says that a server does not claim what a case checks.
type UnclaimedError struct{ Want string }

// Error implements error.
func (e *UnclaimedError) Error() string { return "the server does not claim " + e.Want }

// Run plays all cases of a text, one after the other, until ctx ends, and returns what
// became of them, each also given to tell where that is not nil. A case passes when play
// returns nil for its lines. The error is that of ctx.
func Run(ctx context.Context, text string, play func(ctx context.Context, lines []string) error, tell func(Result)) ([]Result, error) {
	var results []Result
	for _, each := range cases(text) {
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		r := Result{Section: each.section, Case: each.name, Err: play(ctx, each.lines)}
		results = append(results, r)
		if tell != nil {
			tell(r)
		}
	}
	return results, nil
}

// script is one case.
type script struct {
	section, name string
	lines         []string
}

// cases reads the scripts of a text.
func cases(text string) []script {
	var all []script
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		title, begins := strings.CutPrefix(line, "== ")
		switch {
		case begins:
			section, name, _ := strings.Cut(title, ": ")
			all = append(all, script{section: section, name: name})
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

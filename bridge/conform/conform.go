// Package conform runs conformance cases against a server. A network's package has the cases as
// text: a title "== section: name" for each case, and its lines below. Empty lines and lines that
// begin with # are comments. The network defines the meaning of a line.
package conform

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Result is the outcome of one case.
type Result struct {
	Section string
	Case    string
	Err     error // nil for a passed case
}

// Skipped reports whether the case was skipped, because the server does not claim the feature.
func (r Result) Skipped() bool {
	_, unclaimed := errors.AsType[*UnclaimedError](r.Err)
	return unclaimed
}

// UnclaimedError means that a server does not claim the feature that a case checks.
type UnclaimedError struct{ Want string }

// Error implements error.
func (e *UnclaimedError) Error() string { return "the server does not claim " + e.Want }

// Case is one case. It passes when Play returns nil.
type Case struct {
	Section, Name string
	Play          func(ctx context.Context) error
}

// Run is [Play] for all cases of a text. The function play runs the lines of a case.
func Run(ctx context.Context, text string, play func(ctx context.Context, lines []string) error, tell func(Result)) ([]Result, error) {
	var cases []Case
	for _, each := range scripts(text) {
		cases = append(cases, Case{each.section, each.name, func(ctx context.Context) error { return play(ctx, each.lines) }})
	}
	return Play(ctx, cases, tell)
}

// Play runs the cases one after the other until ctx ends, and returns their results. It also passes
// each result to tell, unless nil. The error is that of ctx.
func Play(ctx context.Context, cases []Case, tell func(Result)) ([]Result, error) {
	var results []Result
	for _, each := range cases {
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		r := Result{Section: each.Section, Case: each.Name, Err: each.Play(ctx)}
		results = append(results, r)
		if tell != nil {
			tell(r)
		}
	}
	return results, nil
}

type script struct {
	section, name string
	lines         []string
}

func scripts(text string) []script {
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

// Item is a machine-readable result.
type Item struct {
	Section string `json:"section"`
	Case    string `json:"case"`
	Passed  bool   `json:"passed"`
	Skipped bool   `json:"skipped,omitempty"` // the server does not claim the checked feature
	Why     string `json:"why,omitempty"`
}

// Item returns the result in machine-readable form.
func (r Result) Item() Item {
	item := Item{Section: r.Section, Case: r.Case, Passed: r.Err == nil, Skipped: r.Skipped()}
	if r.Err != nil {
		item.Why = r.Err.Error()
	}
	return item
}

func (r Result) String() string {
	if r.Skipped() {
		return fmt.Sprintf("skip  %s: %s\n      %v", r.Section, r.Case, r.Err)
	}
	if r.Err != nil {
		return fmt.Sprintf("FAIL  %s: %s\n      %v", r.Section, r.Case, r.Err)
	}
	return fmt.Sprintf("ok    %s: %s", r.Section, r.Case)
}

// Totals counts results.
type Totals struct {
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Count counts results by outcome.
func Count(results []Result) Totals {
	t := Totals{Cases: len(results)}
	for _, r := range results {
		switch {
		case r.Err == nil:
			t.Passed++
		case r.Skipped():
			t.Skipped++
		default:
			t.Failed++
		}
	}
	return t
}

func (t Totals) String() string {
	return fmt.Sprintf("%d cases: %d passed, %d failed, %d skipped", t.Cases, t.Passed, t.Failed, t.Skipped)
}

// FailedError means that a server failed cases.
type FailedError struct{ Failed, Of int }

// Failed returns the error for failed cases, or nil.
func Failed(results []Result) error {
	if failed := Count(results).Failed; failed > 0 {
		return &FailedError{Failed: failed, Of: len(results)}
	}
	return nil
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%d of %d cases fail", e.Failed, e.Of)
}

package store_test

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// whole is the text of SQLite for a table or an index read as a whole. Queries within the query and
// lists of arguments are too.
var whole = regexp.MustCompile(`^SCAN (\w+)( USING .*)?$`)

// coarse is the searches that read much for little: all steps of a handoff or of a signer, all
// messages about a handoff, or all that a link is owed, in a query that knows a column by which
// there is one or few of them.
var coarse = []struct{ search, known *regexp.Regexp }{
	{regexp.MustCompile(`INDEX sqlite_autoindex_event_1 \(handoff=\?( AND version>\?)?\)`), regexp.MustCompile(`(id|digest) = (\?|m\.|message\.)`)},
	{regexp.MustCompile(`INDEX (sqlite_autoindex_event_3|tombstone_digest) \(signer=\?\)`), regexp.MustCompile(`(id|digest) = \?`)},
	{regexp.MustCompile(`INDEX message_handoff \(handoff=\?\)`), regexp.MustCompile(`event = \?`)},
	{regexp.MustCompile(`INDEX delivery_\w+ \(destination=\?( AND \w+>\?)?\)`), regexp.MustCompile(`(lane|item) = \?`)},
}

// searched is the text of SQLite for a search, with the name of its table in the query.
var searched = regexp.MustCompile(`^SEARCH (\w+) USING `)

// checkPlan requires indexes for a query: reading a whole table is fast only in tests, and so is a
// [coarse] search.
func checkPlan(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if !strings.Contains(query, " ") {
		return // COMMIT and the like
	}
	for _, step := range plan(t, db, query) {
		scan := whole.FindStringSubmatch(step)
		if scan != nil && !strings.Contains(query, ") "+scan[1]) && !strings.Contains(query, "RECURSIVE "+scan[1]+" ") { // queries within the query
			t.Errorf("%s, for:\n%s", step, query)
		}
		if isCoarse(step, query) {
			t.Errorf("%s, for few rows of it:\n%s", step, query)
		}
	}
}

// isCoarse reports whether a step of a plan is [coarse] for its query, which may name the table of
// a column or not.
func isCoarse(step, query string) bool {
	table := searched.FindStringSubmatch(step)
	return table != nil && slices.ContainsFunc(coarse, func(c struct{ search, known *regexp.Regexp }) bool {
		return c.search.MatchString(step) && regexp.MustCompile(`(\b`+table[1]+`\.|[^.\w])`+c.known.String()).MatchString(query)
	})
}

func plan(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	steps, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	defer steps.Close()
	var all []string
	for steps.Next() {
		var id, parent, unused int
		var detail string
		if err := steps.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatalf("explain %s: %v", query, err)
		}
		all = append(all, detail)
	}
	if err := steps.Err(); err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	return all
}

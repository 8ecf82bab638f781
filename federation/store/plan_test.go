package store_test

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"
)

// whole is the text of SQLite for a table or an index that is read as a whole. Queries within
// the query and lists of arguments are too.
var whole = regexp.MustCompile(`^SCAN (\w+)( USING .*)?$`)

// allOf is its text for a search that reads all steps of a handoff or of a signer, or all
// messages about a handoff.
var allOf = regexp.MustCompile(`^SEARCH (\w+) USING (?:COVERING )?INDEX ` +
	`(?:sqlite_autoindex_event_1 \(handoff=\?(?: AND version>\?)?\)|sqlite_autoindex_event_3 \(signer=\?\)|tombstone_digest \(signer=\?\)|message_handoff \(handoff=\?\))`)

// checkPlan holds a query to indexes: a table that is read as a whole is fast only
// in tests, and so is the handoff of a step that is known by its id.
func checkPlan(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if !strings.Contains(query, " ") {
		return // COMMIT and the like
	}
	for _, step := range plan(t, db, query) {
		scan := whole.FindStringSubmatch(step)
		if scan != nil && !strings.Contains(query, ") "+scan[1]) { // which is what a query within the query is called
			t.Errorf("%s, for:\n%s", step, query)
		}
		all := allOf.FindStringSubmatch(step)
		if all != nil && regexp.MustCompile(`\b`+all[1]+`\.(id|event|digest) = (\?|m\.|message\.)`).MatchString(query) {
			t.Errorf("%s, for one of them:\n%s", step, query)
		}
	}
}

// plan returns the steps in which SQLite would answer a query.
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

package store_test

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"
)

// checkPlan holds a query to indexes: a table that is read as a whole is fast only
// in tests.
func checkPlan(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if !strings.Contains(query, " ") {
		return // COMMIT and the like
	}
	// The text of SQLite for a table or an index; queries within the query and lists of
	// arguments are read as a whole too.
	whole := regexp.MustCompile(`^SCAN (\w+)( USING .*)?$`)
	for _, step := range plan(t, db, query) {
		scan := whole.FindStringSubmatch(step)
		if scan != nil && !strings.Contains(query, ") "+scan[1]) { // which is what a query within the query is called
			t.Errorf("%s, for:\n%s", step, query)
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

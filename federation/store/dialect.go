package store

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
)

// dialect says which database a query is for. Queries are written in what SQLite and
// PostgreSQL both understand, or are made to by the schema; this is the rest.
type dialect int

const (
	inSQLite dialect = iota
	inPostgres
)

// say returns a query as the database wants to have it. Parameters are written as SQLite
// has them, "?" and "?1", and PostgreSQL has "$1" alone. Text in quotes has no question
// marks here.
func (d dialect) say(query string) string {
	if d == inSQLite {
		return query
	}
	var said strings.Builder
	last := 0
	for before, after, found := strings.Cut(query, "?"); ; before, after, found = strings.Cut(after, "?") {
		said.WriteString(before)
		if !found {
			return said.String()
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		n, err := strconv.Atoi(after[:digits])
		if err != nil { // a bare one
			n = last + 1
		}
		last, after = max(last, n), after[digits:]
		said.WriteString("$" + strconv.Itoa(n))
	}
}

// values returns arguments as they are kept: a truth value as 0 or 1.
func (d dialect) values(args []any) ([]any, error) {
	if d == inSQLite {
		return args, nil // its driver does the same
	}
	values := make([]any, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		if truth, ok := value.(bool); ok {
			value = int64(0)
			if truth {
				value = int64(1)
			}
		}
		values[i] = value
	}
	return values, nil
}

// tail returns the expression for the last characters of a text.
func (d dialect) tail(text, length string) string {
	if d == inPostgres {
		return "right(" + text + ", " + length + ")"
	}
	return "substr(" + text + ", -" + length + ")"
}

// missingOriginals returns the query for events without their evidence: where, and what. A
// digest in a step is an array of 32 numbers.
func (d dialect) missingOriginals() string {
	valid, digest := "json_valid(e.body) AND ", `unhex((SELECT group_concat(printf('%02x', n.value), '') FROM json_each(e.body, '$.evidence.digest') n))`
	if d == inPostgres {
		valid, digest = "", `(SELECT decode(string_agg(lpad(to_hex(n.value::int), 2, '0'), '' ORDER BY n.key), 'hex')
			FROM json_each(e.body -> 'evidence' ->> 'digest') n)`
	}
	return `SELECT e.handoff || ' event ' || e.id, 'its original is missing' FROM event e
		WHERE ` + valid + `e.body -> 'evidence' ->> 'digest' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM evidence v WHERE v.digest = ` + digest + `)`
}

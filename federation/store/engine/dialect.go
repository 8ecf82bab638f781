package engine

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
)

// Dialect says which database a query is for. Queries are written in what SQLite and
// PostgreSQL both understand, or are made to by the schema; this is the rest.
type Dialect int

// The databases.
const (
	InSQLite Dialect = iota
	InPostgres
)

// say returns a query as the database wants to have it. Parameters are written as SQLite
// has them, "?" and "?1", and PostgreSQL has "$1" alone. Text in quotes has no question
// marks here.
func (d Dialect) say(query string) string {
	if d == InSQLite {
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
func (d Dialect) values(args []any) ([]any, error) {
	if d == InSQLite {
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

// Tail returns the expression for the last characters of a text.
func (d Dialect) Tail(text, length string) string {
	if d == InPostgres {
		return "right(" + text + ", " + length + ")"
	}
	return "substr(" + text + ", -" + length + ")"
}

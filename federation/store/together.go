package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// kept is a statement that was put, and not sent yet.
type kept struct {
	query string
	args  []any
	row   bool // it was put by [statements.add]
	write int  // which of the batch put it
}

// group is what is sent as one statement.
type group struct {
	query string
	rows  [][]any
}

// arrange groups statements. What one write put keeps its order, and so do rows of one
// table about one thing; a statement that adds no row comes after all that was put before
// it, and before all that was put after.
func arrange(all []kept) []group {
	var groups []group
	for len(all) > 0 {
		rows := 0
		for rows < len(all) && all[rows].row {
			rows++
		}
		groups = append(groups, arrangeRows(all[:rows])...)
		if all = all[rows:]; len(all) > 0 {
			groups = append(groups, group{all[0].query, [][]any{all[0].args}})
			all = all[1:]
		}
	}
	return groups
}

// arrangeRows goes through the writes side by side, and has the one go on that is behind
// the others: those that waited for each other at one table are together again at the next.
func arrangeRows(all []kept) []group {
	var groups []group
	writes := lineUp(all)
	for left := len(all); left > 0; {
		next, behind := "", len(all)
		for _, w := range writes {
			if row, ok := w.next(); ok && w.done < behind {
				next, behind = row.about.query, w.done
			}
		}
		rows := take(writes, next)
		groups, left = append(groups, group{next, rows}), left-len(rows)
	}
	return groups
}

// take returns the rows of one statement whose turn it is, and ends their turns.
func take(writes []*line, query string) (rows [][]any) {
	var about []*thing
	for _, w := range writes {
		for row, ok := w.next(); ok && row.about.query == query; row, ok = w.next() {
			rows, about = append(rows, row.args), append(about, row.about)
			w.done++
		}
	}
	for _, each := range about {
		each.added++
	}
	return rows
}

// line is the rows of one write.
type line struct {
	rows []turn
	done int // of them
}

// turn is a row, and how many about the same thing come before it.
type turn struct {
	args   []any
	about  *thing
	before int
}

// thing is what rows of one table are about, how many, and how many of those are grouped.
type thing struct {
	query       string
	rows, added int
}

// next returns the next row of a write, and whether it is its turn.
func (l *line) next() (turn, bool) {
	if l.done == len(l.rows) {
		return turn{}, false
	}
	row := l.rows[l.done]
	return row, row.before == row.about.added
}

// lineUp returns the rows of each write.
func lineUp(all []kept) []*line {
	type name struct {
		query string
		key   any
	}
	var writes []*line
	things := map[name]*thing{}
	for i, each := range all {
		if i == 0 || each.write != all[i-1].write {
			writes = append(writes, &line{})
		}
		w, about := writes[len(writes)-1], name{each.query, plain(each.args[0])}
		if things[about] == nil {
			things[about] = &thing{query: each.query}
		}
		w.rows = append(w.rows, turn{each.args, things[about], things[about].rows})
		things[about].rows++
	}
	return writes
}

// form is a statement in the words of PostgreSQL: for one row of arguments, and for many.
// That one is made of the other, so that each rule is written once: its parameters are
// arrays, and what the statement for one selects is selected for each row of them.
type form struct {
	written  string // as the code has it
	one      string
	many     string   // "" until it is needed
	carriers []string // types of the elements of the arrays
}

// filled returns the statement for some rows, and its arguments.
func (f *form) filled(ctx context.Context, conn *pgx.Conn, rows [][]any) (query string, args []any, err error) {
	if len(rows) == 1 {
		return f.one, rows[0], nil
	}
	if f.many == "" {
		if err := f.multiply(ctx, conn); err != nil {
			return "", nil, err
		}
	}
	args = make([]any, len(f.carriers))
	for i, carrier := range f.carriers {
		if args[i], err = column(rows, i, carrier); err != nil {
			return "", nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return f.many, args, nil
}

// multiply makes the statement for many rows. The server says of which types its
// parameters are. OFFSET 0 keeps the planner from making a join of what is a look-up for
// each row: it would choose one while the tables were empty, and keep to it.
//
// spec: PostgreSQL "LATERAL Subqueries"
func (f *form) multiply(ctx context.Context, conn *pgx.Conn) error {
	said, err := conn.Prepare(ctx, "", f.one)
	if err != nil {
		return err
	}
	var carriers, arrays, names, values []string
	for i, oid := range said.ParamOIDs {
		carrier, cast := carried(conn.TypeMap(), oid)
		name := "p" + strconv.Itoa(i+1)
		carriers = append(carriers, carrier)
		arrays = append(arrays, "$"+strconv.Itoa(i+1)+"::"+carrier+"[]")
		names = append(names, name)
		values = append(values, "given."+name+cast)
	}
	into, row, conflict := parts(f.written)
	f.carriers = carriers
	f.many = into + " SELECT made.* FROM unnest(" + strings.Join(arrays, ", ") + ") WITH ORDINALITY AS given (" + strings.Join(names, ", ") +
		", n) CROSS JOIN LATERAL (" + named(row, func(n int) string { return values[n-1] }) + " OFFSET 0) AS made ORDER BY given.n " + conflict
	return nil
}

// parts takes an INSERT apart: what comes before and after that which is inserted. Of
// another statement there is nothing else.
func parts(query string) (into, row, conflict string) {
	if !strings.HasPrefix(query, "INSERT") {
		return "", query, ""
	}
	row = query
	if at := strings.Index(query, "ON CONFLICT"); at >= 0 {
		row, conflict = query[:at], query[at:]
	}
	columns := strings.Index(row, ")") + 1
	return row[:columns], row[columns:], conflict
}

// carried returns the type in which a parameter is sent, and what makes that its own.
func carried(types *pgtype.Map, oid uint32) (carrier, cast string) {
	switch oid {
	case pgtype.ByteaOID:
		return "bytea", ""
	case pgtype.Int8OID, pgtype.Int4OID:
		return "bigint", ""
	case pgtype.TextOID:
		return "text", ""
	}
	if known, ok := types.TypeForOID(oid); ok {
		cast = "::" + known.Name
	}
	return "text", cast
}

// column returns one argument of all rows as an array.
func column(rows [][]any, i int, carrier string) (any, error) {
	switch carrier {
	case "bytea":
		return gather(rows, i, func(b []byte) []byte { return b })
	case "bigint":
		return gather(rows, i, func(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: true} })
	}
	return gather(rows, i, func(text string) pgtype.Text { return pgtype.Text{String: text, Valid: true} })
}

// gather leaves the zero E where an argument is absent, which PostgreSQL reads as NULL.
func gather[A, E any](rows [][]any, i int, element func(A) E) (pgtype.FlatArray[E], error) {
	elements := make(pgtype.FlatArray[E], len(rows))
	for n, row := range rows {
		if row[i] == nil {
			continue
		}
		arg, ok := row[i].(A)
		if !ok {
			return nil, fmt.Errorf("it is %T", row[i])
		}
		elements[n] = element(arg)
	}
	return elements, nil
}

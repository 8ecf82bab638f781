// Package text writes answers of the operator API for a terminal: lists as tables, single things
// as one line for each detail. Nothing in its output can act on the terminal, whatever the answer
// contains.
package text

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi/contract"
)

// Table writes items of one kind, a line each.
type Table[T any] struct {
	Header string // the names of the columns, with " | " between them
	Row    func(T) []string
}

// Print writes items in columns, with or without the header.
func (t Table[T]) Print(out io.Writer, header bool, items ...T) error {
	columns := newColumns(out)
	if header {
		fmt.Fprintln(columns, strings.ReplaceAll(t.Header, " | ", "\t"))
	}
	for _, item := range items {
		fmt.Fprintln(columns, row(t.Row(item)...))
	}
	return columns.Flush()
}

func newColumns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// row returns cells as a line of columns.
func row(cells ...string) string {
	for i, cell := range cells {
		cells[i] = Cell(cell)
	}
	return strings.Join(cells, "\t")
}

// details collects what there is to know of one thing.
type details [][2]string

// say adds a detail.
func (d *details) say(name, value string) { *d = append(*d, [2]string{name, value}) }

// sayIf adds a detail unless it is empty.
func (d *details) sayIf(name, value string) {
	if value != "" {
		d.say(name, value)
	}
}

// print writes the details, a line each.
func (d *details) print(out io.Writer) error {
	columns := newColumns(out)
	for _, each := range *d {
		fmt.Fprintf(columns, "%s\t%s\n", each[0], Cell(each[1]))
	}
	return columns.Flush()
}

// Cell returns a text as one cell: "-" for an empty one, and "?" for each character that could act
// on a terminal or end the cell.
func Cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.ReplaceAll(Printable(text), "\t", "?")
}

// Printable returns a text with "?" for each character that could act on a terminal. Tabs, which
// separate columns, stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// Age returns how long ago a time was, short enough for a column; "" for none.
func Age(at contract.Moment, now time.Time) string {
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

// Until returns how long it is until a time; "" for none.
func Until(at contract.Moment, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(time.Time(at).Sub(now), 0).Round(time.Second).String()
}

// Checks writes the results of checks, a line each.
func Checks(out io.Writer, checks []contract.Check) error {
	columns := newColumns(out)
	for _, each := range checks {
		fmt.Fprintln(columns, row(each.State, each.Check, each.Detail))
	}
	return columns.Flush()
}

package render

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/admin"
	"baton/federation"
)

// Table declares a list, for terminals and for the operator page.
type Table[T any] struct {
	Caption string              // on the page
	Command string              // words of the command that prints the list
	Empty   string              // on the page, for a list without items
	Key     func(item T) string // the same for an item in each version of the page
	Columns []Column[T]
}

// Column is a column of a list. A column without one of the headings is not shown there.
type Column[T any] struct {
	Page, Terminal string // headings
	Value          func(item T) Value
}

// Value is one value of a thing.
type Value struct {
	Text     string       // on the page
	At       admin.Moment // a time, on the page after the text
	Link     string       // address on the page, below that of all pages; "" for none
	Class    string       // alignment and form on the page: words for its style sheet
	Terminal string       // on a terminal; "" for the text or the time
	print    func(at admin.Moment, now time.Time) string
}

// none is an empty value on a terminal.
const none = "-"

// Classes of the style sheet.
const (
	number = "num"
	long   = "long" // may take several lines
	at     = "at"
	raw    = "raw" // bytes
)

// Text returns a value of few words.
func Text[T ~string](text T) Value { return Value{Text: string(text)} }

// Long returns a text that may take several lines.
func Long[T ~string](text T) Value { return Value{Text: string(text), Class: long} }

// Raw returns a text whose bytes count.
func Raw(text string) Value { return Value{Text: text, Class: raw} }

// Number returns a count.
func Number[T ~int | ~int64 | ~uint64](n T) Value { return Value{Text: fmt.Sprint(n), Class: number} }

// State returns a state, whose word the style sheet may colour.
func State[T ~string](state T) Value {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(string(state)))
	return Value{Text: string(state), Class: "state s-" + word}
}

// Linked returns a text that leads to the page of an item of a list.
func Linked(text, list, item string) Value {
	return Value{Text: text, Link: list + "/" + url.PathEscape(item)}
}

// HandoffID returns an ID that leads to the page of the handoff; an empty value for none.
func HandoffID(id federation.HandoffID) Value {
	if id.IsZero() {
		return Value{}
	}
	return Linked(id.String(), "handoffs", id.String())
}

// Time returns a time.
func Time(m admin.Moment) Value {
	return Value{At: m, Class: at, print: func(m admin.Moment, _ time.Time) string { return m.String() }}
}

// since returns a time whose age a terminal prints.
func since(m admin.Moment) Value { return Value{At: m, Class: at, print: Age} }

// until returns a time. A terminal prints how long it is until then.
func until(m admin.Moment) Value { return Value{At: m, Class: at, print: Until} }

// terminal returns the value as a terminal prints it.
func (v Value) terminal(now time.Time) string {
	if v.print != nil && v.Terminal == "" {
		return v.print(v.At, now)
	}
	return cmp.Or(v.Terminal, v.Text)
}

// Print writes items in columns, with or without the headings.
func (t Table[T]) Print(out io.Writer, header bool, now time.Time, items ...T) error {
	columns := newColumns(out)
	line := func(cell func(c Column[T]) string) {
		var cells []string
		for _, c := range t.Columns {
			if c.Terminal != "" {
				cells = append(cells, Cell(cell(c)))
			}
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	if header {
		line(func(c Column[T]) string { return c.Terminal })
	}
	for _, item := range items {
		line(func(c Column[T]) string { return c.Value(item).terminal(now) })
	}
	return columns.Flush()
}

func newColumns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

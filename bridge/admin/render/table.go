package render

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// Table declares a list, for terminals and for the operator page.
type Table[T any] struct {
	Caption string // on the page
	Command string
	Empty   string              // on the page, for an empty list
	Key     func(item T) string // stable key of an item across versions of the page
	Columns []Column[T]
	Wide    []string // page headings of the columns omitted in a narrow window
}

// Column is a column of a list. An output omits a column whose heading for that output is empty.
type Column[T any] struct {
	Page, Terminal string
	Value          func(item T) Value
}

// Value is one displayed value.
type Value struct {
	Text     string       // on the page
	At       admin.Moment // shown on the page after the text
	Link     string       // relative address on the page; may be ""
	Class    string       // words for the style sheet
	Terminal string       // text on a terminal; "" for the text or the time
	print    func(at admin.Moment, now time.Time) string
}

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

// Words returns a value whose words are not broken across lines.
func Words[T ~string](text T) Value { return Value{Text: string(text), Class: "words"} }

// Long returns a text that may take several lines.
func Long[T ~string](text T) Value { return Value{Text: string(text), Class: long} }

// Raw returns a text shown byte for byte.
func Raw(text string) Value { return Value{Text: text, Class: raw} }

// Number returns a count.
func Number[T ~int | ~int64 | ~uint64](n T) Value { return Value{Text: fmt.Sprint(n), Class: number} }

// Bytes returns a size, in units on a page and as a number of bytes on a terminal.
func Bytes(n int64) Value {
	exact := fmt.Sprint(n)
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	text := fmt.Sprintf("%.1f %s", size, unit)
	if unit == "B" {
		text = exact + " B"
	}
	return Value{Text: text, Terminal: exact, Class: number}
}

// State returns a state, which the style sheet may colour.
func State[T ~string](state T) Value {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(string(state)))
	return Value{Text: string(state), Class: "state s-" + word}
}

// Linked returns a text that links to the page of an item.
func Linked(text, list, item string) Value {
	return Value{Text: text, Link: list + "/" + url.PathEscape(item)}
}

// HandoffID returns an ID with a link to the page of the handoff. The ID may be empty.
func HandoffID(id federation.HandoffID) Value {
	if id.IsZero() {
		return Value{}
	}
	return Linked(id.String(), "handoffs", id.String())
}

// Time returns the value of a full time.
func Time(m admin.Moment) Value {
	return Value{At: m, Class: at, print: func(m admin.Moment, _ time.Time) string { return m.String() }}
}

func since(m admin.Moment) Value { return Value{At: m, Class: at, print: Age} }

func until(m admin.Moment) Value { return Value{At: m, Class: at, print: Until} }

func (v Value) terminal(now time.Time) string {
	if v.print != nil && v.Terminal == "" {
		return v.print(v.At, now)
	}
	return cmp.Or(v.Terminal, v.Text)
}

// Print writes items in columns, optionally with headings.
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

// Terminal is the output of a command.
type Terminal struct {
	Out, Err io.Writer
	JSON     bool
	Command  []string // for the command of the next page
}

// WriteJSON writes one document.
func (t Terminal) WriteJSON(document any) error {
	encoder := json.NewEncoder(t.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Print writes a document as JSON or with write.
func Print[T any](t Terminal, document T, write func(out io.Writer, document T) error) error {
	if t.JSON {
		return t.WriteJSON(document)
	}
	return write(t.Out, document)
}

// Line returns a write function for [Print] that prints a document as one line.
func Line[T any](line func(document T) string) func(out io.Writer, document T) error {
	return func(out io.Writer, document T) error {
		_, err := fmt.Fprintln(out, line(document))
		return err
	}
}

// Show fetches one document from the gateway and prints it.
func Show[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, T], in In, write func(out io.Writer, document T) error) error {
	document, err := client.Call(ctx, gateway, r, in)
	if err != nil {
		return err
	}
	return Print(t, document, write)
}

// List fetches one page of a list and prints it. On Err it prints the command for the next page.
func List[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, admin.Page[T]], in In, table Table[T]) error {
	page, err := client.Call(ctx, gateway, r, in)
	if err != nil {
		return err
	}
	err = Print(t, page, func(out io.Writer, page admin.Page[T]) error {
		return table.Print(out, true, time.Now(), page.Items...)
	})
	if err == nil && !t.JSON && page.NextCursor != "" {
		fmt.Fprintf(t.Err, "there are more: %s\n", nextPage(t.Command, page.NextCursor))
	}
	return err
}

func nextPage(command []string, cursor string) string {
	var words []string
	for i, word := range command {
		if word == "--cursor" || strings.HasPrefix(word, "--cursor=") || i > 0 && command[i-1] == "--cursor" {
			continue
		}
		words = append(words, word)
	}
	return Shell(append(words, "--cursor="+cursor)...) // with "=", because a cursor may begin with "-"
}

// Shell returns a command line, with quotes as needed.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellWord(word)
	}
	return strings.Join(quoted, " ")
}

func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Watch prints new lines of a watched list, until ctx or the gateway ends.
func Watch[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, admin.Page[T]], in In, table Table[T]) error {
	header := true
	return client.Watch(ctx, gateway, r, in, func(line []byte) error {
		if t.JSON {
			_, err := fmt.Fprintf(t.Out, "%s\n", line)
			return err
		}
		var item T
		if err := federation.DecodeJSON(line, &item); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		defer func() { header = false }()
		return table.Print(t.Out, header, time.Now(), item)
	})
}

// Confirm asks a question, and reports whether the answer is yes. End of input means no.
func (t Terminal) Confirm(input io.Reader, question string) bool {
	fmt.Fprintf(t.Err, "%s [y/N] ", Printable(question))
	line, err := bufio.NewReader(input).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi"
)

// listFlags are those of every list.
type listFlags struct {
	Limit  int    `default:"50" help:"How many, at most 500." placeholder:"N"`
	Cursor string `help:"Go on from where another list ended." placeholder:"C"`
}

// watchFlag is that of the lists that can be watched.
type watchFlag struct {
	Watch bool `help:"Go on printing what changes, until stopped."`
}

// parameter returns the parameter watch of a request, nil for none.
func (f watchFlag) parameter() *string {
	if f.Watch {
		return new("")
	}
	return nil
}

// table is how items of one kind are shown to people: a line each.
type table[T any] struct {
	header string
	row    func(T) []string
}

// list prints one page of a list, or with watch what there is and what changes. The names are
// those in the path of the request.
func list[T any](ctx context.Context, c *cli, streams std, ask request, watch bool, t table[T], names ...string) error {
	gateway, err := c.client(names...)
	if err != nil {
		return err
	}
	if watch {
		return watchList(ctx, gateway, c.JSON, streams, ask, t)
	}
	page, err := answered[operatorapi.Page[T]](ask(gateway.Client))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, page)
	}
	if err := t.print(streams.out, true, page.Items...); err != nil {
		return err
	}
	if page.NextCursor != "" {
		fmt.Fprintf(streams.err, "there are more: --cursor %s\n", page.NextCursor)
	}
	return nil
}

// watchList prints each line of a list as it comes.
func watchList[T any](ctx context.Context, gateway *client, asJSON bool, streams std, ask request, t table[T]) error {
	response, err := ask(gateway.endless)
	if err != nil {
		return err
	}
	header := true
	return readLines(ctx, response, func(text []byte) error {
		if asJSON {
			_, err := fmt.Fprintf(streams.out, "%s\n", text)
			return err
		}
		var item T
		if err := json.Unmarshal(text, &item); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		defer func() { header = false }()
		return t.print(streams.out, header, item)
	})
}

// print writes items in columns.
func (t table[T]) print(out io.Writer, header bool, items ...T) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if header {
		fmt.Fprintln(columns, strings.ReplaceAll(t.header, " | ", "\t"))
	}
	for _, item := range items {
		cells := t.row(item)
		for i, cell := range cells {
			cells[i] = shown(cell)
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	return columns.Flush()
}

// shown returns a text as one cell: "-" for nothing, and nothing in it that could
// act on a terminal.
func shown(text string) string {
	if text == "" {
		return "-"
	}
	return strings.ReplaceAll(printable(text), "\t", "?")
}

// printable returns a text with nothing in it that could act on a terminal. Tabs
// part columns.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// age returns how long ago something was, short enough for a column.
func age(at operatorapi.Moment, now time.Time) string {
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

func printJSON(streams std, document any) error {
	encoder := json.NewEncoder(streams.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

package render

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"baton/bridge/admin"
	"baton/bridge/admin/client"
	"baton/bridge/route"
	"baton/federation"
)

// Terminal is where a command prints.
type Terminal struct {
	Out, Err io.Writer
	JSON     bool // for a machine
}

// WriteJSON writes one document.
func (t Terminal) WriteJSON(document any) error {
	encoder := json.NewEncoder(t.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Print writes a document: for a machine as it is, else by write.
func Print[T any](t Terminal, document T, write func(out io.Writer, document T) error) error {
	if t.JSON {
		return t.WriteJSON(document)
	}
	return write(t.Out, document)
}

// Line returns the write of [Print] for a document that is one line.
func Line[T any](line func(document T) string) func(out io.Writer, document T) error {
	return func(out io.Writer, document T) error {
		_, err := fmt.Fprintln(out, line(document))
		return err
	}
}

// Show asks the gateway for one document and prints it.
func Show[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, T], in In, write func(out io.Writer, document T) error) error {
	document, err := client.Call(ctx, gateway, r, in)
	if err != nil {
		return err
	}
	return Print(t, document, write)
}

// List asks the gateway for one page of a list and prints it. On Err it says how to get the next page.
func List[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, admin.Page[T]], in In, table Table[T]) error {
	page, err := client.Call(ctx, gateway, r, in)
	if err != nil {
		return err
	}
	err = Print(t, page, func(out io.Writer, page admin.Page[T]) error {
		return table.Print(out, true, time.Now(), page.Items...)
	})
	if err == nil && !t.JSON && page.NextCursor != "" {
		fmt.Fprintf(t.Err, "there are more: --cursor %s\n", page.NextCursor)
	}
	return err
}

// Watch prints each line of a watched list as it comes, until ctx or the gateway ends.
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

// Confirm asks a question, and reports whether the answer is yes. The end of the input is no.
func (t Terminal) Confirm(input io.Reader, question string) bool {
	fmt.Fprintf(t.Err, "%s [y/N] ", Printable(question))
	line, err := bufio.NewReader(input).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}

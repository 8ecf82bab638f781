package render

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"baton/bridge/admin/client"
	"baton/bridge/admin/contract"
	"baton/bridge/route"
	"baton/federation"
)

// Terminal is where a command prints.
type Terminal struct {
	Out, Err io.Writer
	JSON     bool     // for a machine
	Command  []string // the command line, to name the next page of a list
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
func List[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, contract.Page[T]], in In, table Table[T]) error {
	page, err := client.Call(ctx, gateway, r, in)
	if err != nil {
		return err
	}
	err = Print(t, page, func(out io.Writer, page contract.Page[T]) error {
		return table.Print(out, true, time.Now(), page.Items...)
	})
	if err == nil && !t.JSON && page.NextCursor != "" {
		fmt.Fprintf(t.Err, "there are more: %s\n", nextPage(t.Command, page.NextCursor))
	}
	return err
}

// nextPage returns the command line for the page at a cursor, as a shell reads it.
func nextPage(command []string, cursor string) string {
	var words []string
	for i, word := range command {
		if word == "--cursor" || strings.HasPrefix(word, "--cursor=") || i > 0 && command[i-1] == "--cursor" {
			continue
		}
		words = append(words, shellWord(word))
	}
	return strings.Join(append(words, "--cursor", shellWord(cursor)), " ")
}

// shellWord quotes a word if a shell would not read it as it is.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Watch prints each line of a watched list as it comes, until ctx or the gateway ends.
func Watch[In, T any](ctx context.Context, t Terminal, gateway *client.Client, r route.Route[In, contract.Page[T]], in In, table Table[T]) error {
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

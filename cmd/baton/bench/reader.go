package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/aircagent"
)

type reader struct {
	lines chan timed
	close func() error
}

type timed struct {
	text string
	at   time.Time
}

const maxAhead = 4096

// read answers the PINGs of an IRC server, to prove that its lines arrived; pongs is nil for other
// servers. The caller closes the reader.
func read(from io.Reader, hangUp func() error, pongs io.Writer) *reader {
	r := &reader{lines: make(chan timed, maxAhead), close: hangUp}
	go func() {
		defer close(r.lines)
		scanner := bufio.NewScanner(from)
		for scanner.Scan() {
			line := timed{scanner.Text(), time.Now()}
			if proof, isPing := strings.CutPrefix(line.text, "PING "); isPing && pongs != nil {
				if _, err := io.WriteString(pongs, "PONG "+proof+"\r\n"); err != nil {
					return
				}
			}
			r.lines <- line
		}
	}()
	return r
}

func (r *reader) await(texts ...string) (timed, error) {
	deadline := time.After(patience)
	for {
		select {
		case line, open := <-r.lines:
			if !open {
				return timed{}, fmt.Errorf("the connection ended before %q", texts)
			}
			if containsAll(line.text, texts) {
				return line, nil
			}
		case <-deadline:
			return timed{}, fmt.Errorf("%q did not come", texts)
		}
	}
}

func containsAll(line string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return false
		}
	}
	return true
}

// Close ends the connection, and waits for the end of reading.
func (r *reader) Close() error {
	err := r.close()
	for range r.lines { // drops the lines read ahead
	}
	return err
}

const pollWait = 5 * time.Second

func poll(ctx context.Context, agent *aircagent.Agent) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{lines: make(chan timed, maxAhead), close: func() error { cancel(); return nil }}
	go func() {
		defer close(r.lines)
		for {
			messages, err := agent.Inbox(ctx, pollWait)
			if err != nil {
				return
			}
			for _, m := range messages {
				r.lines <- timed{m.Payload.Data.Handoff.EventID, m.Arrived}
			}
		}
	}()
	return r
}

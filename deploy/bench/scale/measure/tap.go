package measure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/baton-gateway/baton/deploy/bench/scale/model"
)

// tally is the number of messages of one kind in one direction, and their bytes with the protocol
// line.
type tally struct{ messages, bytes int }

// way is a direction and a kind of message: a kind of the model, with the suffix "answer" for an
// answer, or a kind of [model.Control].
type way struct {
	toHub bool
	kind  string
}

// The kinds of messages of JetStream.
const (
	kindStored    = "stored"
	kindAck       = "ack"
	kindPull      = "pull"
	kindHeartbeat = "heartbeat"
	kindExpired   = "expired"
	kindOther     = "other"
	answerSuffix  = " answer"
)

type tap struct {
	listener net.Listener
	hub      string
	running  sync.WaitGroup

	mu     sync.Mutex
	counts map[way]tally
	asked  map[string]string // kind of a question, by the SHA-256 of its body
	reach  int               // handoffs in digests, as sent to the hub
}

func newTap(ctx context.Context, hub string) (*tap, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tap{listener: listener, hub: hub, counts: map[way]tally{}, asked: map[string]string{}}
	t.running.Go(func() {
		for {
			home, err := listener.Accept()
			if err != nil {
				return // the tap is closed
			}
			t.running.Go(func() { t.carry(ctx, home) })
		}
	})
	return t, nil
}

func (t *tap) url() string { return "nats://" + t.listener.Addr().String() }

// It does not cut connections, so the homes must have ended.
func (t *tap) close() {
	_ = t.listener.Close()
	t.running.Wait()
}

func (t *tap) reset() map[way]tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := t.counts
	t.counts = map[way]tally{}
	return counts
}

func mean(counts map[way]tally, toHub bool, kind string) int {
	c := counts[way{toHub, kind}]
	return c.bytes / max(c.messages, 1)
}

func (t *tap) compared() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.reach, 1)
}

// carry returns when one side disconnects.
func (t *tap) carry(ctx context.Context, home net.Conn) {
	hub, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.hub)
	if err != nil {
		_ = home.Close()
		return
	}
	var both sync.WaitGroup
	for _, each := range []struct {
		from, to net.Conn
		toHub    bool
	}{{home, hub, true}, {hub, home, false}} {
		both.Go(func() {
			_ = t.copy(each.from, each.to, each.toHub) // its error is the end of a connection
			_ = home.Close()
			_ = hub.Close()
		})
	}
	both.Wait()
}

func (t *tap) copy(from io.Reader, to io.Writer, toHub bool) error {
	in, out := bufio.NewReaderSize(from, 64<<10), bufio.NewWriter(to)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
		fields := strings.Fields(string(line))
		if len(fields) > 2 && (strings.HasSuffix(fields[0], "PUB") || strings.HasSuffix(fields[0], "MSG")) {
			if err := t.message(in, out, fields, len(line), toHub); err != nil {
				return err
			}
		}
		if in.Buffered() > 0 {
			continue
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func (t *tap) message(in io.Reader, out io.Writer, fields []string, lineBytes int, toHub bool) error {
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return err
	}
	headed := 0
	if fields[0][0] == 'H' {
		if headed, err = strconv.Atoi(fields[len(fields)-2]); err != nil {
			return err
		}
	}
	if headed > size {
		return errors.New("a header longer than its message")
	}
	content := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(in, content); err != nil {
		return err
	}
	t.count(fields[1], content[:headed], content[headed:size], lineBytes+len(content), toHub)
	_, err = out.Write(content)
	return err
}

func (t *tap) count(subject string, header, body []byte, size int, toHub bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := way{toHub, t.kind(subject, header, body, toHub)}
	c := t.counts[at]
	t.counts[at] = tally{c.messages + 1, c.bytes + size}
}

// Questions are stored, because an answer has no kind of its own.
func (t *tap) kind(subject string, header, body []byte, toHub bool) string {
	switch {
	case strings.HasPrefix(subject, "fed."):
		var message struct{ Of string }
		if json.Unmarshal(body, &message) == nil && message.Of != "" {
			return t.asked[message.Of] + answerSuffix
		}
		kind := question(body)
		if toHub && kind == string(model.Digest) {
			t.reach += bytes.Count(body, []byte(`"chain":`))
		}
		sum := sha256.Sum256(body)
		t.asked[hex.EncodeToString(sum[:])] = kind
		return kind
	case strings.HasPrefix(subject, "$JS.ACK."):
		return kindAck
	case strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT."):
		return kindPull
	case bytes.HasPrefix(header, []byte("NATS/1.0 100")):
		return kindHeartbeat
	case bytes.HasPrefix(header, []byte("NATS/1.0 408")):
		return kindExpired
	case bytes.HasPrefix(body, []byte(`{"stream":`)):
		return kindStored
	}
	return kindOther
}

func question(body []byte) string {
	var asked struct {
		Type, Path string
		Items      []struct {
			Step   struct{ Document string }
			Ruling json.RawMessage
		}
	}
	if json.Unmarshal(body, &asked) != nil {
		return kindOther
	}
	switch {
	case asked.Type == "lookup" && strings.HasPrefix(asked.Path, "/fed/v1/homes/"):
		return string(model.Mailbox)
	case asked.Type == "lookup" && strings.HasSuffix(asked.Path, "did.json"):
		return kindOther // the key of a home, at the first contact
	case asked.Type == "lookup":
		return string(model.Profile)
	case asked.Type == "digest":
		return string(model.Digest)
	case asked.Type != "steps" || len(asked.Items) > 1:
		return kindOther
	case len(asked.Items) == 0:
		return string(model.Greeting)
	}
	var step struct {
		Verb string `json:"handoff"`
		To   string `json:"handoff-to"`
	}
	if json.Unmarshal([]byte(asked.Items[0].Step.Document), &step) != nil {
		return kindOther
	}
	switch {
	case step.Verb == "private text":
		return string(model.Text)
	case step.Verb == "offer" && step.To == "":
		return string(model.Open)
	case step.Verb != "offer" && len(asked.Items[0].Ruling) > 0:
		return string(model.Ruled)
	}
	return step.Verb
}

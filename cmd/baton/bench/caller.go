package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/handofftag"
)

type caller struct {
	address string
	key     federation.SigningKey
	token   string
}

func logIn(ctx context.Context, address string) (*caller, error) {
	c := &caller{address: address, key: newKey()}
	var given struct{ Challenge string }
	if err := c.call(ctx, http.MethodPost, "auth/challenge", map[string]any{"did": c.key.DID}, &given); err != nil {
		return nil, err
	}
	signature, err := c.key.Sign(ctx, []byte(given.Challenge))
	if err != nil {
		return nil, err
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	err = c.call(ctx, http.MethodPost, "auth/token", map[string]any{
		"did": c.key.DID, "challenge": given.Challenge, "signature": base64.RawURLEncoding.EncodeToString(signature),
	}, &tokens)
	c.token = tokens.Access
	return c, err
}

func logAllIn(ctx context.Context, address string, n int) ([]*caller, error) {
	callers := make([]*caller, n)
	for i := range callers {
		var err error
		if callers[i], err = logIn(ctx, address); err != nil {
			return nil, err
		}
	}
	return callers, nil
}

// The body may be nil.
func (c *caller) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.address+"/api/v1/"+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

func (c *caller) call(ctx context.Context, method, path string, body, answer any) error {
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func newKey() federation.SigningKey { return identity.NewPerson() }

func newOffer(ctx context.Context, from federation.SigningKey, to federation.DID, venue string) (federation.Event, error) {
	return sealOffer(ctx, from, federation.Event{To: to, Venue: venue})
}

func sealOffer(ctx context.Context, from federation.SigningKey, ev federation.Event) (federation.Event, error) {
	ev.ID = federation.EventID(ulid.Make())
	ev.Handoff, ev.Kind, ev.Verb, ev.From = ev.ID, federation.Handoff, federation.Offer, from.DID
	ev.Title, ev.Dialect = "Cite three sources on X", federation.HandoffTags
	ev.Fields, _ = handofftag.Write(ev)
	return signing.Seal(ctx, from, ev)
}

func (c *caller) post(ctx context.Context, to federation.DID) ([]byte, error) {
	text, _, err := c.postIn(ctx, to, federation.PrivateVenue(c.key.DID, to))
	return text, err
}

// postIn also returns the ID of the offer.
func (c *caller) postIn(ctx context.Context, to federation.DID, venue string) (text []byte, id string, err error) {
	ev, err := newOffer(ctx, c.key, to, venue)
	if err != nil {
		return nil, "", err
	}
	request, err := c.request(ctx, http.MethodPost, "handoffs", map[string]string{"document": ev.Signature.Document, "signature": ev.Signature.Text})
	if err != nil {
		return nil, "", err
	}
	text, err = written(request)
	return text, ev.ID.String(), err
}

func (c *caller) get(ctx context.Context, path string) ([]byte, error) {
	request, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return written(request)
}

func written(request *http.Request) ([]byte, error) {
	var text bytes.Buffer
	err := request.Write(&text)
	return text.Bytes(), err
}

// The requests go from each caller to the next one, or all to one agent.
func posts(ctx context.Context, callers []*caller, n int, to ...federation.DID) ([][]byte, error) {
	requests := make([][]byte, n)
	for i := range requests {
		offeree := callers[(i+1)%len(callers)].key.DID
		if len(to) > 0 {
			offeree = to[0]
		}
		var err error
		if requests[i], err = callers[i%len(callers)].post(ctx, offeree); err != nil {
			return nil, err
		}
	}
	return requests, nil
}

// sendAll distributes requests over connections, each of which sends one after the other. It
// returns the time of each request, and the total time.
func sendAll(ctx context.Context, address string, connections int, requests [][]byte) (each []time.Duration, all time.Duration, err error) {
	waiting := make(chan []byte, len(requests))
	for _, request := range requests {
		waiting <- request
	}
	close(waiting)
	conns := make([]*connection, connections)
	for i := range conns {
		if conns[i], err = dial(ctx, address); err != nil {
			return nil, 0, err
		}
		defer conns[i].Close()
	}
	took, errs := make([][]time.Duration, connections), make([]error, connections)
	var running sync.WaitGroup
	begun := time.Now()
	for i, conn := range conns {
		running.Go(func() { took[i], errs[i] = conn.sendEach(waiting) })
	}
	running.Wait()
	all = time.Since(begun)
	for i := range conns {
		if errs[i] != nil {
			return nil, 0, errs[i]
		}
		each = append(each, took[i]...)
	}
	return each, all, nil
}

// connection does as little work as possible, because the callers share the cores with the gateway.
type connection struct {
	net.Conn
	rw   *bufio.ReadWriter
	body []byte
}

// maxHeader bounds a header line of a response. For a list, it names a page of IDs.
const maxHeader = 32 << 10

func dial(ctx context.Context, address string) (*connection, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, rw: bufio.NewReadWriter(bufio.NewReaderSize(conn, maxHeader), bufio.NewWriter(conn))}, nil
}

func (c *connection) sendEach(requests <-chan []byte) (took []time.Duration, err error) {
	for request := range requests {
		begun := time.Now()
		if err := c.send(request); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

func (c *connection) send(request []byte) error {
	if _, err := c.rw.Write(request); err != nil {
		return err
	}
	if err := c.rw.Flush(); err != nil {
		return err
	}
	status, err := c.rw.ReadString('\n')
	if err != nil {
		return err
	}
	length, err := c.readHeader()
	if err != nil {
		return err
	}
	if err := c.readBody(length); err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 2") {
		return fmt.Errorf("the answer is %s %s", strings.TrimSpace(status), c.body)
	}
	return nil
}

const chunked = -1

func (c *connection) readHeader() (length int, err error) {
	for {
		line, err := c.rw.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return length, nil
		}
		if bytes.Equal(line, []byte("Transfer-Encoding: chunked")) {
			length = chunked
		}
		if text, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(text)); err != nil {
				return 0, fmt.Errorf("read answer: %w", err)
			}
		}
	}
}

func (c *connection) readBody(length int) (err error) {
	if length == chunked {
		if c.body, err = io.ReadAll(httputil.NewChunkedReader(c.rw.Reader)); err == nil {
			_, err = c.rw.ReadSlice('\n') // the empty trailer
		}
		return err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.rw, c.body)
	return err
}

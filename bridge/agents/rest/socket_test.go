package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
)

// phone is the far end of a WebSocket.
type phone struct{ conn *websocket.Conn }

// call connects an agent by an address: its inbox after a cursor, or at the position of
// a device. The client is the way to get there, nil for the usual one.
func (a *agent) call(t *testing.T, server, query string, client *http.Client) *phone {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), server+"/api/v1/inbox/socket"+query, &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + a.token}, "Origin": {"https://elsewhere.example"}},
	})
	if response != nil && response.Body != nil {
		defer response.Body.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &phone{conn}
}

// hang cuts the connection off, as a network does.
func (p *phone) hang() { _ = p.conn.CloseNow() }

// hear returns the next message, which is in the contract.
func (p *phone) hear(t *testing.T) contract.SocketTell {
	t.Helper()
	kind, text, err := p.conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var told contract.SocketTell
	if err := decoder.Decode(&told); err != nil || kind != websocket.MessageText {
		t.Fatalf("heard %v %s: %v", kind, text, err)
	}
	return told
}

// say sends a message.
func (p *phone) say(t *testing.T, text string) {
	t.Helper()
	if err := p.conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// ask sends a message and returns the answer, with the titles of the entries that came
// before it.
func (p *phone) ask(t *testing.T, text string) (answer contract.SocketTell, titles []string) {
	t.Helper()
	p.say(t, text)
	for {
		told := p.hear(t)
		if told.Entry.Cursor == "" {
			return told, titles
		}
		titles = append(titles, told.Entry.Step.Title)
	}
}

// ackOf asks for a device to have read up to a cursor.
func ackOf(device, cursor string) string {
	return `{"id":"a","ack":{"device":"` + device + `","cursor":"` + cursor + `"}}`
}

// over returns how the far end closed the connection.
func (p *phone) over(t *testing.T) websocket.StatusCode {
	t.Helper()
	for {
		if _, _, err := p.conn.Read(t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// A client that reconnects with its last cursor sees each entry once, in order, while
// others go on writing. Half of the time it goes on from its device's acknowledged
// position instead, which is the same place.
func TestSocketResumesWithoutLossOrRepetition(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.mux)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	scholar := w.login(t, "scholar")
	const writers, each, cuts = 2, 40, 40
	writing := w.write(t, scholar.did, writers, each)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var titles []string
	last, acked := "", true
	for cut := 0; len(titles) < writers*each; cut++ {
		query := "?cursor=" + last
		if acked {
			query = "?device=desk"
		}
		p := scholar.call(t, server.URL, query, nil)
		left := 1 + random.IntN(2)
		if cut >= cuts {
			left = writers * each
		}
		for ; left > 0 && len(titles) < writers*each; left-- {
			told := p.hear(t)
			titles, last = append(titles, told.Entry.Step.Title), told.Entry.Cursor
		}
		if acked = random.IntN(2) == 0; acked { // later entries are cut off, and not acknowledged
			if told, _ := p.ask(t, ackOf("desk", last)); told.ID != "a" || !told.Done {
				t.Fatalf("an ack is answered %+v", told)
			}
		}
		p.hang()
	}
	writing.Wait()
	scholar.sawAll(t, titles, writers*each)
}

// pipes is a listener with connections in memory and the time of the test.
type pipes struct {
	dialled chan net.Conn
	ended   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialled:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.ended)
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve serves a world over pipes until the test ends, and returns a client of it.
func (w *world) serve(t *testing.T) *http.Client {
	t.Helper()
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: w.mux}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		listener.dialled <- far
		return near, nil
	}}}
}

const anywhere = "http://gw.example"

func TestSocketLeasesAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.serve(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		desk, lap := scholar.call(t, anywhere, "", client), scholar.call(t, anywhere, "", client)
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
		lease := func(p *phone, device string) []contract.Lease {
			t.Helper()
			told, _ := p.ask(t, `{"id":"l","lease":{"device":"`+device+`","seconds":5}}`)
			if told.ID != "l" || told.Leases.Items == nil {
				t.Fatalf("a lease is answered %+v", told)
			}
			return told.Leases.Items
		}
		does := func(p *phone, what string, l contract.Lease, more string) contract.SocketTell {
			t.Helper()
			told, _ := p.ask(t, `{"`+what+`":{"cursor":"`+l.Cursor+`","device":"`+l.Device+`","delivery_count":`+strconv.Itoa(l.DeliveryCount)+more+`}}`)
			return told
		}
		first := lease(desk, "desk")
		if len(first) != 1 || first[0].DeliveryCount != 1 || len(lease(lap, "lap")) != 0 {
			t.Fatalf("leased %+v", first)
		}
		if told := does(desk, "extend", first[0], `,"seconds":8`); !told.Done {
			t.Errorf("extend is answered %+v", told)
		}
		time.Sleep(6 * time.Second)
		if again := lease(lap, "lap"); len(again) != 0 {
			t.Errorf("an extended lease is given out: %+v", again)
		}
		time.Sleep(3 * time.Second)
		second := lease(lap, "lap")
		if len(second) != 1 || second[0].DeliveryCount != 2 {
			t.Fatalf("leased %+v", second)
		}
		if told := does(desk, "ack", first[0], ""); told.Done || told.Problem.Code != "conflict" || told.Problem.Status != http.StatusConflict {
			t.Errorf("the ack of a lost lease is answered %+v", told)
		}
		if told := does(lap, "nack", second[0], `,"delay_seconds":5`); !told.Done || len(lease(desk, "desk")) != 0 {
			t.Errorf("nack is answered %+v", told)
		}
		time.Sleep(5 * time.Second)
		third := lease(desk, "desk")
		if len(third) != 1 || !does(desk, "ack", third[0], "").Done {
			t.Fatalf("leased %+v", third)
		}
		time.Sleep(5 * time.Minute) // without a reader: both are dropped
		if got := lease(scholar.call(t, anywhere, "", client), "desk"); len(got) != 0 {
			t.Errorf("after the ack %+v is leased", got)
		}
	})
}

func TestSocketRefusesUnknownRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.serve(t)
		scholar := w.login(t, "scholar")
		p := scholar.call(t, anywhere, "", client)
		for name, text := range map[string]string{
			"no JSON":            `ack`,
			"a member twice":     `{"ack":{"device":"d","cursor":"x"},"ack":{"device":"d","cursor":"y"}}`,
			"a list":             `[]`,
			"nothing":            `{"id":"7"}`,
			"two things":         `{"ack":{"device":"d","cursor":"x"},"lease":{"device":"d"}}`,
			"an unknown member":  `{"ack":{"device":"d","cursor":"x","all":true}}`,
			"an unknown verb":    `{"forget":{}}`,
			"a device missing":   `{"ack":{"cursor":"x"}}`,
			"a cursor of nobody": `{"ack":{"device":"d","cursor":"x"}}`,
		} {
			if told, _ := p.ask(t, text); told.Done || told.Problem.Code != "usage" || told.Problem.Detail == "" || strings.Contains(told.Problem.Detail, "\n") {
				t.Errorf("%s is answered %+v", name, told)
			}
		}
		for name, text := range map[string]string{
			"nothing":          `{"id":"7"}`,
			"an unknown verb":  `{"id":"7","forget":{}}`,
			"a device missing": `{"id":"7","ack":{"cursor":"x"}}`,
		} {
			if told, _ := p.ask(t, text); told.ID != "7" || told.Problem.Code != "usage" {
				t.Errorf("with an id, %s is answered %+v", name, told)
			}
		}
		if devices, err := w.record.Devices(t.Context(), scholar.did); err != nil || len(devices) != 0 {
			t.Errorf("there are devices: %v, %v", devices, err)
		}
		p.say(t, `{"id":"`+strings.Repeat("x", 5000)+`"}`)
		if code := p.over(t); code != websocket.StatusMessageTooBig {
			t.Errorf("a message that is too long closes it with %v", code)
		}
	})
}

func TestSocketEndsWithItsTokenAndTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.serve(t)
		first := w.login(t, "first")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- w.link.Run(ctx, func() {}) }()
		began := time.Now()
		p := first.call(t, anywhere, "", client)
		if code, lasted := p.over(t), time.Since(began); code != websocket.StatusPolicyViolation || lasted < 14*time.Minute || lasted > 16*time.Minute {
			t.Errorf("closed with %v after %s", code, lasted)
		}
		second := w.login(t, "second")
		p = second.call(t, anywhere, "", client)
		cancel()
		if code := p.over(t); code != websocket.StatusGoingAway {
			t.Errorf("at the end closed with %v", code)
		}
		if err := <-ended; err == nil {
			t.Error("it does not say why it ended")
		}
		refused(t, second.get(t, "/api/v1/inbox/stream"), http.StatusServiceUnavailable, "unavailable")
	})
}

// A client that does not read, or has left, is dropped. It finds its missed entries when
// it connects again.
func TestSocketDropsASlowReaderWithoutLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.serve(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		p := scholar.call(t, anywhere, "", client) // a pipe takes nothing without a reader
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "unseen"})
		time.Sleep(29 * time.Second)
		for range 7 {
			_, stop, _ := scholar.look(t, "")
			defer stop()
		}
		synctest.Wait()
		refused(t, scholar.get(t, "/api/v1/inbox/stream"), http.StatusServiceUnavailable, "unavailable") // the slow one has its place still
		time.Sleep(2 * time.Second)
		again := scholar.call(t, anywhere, "", client)
		if told := again.hear(t); told.Entry.Step.Title != "unseen" || !told.Entry.Waits {
			t.Errorf("when it comes again it hears %+v", told)
		}
		p.hang()
	})
}

func TestSocketNeedsAWebSocket(t *testing.T) {
	w := newWorld(t)
	scholar := w.login(t, "scholar")
	got := scholar.get(t, "/api/v1/inbox/socket")
	refused(t, got, http.StatusUpgradeRequired, "usage")
	if got.Header.Get("Upgrade") != "websocket" || got.member("title") != "Upgrade Required" {
		t.Errorf("answered %v %s", got.Header, got.Text)
	}
	refused(t, scholar.get(t, "/api/v1/inbox/socket", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "8"), http.StatusBadRequest, "usage")
	refused(t, scholar.get(t, "/api/v1/inbox/socket?cursor=elsewhere"), http.StatusBadRequest, "usage")
}

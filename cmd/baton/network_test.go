package main_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest/jsonlines"
	"github.com/baton-gateway/baton/bridge/server"
	main "github.com/baton-gateway/baton/cmd/baton"
	"github.com/baton-gateway/baton/federation"
)

// jsonPeer is a program that speaks JSON lines.
type jsonPeer struct {
	net.Listener

	conn  net.Conn
	lines *bufio.Scanner
}

// jsonLine is one line of either side.
type jsonLine map[string]any

func newJSONPeer(t *testing.T) *jsonPeer {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return &jsonPeer{Listener: listener}
}

// connect waits until the gateway has dialled.
func (p *jsonPeer) connect(t *testing.T) {
	t.Helper()
	conn, err := p.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	p.conn, p.lines = conn, bufio.NewScanner(conn)
}

// write writes one line.
func (p *jsonPeer) write(t *testing.T, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.conn, text); err != nil {
		t.Fatal(err)
	}
}

func (p *jsonPeer) read(t *testing.T) jsonLine {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the connection ended: %v", p.lines.Err())
	}
	var got jsonLine
	if err := json.Unmarshal(p.lines.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func exampleNetwork(w server.Wiring) bridge.Network { return jsonlines.Network(w.Participants.Record) }

// serveWith serves a gateway with the example network until the test ends.
func serveWith(t *testing.T, h *house) {
	t.Helper()
	log, err := os.Create(h.log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- main.ServeWith(ctx, h.config, log, exampleNetwork) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, log.Close()); err != nil {
			t.Error(err)
		}
	})
	await(t, "the gateway to answer", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+"/livez", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// The test changes the list of networks and no other file of the gateway.
func TestNetworkOfTheGuideCarriesOffersBothWays(t *testing.T) {
	t.Parallel()
	peer := newJSONPeer(t)
	h := newHouse(t, fmt.Sprintf(`[[jsonlines]]
name = "desk"
address = %q
[[bindings]]
network = "desk"
name = "eliza"
did = %q
vouch = true
`, peer.Addr(), eliza))
	serveWith(t, h)
	peer.connect(t)
	scholar := logIn(t, h.url())

	id := newID(t)
	peer.write(t, fmt.Sprintf(`{"id":%q,"verb":"offer","from":"eliza","to":%q,"title":"review it"}`, id, scholar.did))
	if diff := cmp.Diff(jsonLine{"id": id, "filed": true}, peer.read(t)); diff != "" {
		t.Fatalf("the answer to an offer (-want +got):\n%s", diff)
	}
	entries := scholar.reads(t, "")
	if len(entries) != 1 {
		t.Fatalf("the inbox has %+v", entries)
	}
	step := entries[0].Step
	want := arrived{}.Step
	want.HandoffID, want.Verb, want.For, want.Title, want.Provenance, want.State, want.From = id, "offer", eliza, "review it", "vouched", "offered", step.From
	if diff := cmp.Diff(want, step); diff != "" {
		t.Errorf("the offer in the inbox (-want +got):\n%s", diff)
	}

	back := scholar.offer(t, map[string]any{"to": eliza, "title": "and this one"})
	got := peer.read(t)
	if diff := cmp.Diff(jsonLine{"id": back, "handoff": back, "verb": "offer", "from": string(scholar.did), "to": eliza, "title": "and this one"}, got); diff != "" {
		t.Errorf("the offer that left (-want +got):\n%s", diff)
	}
	_ = peer.conn.Close() // without an answer: the gateway writes the offer again
	peer.connect(t)
	if diff := cmp.Diff(got, peer.read(t)); diff != "" {
		t.Errorf("the offer after a reconnect (-want +got):\n%s", diff)
	}
	peer.write(t, fmt.Sprintf(`{"id":%q,"taken":true}`, back))
	await(t, "the delivery to end", func() bool {
		return h.counters(t)[`baton_outcomes_total{network="jsonlines",outcome="delivered"}`] == 1
	})

	for i, line := range []string{
		fmt.Sprintf(`{"id":%q,"verb":"accept","from":"eliza","handoff":%q}`, newID(t), back),
		fmt.Sprintf(`{"id":%q,"verb":"complete","from":"eliza","handoff":%q,"note":"done"}`, newID(t), back),
	} {
		for range 2 { // the same line again is the same step
			peer.write(t, line)
			if got := peer.read(t); got["filed"] != true {
				t.Fatalf("the answer to %s is %v", line, got)
			}
		}
		waiting := scholar.reads(t, "")
		step := waiting[len(waiting)-1].Step
		if len(waiting) != 2+i || step.HandoffID != back || step.For != eliza || step.Verb != []string{"accept", "complete"}[i] {
			t.Errorf("after %s the inbox has %+v", line, waiting)
		}
	}
	var shown struct{ State string }
	if scholar.must(t, http.StatusOK, http.MethodGet, "handoffs/"+back, nil, &shown); shown.State != "completed" {
		t.Errorf("the handoff is %s", shown.State)
	}
	peer.write(t, fmt.Sprintf(`{"id":%q,"verb":"accept","from":"eliza","handoff":%q}`, back, newID(t)))
	if diff := cmp.Diff(jsonLine{"id": back, "refused": "unknown-handoff"}, peer.read(t)); diff != "" {
		t.Errorf("the answer to a step of no handoff (-want +got):\n%s", diff)
	}
}

func TestNetworkOfTheGuideReportsRefusals(t *testing.T) {
	t.Parallel()
	peer := newJSONPeer(t)
	h := newHouse(t, fmt.Sprintf("[[jsonlines]]\nname = \"desk\"\naddress = %q\n", peer.Addr()))
	serveWith(t, h)
	peer.connect(t)
	id := newID(t)
	for text, want := range map[string]jsonLine{
		"{":                                {"id": "", "refused": "unreadable"},
		`{"id":"x"}`:                       {"id": "x", "refused": "invalid-eventid"},
		`{"id":"` + id + `","from":"mal"}`: {"id": id, "refused": "need-signature"},
	} {
		peer.write(t, text)
		if diff := cmp.Diff(want, peer.read(t)); diff != "" {
			t.Errorf("the answer to %s (-want +got):\n%s", text, diff)
		}
	}
	if got := h.counters(t)[`baton_bad_input_total{link="desk",network="jsonlines",reason="json"}`]; got != 1 {
		t.Errorf("%v bad lines are counted, want 1", got)
	}
}

// newID returns the ID of a step of this moment.
func newID(t *testing.T) string {
	t.Helper()
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func TestImportLawCoversTheNetworkOfTheGuide(t *testing.T) {
	t.Parallel()
	may, ok := allowed("bridge/bridgetest/jsonlines")
	if !ok || !slices.Equal(may, networks) {
		t.Errorf("the example may import %v, want what each network may: %v", may, networks)
	}
}

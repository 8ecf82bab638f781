package main_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
)

// The points outside the program, at which a carrier of its messages kills it.
const (
	whileDelivering = "delivering" // a step is on the wire to the network, which never gets it
	whenDelivered   = "delivered"  // the network has it; the gateway does not know
	whileConfirming = "confirming" // the same of the home's receipt
	whenConfirmed   = "confirmed"
	whileAnswering  = "answering" // an agent's message is answered, and the answer is lost
	whenAnswered    = "answered"  // the agent has the answer, and the gateway is gone
)

// deaths are all points.
func deaths() []string {
	return []string{
		whileFiling, whenFiled, whileWoken, whileSettling, whileReading,
		whileDelivering, whenDelivered, whileConfirming, whenConfirmed, whileAnswering, whenAnswered,
	}
}

const (
	killSeed  = 20261121
	kills     = 100
	killLanes = 4 // gateways at a time
	actPrefix = "+freeq.at/"

	// How often alice looks for the effect of an offer before she writes
	// the same one again.
	repeatAfter = 20
)

// Each gateway lives through a part of the kills, each at another point. The verdict
// depends only on the messages to the network and the agent.
func TestKillAnywhereLosesAndRepeatsNothing(t *testing.T) {
	for lane := range killLanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			g := newGauntlet(t, uint64(lane))
			g.introduce(t)
			for g.killed < kills/killLanes {
				g.carry(t)
			}
			g.spare(t)
			g.judge(t)
		})
	}
}

// gauntlet is a gateway killed over and over, between a network and an agent that
// both repeat unanswered messages.
type gauntlet struct {
	*house
	random  *rand.Rand
	ircd    *bridgetest.IRCd
	agent   *bridgetest.Agent
	alice   federation.SigningKey
	cursor  string
	lives   int // processes so far
	killed  int
	died    map[string]int // kills, by point
	said    []said
	points  []string          // all, in turn
	outside []string          // points at which another process kills the gateway
	mend    func() bool       // restarts a killed process other than the gateway
	read    map[string]int    // how often the agent's inbox had the offer of a handoff
	asked   map[string]string // the author of the offer, by handoff

	mu    sync.Mutex
	point string
	left  int // times to get to the point, of one outside
}

// said is one step whose author was told that it is filed.
type said struct {
	handoff, verb, event string
}

func newGauntlet(t *testing.T, lane uint64, tables ...string) *gauntlet {
	t.Helper()
	g := &gauntlet{
		house: newHouse(t), random: rand.New(rand.NewPCG(killSeed, lane)),
		read: map[string]int{}, asked: map[string]string{}, died: map[string]int{}, points: deaths(), mend: func() bool { return false },
		outside: []string{"", whileDelivering, whenDelivered, whileConfirming, whenConfirmed, whileAnswering, whenAnswered},
	}
	g.ircd = bridgetest.NewIRCd(bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1AB", LinkName: "gw.test", SendPassword: "planted-recv", RecvPassword: "planted-send",
		Users: []string{"alice"}, Channels: []string{"#ops"},
	})
	g.keep(t, "lab.send", "planted-send")
	g.keep(t, "lab.recv", "planted-recv")
	g.configure(t, append(tables, "[limits]\ndid_events_per_minute = 0\nuser_events_per_minute = 0\nopen_handoffs_per_did = 0\n"+anyAddress, fmt.Sprintf(`[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.send"
recv_password_file = "lab.recv"
channels = ["#ops"]
`, g.cable(t)))...)
	seed := make([]byte, ed25519.SeedSize)
	g.agent = bridgetest.NewAgent(g.url(), "scout", seed)
	g.alice = newKey(t)
	return g
}

// newKey returns a key with its own did:key.
func newKey(t *testing.T) federation.SigningKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return federation.SigningKey{Public: public, DID: identity.KeyDID(public), Sign: func(_ context.Context, m []byte) ([]byte, error) {
		return ed25519.Sign(private, m), nil
	}}
}

// cable returns the gateway's address of the network: each line passes the point at
// which the gateway may have to die.
func (g *gauntlet) cable(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.ircd.Serve(&tapped{Conn: conn, in: bufio.NewReader(conn), gauntlet: g}) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		g.ircd.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// tapped is a connection from the gateway, read line by line.
type tapped struct {
	net.Conn
	*gauntlet
	in   *bufio.Reader
	rest []byte
}

// Read passes a line on, unless the gateway had to die over it.
func (c *tapped) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		before, after := whileDelivering, whenDelivered
		if bytes.Contains(line, []byte("act-verb=confirm")) {
			before, after = whileConfirming, whenConfirmed
		}
		if bytes.Contains(line, []byte(" TAGMSG ")) && (c.dies(before) || c.dies(after)) {
			if _ = c.process.Process.Kill(); c.dead(before) {
				return 0, io.EOF
			}
		}
		c.rest = line
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// dies reports whether this was the time to die at a point.
func (g *gauntlet) dies(at string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.point != at || g.left == 0 {
		return false
	}
	g.left--
	return g.left == 0
}

// dead reports whether the gateway was to die at a point, and did.
func (g *gauntlet) dead(at string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.point == at && g.left == 0
}

// RoundTrip carries a request of the agent's, and reads the whole answer before the
// agent does.
func (g *gauntlet) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if request.URL.Path == "/messages" && response.StatusCode == http.StatusCreated && (g.dies(whileAnswering) || g.dies(whenAnswered)) {
		if _ = g.process.Process.Kill(); g.dead(whileAnswering) {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return response, nil
}

// live starts the gateway with a fate.
func (g *gauntlet) live(t *testing.T, point string) {
	t.Helper()
	g.mu.Lock()
	g.point, g.left = point, 1+g.random.IntN(3)
	g.death = ""
	if !slices.Contains(g.outside, point) {
		g.death = fmt.Sprintf("%s:%d", point, g.left)
	}
	g.mu.Unlock()
	g.lives++
	g.launch(t)
	await(t, "the gateway to be ready, or to die", func() bool {
		status, _ := g.ask(t, "/readyz")
		return status == http.StatusOK || g.gone()
	})
}

// revive restarts a killed gateway, with the next fate.
func (g *gauntlet) revive(t *testing.T) {
	t.Helper()
	if g.mend() {
		g.kill(t)
	}
	for g.gone() {
		if code := g.process.ProcessState.ExitCode(); code != -1 {
			t.Fatalf("the gateway ended by itself with %d, waiting for its death while %s", code, g.point)
		}
		if g.point != "" {
			g.killed++
			g.died[g.point]++
		}
		g.live(t, g.points[g.lives%len(g.points)])
	}
}

// spare ends the killing.
func (g *gauntlet) spare(t *testing.T) {
	t.Helper()
	if !g.gone() {
		g.kill(t)
	}
	g.live(t, "")
}

// insist tries until it succeeds, over as many lives of the gateway as it takes.
func (g *gauntlet) insist(t *testing.T, what string, try func() bool) {
	t.Helper()
	await(t, what, func() bool {
		g.revive(t)
		return try()
	})
}

// introduce registers the agent with a gateway that lives, and has it consent to
// whatever alice may send.
func (g *gauntlet) introduce(t *testing.T) {
	t.Helper()
	g.live(t, "")
	if err := g.agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.agent.Transport = g
	offer := g.offer(t)
	g.ircd.Tagmsg("alice", "#ops", translate.Wire(offer, map[string]string{"from": string(offer.From)}))
	await(t, "a handshake", func() bool {
		for _, m := range g.inbox(t) {
			if m.Payload.Type == "system:handshake_request" {
				status, _, err := g.agent.Consent(t.Context(), m.Payload.Data.Requester, "accept")
				return err == nil && status == http.StatusOK
			}
		}
		return false
	})
	g.kill(t)
	g.live(t, g.points[g.random.IntN(len(g.points))])
}

func (g *gauntlet) offer(t *testing.T) federation.Event {
	t.Helper()
	return sealOffer(t, g.alice, federation.DID(g.agent.DID))
}

// sealOffer returns a signed offer in the channel, to "" for one to anyone.
func sealOffer(t *testing.T, by federation.SigningKey, to federation.DID) federation.Event {
	t.Helper()
	id := federation.EventID(ulid.Make())
	ev := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: by.DID,
		To: to, Venue: "#ops", Dialect: federation.ActTags, Title: "Cite three sources",
	}
	ev.Fields, _ = acttag.Write(ev)
	ev, err := signing.Seal(t.Context(), by, ev)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// note is as much of a message to the agent as is looked at.
type note struct {
	ID, From string
	Payload  struct {
		Type string
		Data struct {
			Requester string
			Handoff   struct{ ID, Event string }
		}
	}
}

// inbox returns the new entries of the agent's inbox, nothing while the
// gateway is gone.
func (g *gauntlet) inbox(t *testing.T) []note {
	t.Helper()
	texts, next, err := g.agent.Inbox(t.Context(), g.cursor)
	if err != nil {
		return nil
	}
	g.cursor = next
	notes := make([]note, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &notes[i]); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := g.agent.Verify(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	return notes
}

// carry takes one handoff from its offer to its end.
func (g *gauntlet) carry(t *testing.T) {
	t.Helper()
	offer := g.offer(t)
	id, looked := offer.ID.String(), 0
	g.insist(t, "the offer at the agent", func() bool {
		if looked%repeatAfter == 0 { // an offer gets no answer, and a gateway outside the channel hears none
			g.ircd.Tagmsg("alice", "#ops", translate.Wire(offer, map[string]string{"from": string(offer.From)}))
		}
		looked++
		for _, n := range g.inbox(t) {
			if n.Payload.Type == "task:request" {
				g.asked[n.Payload.Data.Handoff.ID] = n.From
				g.read[n.Payload.Data.Handoff.ID]++
			}
		}
		return g.read[id] > 0
	})
	g.answer(t, id, "accept", "assigned", map[string]any{"type": "ack", "data": map[string]any{"replyTo": id, "status": "received"}})
	g.answer(t, id, "complete", "completed", map[string]any{"type": "task:result", "data": map[string]any{
		"requestId": id, "status": "completed", "result": map[string]any{"note": "three sources"},
	}})
}

// answer sends one message of the agent's until it is answered, as agents do, and
// waits until the network has seen the step and the home's receipt for it.
func (g *gauntlet) answer(t *testing.T, id, verb, state string, payload map[string]any) {
	t.Helper()
	text, err := g.agent.Sign(g.agent.Envelope(g.asked[id], "on it", payload))
	if err != nil {
		t.Fatal(err)
	}
	step := said{handoff: id, verb: verb}
	g.insist(t, verb+" to be answered", func() bool {
		status, body, err := g.agent.Do(t.Context(), http.MethodPost, "/messages", text)
		var got struct {
			Error, Message string
			Handoff        struct {
				State   string
				EventID string `json:"event_id"`
			}
		}
		if err != nil || status == http.StatusServiceUnavailable {
			return false
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		known := status == http.StatusConflict && got.Error == "duplicate_message" && strings.Contains(got.Message, "same bytes")
		if !known && (status != http.StatusCreated || got.Handoff.State != state) {
			t.Fatalf("%s is answered %d %s", verb, status, body)
		}
		step.event = got.Handoff.EventID // none if the first answer was lost
		return true
	})
	g.said = append(g.said, step)
	g.insist(t, verb+" and its receipt on the network", func() bool {
		seen := g.seen(id)
		return len(seen[verb]) > 0 && slices.ContainsFunc(seen["confirm"], func(m bridgetest.IRCMessage) bool {
			return m.Tags[actPrefix+"act-subject"] == seen[verb][0].Tags[actPrefix+"eventid"]
		})
	})
}

// seen returns the messages to the network about a handoff, by verb.
func (g *gauntlet) seen(id string) map[string][]bridgetest.IRCMessage {
	found := map[string][]bridgetest.IRCMessage{}
	for _, m := range g.ircd.Received() {
		if m.Command == "TAGMSG" && m.Tags[actPrefix+"act-id"] == id {
			verb := m.Tags[actPrefix+"act-verb"]
			found[verb] = append(found[verb], m)
		}
	}
	return found
}

// judge checks all messages. A step may have been written to the network again, as
// the same message; a line for people may not, nor a message to the agent.
func (g *gauntlet) judge(t *testing.T) {
	t.Helper()
	for _, s := range g.said {
		seen := g.seen(s.handoff)
		for _, copies := range seen {
			checkCopies(t, copies)
		}
		if len(seen[s.verb]) == 0 || s.event != "" && seen[s.verb][0].Tags[actPrefix+"eventid"] != s.event {
			t.Errorf("%s of %s was acknowledged as %q and is seen %d times", s.verb, s.handoff, s.event, len(seen[s.verb]))
		}
	}
	for id, n := range g.read {
		if n != 1 {
			t.Errorf("the offer %s is %d times in the inbox", id, n)
		}
	}
	for _, point := range g.points {
		if g.died[point] == 0 {
			t.Errorf("never killed while %s", point)
		}
	}
	g.checkLines(t)
	if code := g.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	g.checkRecord(t)
	t.Logf("%d lives, %d kills %v, %d handoffs", g.lives, g.killed, g.died, len(g.said)/2)
}

// checkLines checks that no line for people was written twice, and that the gateway
// said nothing that the network would not have.
func (g *gauntlet) checkLines(t *testing.T) {
	t.Helper()
	told := map[string]int{}
	for _, m := range g.ircd.Received() {
		if m.Command == "NOTICE" || m.Command == "PRIVMSG" {
			told[m.Params[1]]++
		}
	}
	for line, n := range told {
		if n > 1 {
			t.Errorf("%d times: %s", n, line)
		}
	}
	if err := g.ircd.Err(); err != nil {
		t.Error(err)
	}
}

func (g *gauntlet) checkRecord(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, "--config", g.config, "verify").CombinedOutput(); err != nil {
		t.Errorf("baton verify: %s, %v", out, err)
	}
}

// checkCopies checks that repeated messages are the same. Receipts are of several
// steps, and each step has one.
func checkCopies(t *testing.T, copies []bridgetest.IRCMessage) {
	t.Helper()
	first := map[string]bridgetest.IRCMessage{}
	for _, m := range copies {
		subject := m.Tags[actPrefix+"act-subject"]
		if _, again := first[subject]; !again {
			first[subject] = m
		}
		for _, tag := range []string{actPrefix + "eventid", actPrefix + "sig", "msgid"} {
			if was := first[subject].Tags; m.Tags[tag] != was[tag] {
				t.Errorf("a step was made twice: %v and %v", was, m.Tags)
			}
		}
	}
}

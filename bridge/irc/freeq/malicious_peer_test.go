package freeq_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
)

// liar is a server that sends arbitrary messages after a regular greeting.
type liar struct {
	house *house
	conn  net.Conn
	key   ed25519.PrivateKey
	id    string
	n     int
	log   []map[string]any // rows that it answers a catch-up with
}

// newLiar links a gateway to a liar. The gateway verifies steps of alice and of the
// server as a home does.
func newLiar(t *testing.T, rows ...map[string]any) *liar {
	t.Helper()
	l := &liar{key: seeded("their endpoint"), log: rows}
	l.id = hex.EncodeToString(public(l.key))
	listener := local(t)
	ready := make(chan struct{})
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l.conn = conn
		l.line(map[string]any{"type": "hello", "peer_id": l.id, "server_name": theirs, "capabilities": []string{"catchup", "act", "act_route"}})
		l.say(map[string]any{"type": "sync_response", "server_id": l.id, "channels": []any{}})
		close(ready)
		l.listen()
	}()
	l.house = newHouse(t, func(cfg *freeq.Config, _ *freeq.Deps) { cfg.Address = listener.Addr().String() })
	l.house.gateway.answer = l.judge(t)
	l.house.run(t)
	<-ready
	return l
}

// listen answers questions until the link is over.
func (l *liar) listen() {
	r := bufio.NewReader(l.conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		var e struct{ Payload string }
		_ = json.Unmarshal([]byte(line), &e)
		inner, _ := base64.RawURLEncoding.DecodeString(e.Payload)
		if strings.Contains(string(inner), `"catchup_request"`) {
			events := l.log
			l.log = nil
			l.say(map[string]any{"type": "catchup_events", "origin": l.id, "events": append([]map[string]any{}, events...), "more": false})
		}
	}
}

// judge verifies as a home does, and files valid steps.
func (l *liar) judge(t *testing.T) func(federation.Event) (federation.Judgement, error) {
	t.Helper()
	known := keys{}
	for _, name := range []string{"alice", "scout"} {
		did, key := person(name)
		known[did] = public(key)
	}
	known["did:web:"+theirs] = public(seeded("their server"))
	return func(ev federation.Event) (federation.Judgement, error) {
		_, verdict, err := signing.Verify(t.Context(), known, ev)
		return federation.Judgement{Verdict: verdict}, err
	}
}

func marshal(m map[string]any) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return text
}

func (l *liar) line(m map[string]any) {
	text := marshal(m)
	_, _ = l.conn.Write(append(text, '\n'))
}

// say sends a message in an envelope of the server.
func (l *liar) say(m map[string]any) {
	text := marshal(m)
	_, _ = l.conn.Write([]byte(bridgetest.Envelope(l.key, text) + "\n"))
}

// step returns an offer of a user as a message.
func (l *liar) step(name, title string) map[string]any {
	did, key := person(name)
	l.n++
	id := federationtest.ID(l.n)
	tags := map[string]string{
		"+freeq.at/act": "handoff", "+freeq.at/act-verb": "offer", "+freeq.at/act-title": title,
		"+freeq.at/from": string(did), "+freeq.at/eventid": id.String(),
	}
	l.seal(tags, key)
	return map[string]any{
		"type": "tagmsg", "event_id": fmt.Sprintf("%s:%d", l.id, l.n), "from": name, "target": channel, "tags": tags, "origin": l.id,
	}
}

func (l *liar) seal(tags map[string]string, key ed25519.PrivateKey) string {
	fields := map[string]string{}
	for name, value := range tags {
		if bare := strings.TrimPrefix(name, "+freeq.at/"); bare == "act" || strings.HasPrefix(bare, "act-") {
			fields[bare] = value
		}
	}
	document, err := signing.Canonical(fields, federation.DID(tags["+freeq.at/from"]), channel, tags["+freeq.at/eventid"])
	if err != nil {
		panic(err)
	}
	sig := ed25519.Sign(key, []byte(document))
	tags["+freeq.at/sig"] = "ed25519:" + federation.KeyID(public(key)) + ":" + base64.RawURLEncoding.EncodeToString(sig)
	return document
}

// keys is a federation.KeySource of a few people.
type keys map[federation.DID]ed25519.PublicKey

func (k keys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, ok := k[q.DID]; ok {
		return []ed25519.PublicKey{key}, nil
	}
	return nil, errors.New("nobody knows this DID")
}

func (k keys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// lives sends an honest step, which must be filed next.
func (l *liar) lives(t *testing.T) {
	t.Helper()
	honest := l.step("alice", "honest")
	l.say(honest)
	if ev := l.house.gateway.next(t); ev.Title != "honest" || ev.Arrival.Home != theirs {
		t.Errorf("filed %+v", ev)
	}
}

// with returns a message with some of its tags changed; "-" takes one away.
func with(m map[string]any, name, value string) map[string]any {
	tags, _ := m["tags"].(map[string]string)
	tags = maps.Clone(tags)
	if tags["+freeq.at/"+name] = value; value == "-" {
		delete(tags, "+freeq.at/"+name)
	}
	m["tags"] = tags
	return m
}

func TestMaliciousPeerGetsNothingFiled(t *testing.T) {
	for name, lie := range map[string]func(l *liar){
		"a tag added":                  func(l *liar) { l.say(with(l.step("alice", "x"), "act-x-more", "1")) },
		"a tag stripped":               func(l *liar) { l.say(with(l.step("alice", "x"), "act-title", "-")) },
		"a tag changed":                func(l *liar) { l.say(with(l.step("alice", "x"), "act-title", "y")) },
		"a step signed by another":     func(l *liar) { l.say(with(l.step("scout", "x"), "from", string(did("alice")))) },
		"a step without origin":        func(l *liar) { m := l.step("alice", "x"); delete(m, "origin"); l.say(m) },
		"an echo of ours":              func(l *liar) { m := l.step("alice", "x"); m["origin"] = hexOf("our endpoint"); l.say(m) },
		"a step without an envelope":   func(l *liar) { l.line(l.step("alice", "x")) },
		"an envelope by another key":   func(l *liar) { l.forge(l.step("alice", "x")) },
		"another's name on it":         func(l *liar) { l.rename(l.step("alice", "x")) },
		"a padded payload":             func(l *liar) { l.pad(l.step("alice", "x")) },
		"a did:web from a person":      func(l *liar) { l.say(l.by("did:web:agents.example:bob", "offer")) },
		"another server's receipt":     func(l *liar) { l.say(l.by("did:web:other.test", "confirm")) },
		"another server's expiry":      func(l *liar) { l.say(l.by("did:web:other.test", "expire")) },
		"a person's receipt":           func(l *liar) { l.say(l.by(string(did("alice")), "confirm")) },
		"an offer by the server":       func(l *liar) { l.say(l.by("did:web:"+theirs, "offer")) },
		"a channel of nobody":          func(l *liar) { m := l.step("alice", "x"); m["target"] = "#elsewhere"; l.say(m) },
		"a private step to a stranger": func(l *liar) { m := l.step("alice", "x"); m["target"] = string(did("stranger")); l.say(m) },
		"a private step to a nick":     func(l *liar) { m := l.step("alice", "x"); m["target"] = "scout-gw"; l.say(m) },
		"the state of another": func(l *liar) {
			l.say(map[string]any{"type": "sync_response", "server_id": hexOf("x"), "channels": []any{}})
		},
		"a peer that is gone":        func(l *liar) { l.say(map[string]any{"type": "peer_disconnected", "peer_id": l.id}) },
		"rows that nobody asked for": func(l *liar) { l.say(map[string]any{"type": "catchup_events", "origin": l.id, "events": []any{}}) },
		"no JSON":                    func(l *liar) { _, _ = l.conn.Write([]byte("garbage\n\n{}\n[]\n{\"type\":\"tagmsg\"}\n")) },
		"a line of 10 MiB":           func(l *liar) { _, _ = l.conn.Write([]byte(strings.Repeat("x", 10<<20) + "\n")) },
		"a line of 17 MiB":           func(l *liar) { _, _ = l.conn.Write([]byte(strings.Repeat("x", 17<<20) + "\n")) },
		"an envelope in an envelope": func(l *liar) { l.nest(l.step("alice", "x")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			lie(l)
			l.lives(t)
		})
	}
}

func did(name string) federation.DID { d, _ := person(name); return d }

func hexOf(name string) string { return hex.EncodeToString(public(seeded(name))) }

// by returns a step that claims a user as its signer, and is signed by the server.
func (l *liar) by(from, verb string) map[string]any {
	m := l.step("alice", "x")
	m = with(with(with(m, "from", from), "act-verb", verb), "act-id", federationtest.ID(1).String())
	if verb == "confirm" {
		m = with(m, "act-subject", federationtest.ID(2).String())
	}
	if verb == "offer" {
		m = with(m, "act-id", "-")
	}
	tags, _ := m["tags"].(map[string]string)
	l.seal(tags, seeded("their server"))
	return m
}

func (l *liar) forge(m map[string]any) {
	text := marshal(m)
	_, _ = l.conn.Write([]byte(bridgetest.Envelope(seeded("stranger"), text) + "\n"))
}

func (l *liar) rename(m map[string]any) {
	text := marshal(m)
	line := bridgetest.Envelope(seeded("stranger"), text)
	_, _ = l.conn.Write([]byte(strings.Replace(line, hexOf("stranger"), l.id, 1) + "\n"))
}

func (l *liar) pad(m map[string]any) {
	m["from"] = "alic" // to a length that wants padding
	text := marshal(m)
	line := bridgetest.Envelope(l.key, append(text, strings.Repeat(" ", 4-len(text)%3)...))
	_, _ = l.conn.Write([]byte(strings.Replace(line, `","signature"`, `==","signature"`, 1) + "\n"))
}

func (l *liar) nest(m map[string]any) {
	text := marshal(m)
	var inner map[string]any
	_ = json.Unmarshal([]byte(bridgetest.Envelope(l.key, text)), &inner)
	l.say(inner)
}

func TestEnvelopeReplayCountsOnce(t *testing.T) {
	l := newLiar(t)
	m := l.step("alice", "once")
	for range 3 {
		l.say(m)
	}
	if ev := l.house.gateway.next(t); ev.Title != "once" {
		t.Errorf("filed %+v", ev)
	}
	l.lives(t)
	if got := l.house.bad("repeated"); got != 2 {
		t.Errorf("%d repeats counted, want 2", got)
	}
}

func TestEnvelopeIDsMayStepBack(t *testing.T) {
	l := newLiar(t)
	first, second := l.step("alice", "first"), l.step("alice", "second")
	l.say(second)
	l.say(first)
	if a, b := l.house.gateway.next(t), l.house.gateway.next(t); a.Title == b.Title {
		t.Errorf("filed %s and %s", a.Title, b.Title)
	}
}

func TestEnvelopeOriginIsReplacedByThePeer(t *testing.T) {
	l := newLiar(t)
	m := l.step("alice", "restamped")
	m["origin"] = hexOf("a third server")
	l.say(m)
	if ev := l.house.gateway.next(t); ev.Arrival.Home != theirs || ev.Arrival.Link != linkName {
		t.Errorf("it counts as from %q over %q", ev.Arrival.Home, ev.Arrival.Link)
	}
}

// outbound returns an offer as a row of a log.
func outbound(l *liar, title, origin string) map[string]any {
	m := l.step("alice", title)
	tags, _ := m["tags"].(map[string]string)
	did, key := person("alice")
	document := l.seal(tags, key)
	return map[string]any{
		"event_id": tags["+freeq.at/eventid"], "kind": "act", "venue": channel, "timestamp": time.Now().Unix(),
		"canonical": document, "signature": tags["+freeq.at/sig"], "actor_did": string(did), "origin": origin,
	}
}

func TestCatchUpBelievesALogOnlyAboutItsServer(t *testing.T) {
	scribe := &liar{id: hexOf("their endpoint"), n: 100}
	l := newLiar(t,
		outbound(scribe, "claimed as ours", hexOf("our endpoint")),
		outbound(scribe, "of a third server", hexOf("a third server")),
		outbound(scribe, "of its own", scribe.id),
	)
	if ev := l.house.gateway.next(t); ev.Title != "of its own" {
		t.Errorf("filed %q", ev.Title)
	}
	l.lives(t)
}

func TestFloodLosesNoStep(t *testing.T) {
	const n = 4000
	l := newLiar(t)
	before := heap()
	lines := make([]string, 0, n)
	for i := range n {
		m := l.step("alice", fmt.Sprintf("step %d", i))
		lines = append(lines, bridgetest.Envelope(l.key, marshal(m)))
	}
	if _, err := l.conn.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	titles := map[string]bool{}
	for len(titles) < n {
		titles[l.house.gateway.next(t).Title] = true
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	l.lives(t)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

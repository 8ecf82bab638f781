package bridgetest

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// freeqRate is the number of messages accepted from a peer in one clock second. The server silently
// drops any others.
const freeqRate = 100

// FreeqConfig is the configuration of a [Freeq] and its peer.
type FreeqConfig struct {
	Name     string
	Endpoint ed25519.PrivateKey
	Server   ed25519.PrivateKey
	Peer     string   // endpoint ID of the only accepted peer
	PeerAPI  string   // address of the peer's keys; may be set later with SetPeerAPI
	Channels []string // existing channels, with mode +n
}

// Freeq simulates the part of a freeq server that a gateway sees: one end of freeq/s2s/1, the web
// API, and users. It enforces the rules of a real server, and records each action that gateways
// must not take.
type Freeq struct {
	cfg  FreeqConfig
	id   string
	http *httptest.Server

	mu         sync.Mutex
	conn       net.Conn // nil without a link
	dialled    bool
	duplicates int
	next       uint64
	highWater  uint64 // of the peer's event IDs, on this connection
	window     int64  // the current second of the clock
	counted    int
	dropped    int
	lose       int // drop each n-th event of the peer; 0 for none
	loseLines  bool
	events     int // events counted for lose
	stall      time.Duration
	early      map[string][]freeqRow // receipts by the confirmed step, which is not filed yet
	linked     bool                  // the peer has sent its greeting
	links      int
	spoke      bool                         // the peer has sent a step on this link
	members    map[string]map[string]string // channel to nick to DID, of the peer
	users      map[string]*FreeqUser        // by nick
	gone       map[string]bool              // nicks of users that quit, until they return
	moderated  map[string]bool
	deaf       map[net.Conn]bool // connections from before [Freeq.Die]
	peerName   string
	read       []Line
	tasks      map[string]*freeqTask
	log        []freeqRow
	keys       map[string]ed25519.PublicKey // "did kid", of users and fetched
	mute       map[string]bool
	peers      []*Freeq
	lag        time.Duration // of messages between peers
	relayed    chan relayed
	shown      []Shown
	lines      []map[string]any // all messages of the peer, unwrapped
	unexpected []string
	changed    chan struct{} // closed and replaced at each change
}

type freeqTask struct {
	id, kind, venue          string
	state, home              string // home is an endpoint ID
	offerer, offeree, worker string
}

// freeqRow is one filed event. Text has no canonical form.
type freeqRow struct {
	id, task, venue, canonical, signature, actor, origin, state, text string
	at                                                                int64
}

// NewFreeq starts a server without a link. The caller closes it.
func NewFreeq(cfg FreeqConfig) *Freeq {
	f := &Freeq{
		cfg: cfg, id: hex.EncodeToString(public(cfg.Endpoint)), next: uint64(time.Now().UnixMicro()),
		members: map[string]map[string]string{}, users: map[string]*FreeqUser{}, gone: map[string]bool{}, tasks: map[string]*freeqTask{},
		moderated: map[string]bool{}, deaf: map[net.Conn]bool{},
		keys: map[string]ed25519.PublicKey{}, mute: map[string]bool{}, changed: make(chan struct{}), early: map[string][]freeqRow{},
		relayed: make(chan relayed, maxRelayed),
	}
	for _, channel := range cfg.Channels {
		f.members[channel] = map[string]string{}
	}
	f.keys[keyName("did:web:"+cfg.Name, federation.KeyID(public(cfg.Server)))] = public(cfg.Server)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/signing-keys/{did}/{kid}", f.serveKey)
	mux.HandleFunc("GET /api/v1/actions", f.serveActions)
	mux.HandleFunc("GET /api/v1/actions/{id}", f.serveAction)
	f.http = httptest.NewServer(mux)
	go f.relays()
	return f
}

func public(key ed25519.PrivateKey) ed25519.PublicKey {
	p, _ := key.Public().(ed25519.PublicKey)
	return p
}

func keyName(did, kid string) string { return did + " " + kid }

// ID returns the endpoint ID.
func (f *Freeq) ID() string { return f.id }

// API returns the address of the web API.
func (f *Freeq) API() string { return f.http.URL }

// SetPeerAPI sets the address of the peer's keys.
func (f *Freeq) SetPeerAPI(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg.PeerAPI = address
}

// SetPeer sets the endpoint of the only peer.
func (f *Freeq) SetPeer(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg.Peer = id
}

// Mute makes the server drop its messages of a verb to the peer.
func (f *Freeq) Mute(verb federation.Verb, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute[string(verb)] = on
}

// Lose makes the server silently drop each n-th event of the peer; 0 ends this.
func (f *Freeq) Lose(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = n
}

// LoseLines makes the server drop all lines of the peer's users from now on, or none.
func (f *Freeq) LoseLines(lose bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loseLines = lose
}

// Moderate makes a channel moderated or unmoderated. A moderated channel drops all lines of the
// peer's users.
func (f *Freeq) Moderate(channel string, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moderated[channel] = on
}

// Stall makes the server process no lines for a while. Then it processes the delayed lines at once,
// and counts them in that second.
func (f *Freeq) Stall(pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall = pause
}

// Close ends the server and its links.
func (f *Freeq) Close() {
	f.Cut()
	f.relayed <- relayed{}
	f.http.Close()
}

// note wakes all waiters. The lock is held.
func (f *Freeq) note() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Await blocks until a condition is true, or returns an error if ctx ends first. The condition is
// checked with the lock held.
func (f *Freeq) Await(ctx context.Context, what string, holds func() bool) error {
	for {
		f.mu.Lock()
		ok, changed := holds(), f.changed
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("await %s: %w", what, context.Cause(ctx))
		}
	}
}

// AwaitLink blocks until the peer has sent its greeting and requested its missed messages.
func (f *Freeq) AwaitLink(ctx context.Context) error {
	return f.Await(ctx, "the link", func() bool { return f.conn != nil && f.linked })
}

// AwaitNext blocks until the peer has sent a step on a link after the n-th, and returns the number
// of that link.
func (f *Freeq) AwaitNext(ctx context.Context, links int) (int, error) {
	n := links
	err := f.Await(ctx, "the next link", func() bool {
		n = f.links
		return n > links && f.spoke
	})
	return n, err
}

// AwaitState blocks until a handoff is in a state here.
func (f *Freeq) AwaitState(ctx context.Context, id federation.HandoffID, state federation.State) error {
	return f.Await(ctx, id.String()+" to be "+string(state), func() bool {
		task := f.tasks[id.String()]
		return task != nil && task.state == string(state)
	})
}

// State returns the state of a handoff here, or "".
func (f *Freeq) State(id federation.HandoffID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if task := f.tasks[id.String()]; task != nil {
		return task.state
	}
	return ""
}

// Row returns the document of a filed step, or "".
func (f *Freeq) Row(step federation.EventID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if row := f.row(step.String()); row != nil {
		return row.canonical
	}
	return ""
}

// AwaitAnswers blocks until the peer has answered n questions.
func (f *Freeq) AwaitAnswers(ctx context.Context, n int) error {
	return f.Await(ctx, strconv.Itoa(n)+" answers", func() bool {
		answers := 0
		for _, m := range f.lines {
			if m["type"] == "catchup_events" {
				answers++
			}
		}
		return answers >= n
	})
}

// AwaitFiled blocks until a step is filed here.
func (f *Freeq) AwaitFiled(ctx context.Context, step string) error {
	return f.Await(ctx, step+" on file", func() bool {
		return f.row(step) != nil
	})
}

// Filed reports whether a step is filed here.
func (f *Freeq) Filed(step string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.row(step) != nil
}

// The lock is held.
func (f *Freeq) row(step string) *freeqRow {
	if i := slices.IndexFunc(f.log, func(row freeqRow) bool { return row.id == step }); i >= 0 {
		return &f.log[i]
	}
	return nil
}

// AwaitMember blocks until the peer has a user with this nick in a channel.
func (f *Freeq) AwaitMember(ctx context.Context, channel, nick string) error {
	return f.Await(ctx, nick+" in "+channel, func() bool {
		_, there := f.members[channel][nick]
		return there
	})
}

// AwaitLine blocks until the peer has sent a matching message, and returns it.
func (f *Freeq) AwaitLine(ctx context.Context, what string, fits func(m map[string]any) bool) (found map[string]any, err error) {
	err = f.Await(ctx, what, func() bool {
		for _, m := range f.lines {
			if fits(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found, err
}

// AwaitLines blocks until the peer has sent n matching messages.
func (f *Freeq) AwaitLines(ctx context.Context, n int, fits func(m map[string]any) bool) error {
	return f.Await(ctx, fmt.Sprintf("%d lines", n), func() bool {
		count := 0
		for _, m := range f.lines {
			if fits(m) {
				count++
			}
		}
		return count >= n
	})
}

// Said returns all messages of the peer, unwrapped.
func (f *Freeq) Said() []map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]map[string]any(nil), f.lines...)
}

// Links returns the number of the peer's greetings.
func (f *Freeq) Links() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.links
}

// Dropped returns the number of messages that arrived too fast or that [Freeq.Lose] dropped.
func (f *Freeq) Dropped() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// AwaitDropped blocks until a message was dropped.
func (f *Freeq) AwaitDropped(ctx context.Context) error {
	return f.Await(ctx, "a dropped message", func() bool { return f.dropped > 0 })
}

// Unexpected returns the peer's actions that are forbidden to gateways.
func (f *Freeq) Unexpected() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.unexpected...)
}

func (f *Freeq) oddOf(row freeqRow, format string, args ...any) {
	if row.origin == f.cfg.Peer {
		f.odd(format, args...)
	}
}

func (f *Freeq) odd(format string, args ...any) {
	f.unexpected = append(f.unexpected, fmt.Sprintf(format, args...))
}

// Say sends a message to the peer in an envelope of the server.
func (f *Freeq) Say(m map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say(m)
}

// SayRaw sends a line to the peer unchanged.
func (f *Freeq) SayRaw(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write(line)
}

// Event sets the ID and the origin of a message of this server.
func (f *Freeq) Event(m map[string]any) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.event(m)
}

func (f *Freeq) event(m map[string]any) map[string]any {
	f.next++
	m["event_id"], m["origin"] = f.id+":"+strconv.FormatUint(f.next, 10), f.id
	return m
}

func (f *Freeq) say(m map[string]any) {
	text, err := json.Marshal(m)
	if err != nil {
		panic("bridgetest: " + err.Error()) // it is made of strings
	}
	if kind := m["type"]; kind == "hello" || kind == "hello_ack" {
		f.write(string(text))
		return
	}
	f.write(Envelope(f.cfg.Endpoint, text))
}

// A peer that does not read is disconnected, so that it does not block others.
func (f *Freeq) write(line string) {
	if f.conn == nil {
		return
	}
	_ = f.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := f.conn.Write([]byte(line + "\n")); err != nil && !errors.Is(err, net.ErrClosed) {
		_ = f.conn.Close()
	}
}

// Envelope signs the text of a message like a server.
func Envelope(key ed25519.PrivateKey, inner []byte) string {
	text, err := json.Marshal(map[string]string{
		"type": "signed", "payload": base64.RawURLEncoding.EncodeToString(inner),
		"signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, inner)), "signer": hex.EncodeToString(public(key)),
	})
	if err != nil {
		panic("bridgetest: " + err.Error()) // it has only strings
	}
	return string(text)
}

func actDocument(tags map[string]string, venue string) (string, error) {
	fields := map[string]string{}
	for name, value := range tags {
		bare := strings.TrimPrefix(name, "+freeq.at/")
		if bare == "act" || strings.HasPrefix(bare, "act-") {
			fields[bare] = value
		}
	}
	return signing.Canonical(fields, federation.DID(tags["+freeq.at/from"]), venue, tags["+freeq.at/eventid"])
}

package bridgetest

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// The lock is held.
func (f *Freeq) hear(line string) {
	var e struct{ Type, Payload, Signature, Signer string }
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		f.odd("no JSON: %q", line)
		return
	}
	text := []byte(line)
	if e.Type == "signed" {
		inner, err := base64.RawURLEncoding.Strict().DecodeString(e.Payload)
		sig, sigErr := base64.RawURLEncoding.Strict().DecodeString(e.Signature)
		key, keyErr := hex.DecodeString(f.cfg.Peer)
		if errors.Join(err, sigErr, keyErr) != nil || e.Signer != f.cfg.Peer || !ed25519.Verify(key, inner, sig) {
			f.odd("bad envelope: %.80s", line)
			return
		}
		text = inner
	} else if e.Type != "hello" && e.Type != "hello_ack" {
		f.odd("unsigned %s", e.Type)
		return
	}
	if f.tooFast() {
		f.dropped++
		return
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		f.odd("no object: %.80s", text)
		return
	}
	if f.loses(m) {
		f.dropped++
		return
	}
	f.lines = append(f.lines, m)
	f.act(m)
}

func (f *Freeq) loses(m map[string]any) bool {
	if text(m, "type") == "privmsg" && f.loseLines {
		return true
	}
	if kind := text(m, "type"); f.lose == 0 || kind != "tagmsg" && kind != "privmsg" && kind != "join" && kind != "act_route" {
		return false
	}
	f.events++
	return f.events%f.lose == 0
}

func (f *Freeq) tooFast() bool {
	if now := time.Now().Unix(); now != f.window {
		f.window, f.counted = now, 0
	}
	f.counted++
	return f.counted > freeqRate
}

// Messages below the high-water mark are dropped.
func (f *Freeq) rises(m map[string]any) bool {
	id, _ := m["event_id"].(string)
	prefix, digits, _ := strings.Cut(id, ":")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || prefix != f.cfg.Peer || m["origin"] != f.cfg.Peer {
		f.odd("event id %q of origin %v", id, m["origin"])
		return false
	}
	if n <= f.highWater {
		f.odd("event id %q after %d", id, f.highWater)
		return false
	}
	f.highWater = n
	return true
}

func text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

func (f *Freeq) act(m map[string]any) {
	kind := text(m, "type")
	if !f.linked && kind != "hello" && kind != "hello_ack" && !strings.HasPrefix(kind, "sync_") {
		f.odd("%s before its greeting", kind)
	}
	switch kind {
	case "hello":
		f.linked, f.peerName = true, text(m, "server_name")
		f.links++
		f.say(map[string]any{"type": "hello_ack", "peer_id": f.id, "accepted": true, "trust_level": "full"})
		f.say(map[string]any{"type": "sync_request"})
		f.say(map[string]any{"type": "catchup_request", "peer_id": f.id, "since_ts": time.Now().Add(-24 * time.Hour).Unix(), "limit": 0})
	case "hello_ack":
	case "sync_request":
		f.sayState()
	case "sync_response":
		f.state(m)
	case "catchup_request":
		f.replay(m)
	case "catchup_events":
		f.learn(m)
	case "join", "part", "quit":
		if f.rises(m) {
			f.member(m)
		}
	case "privmsg":
		if f.rises(m) {
			f.spoken(m)
		}
	case "tagmsg", "act_route":
		if f.rises(m) {
			f.spoke = true
			f.step(m, kind == "act_route")
		}
	default:
		f.odd("type %q", kind)
	}
}

// Line is a line shown to a user.
type Line struct {
	Nick, From, Text, ID string
}

// Read returns the lines shown to a user.
func (u *FreeqUser) Read() []Line {
	u.home.mu.Lock()
	defer u.home.mu.Unlock()
	return u.read()
}

func (u *FreeqUser) read() (lines []Line) {
	for _, line := range u.home.read {
		if line.Nick == u.Nick {
			lines = append(lines, line)
		}
	}
	return lines
}

// AwaitRead blocks until the user has read n lines, and returns all.
func (u *FreeqUser) AwaitRead(ctx context.Context, n int) (lines []Line, err error) {
	err = u.home.Await(ctx, u.Nick+" to read", func() bool {
		lines = u.read()
		return len(lines) >= n
	})
	return lines, err
}

// Absent users never see the line.
func (f *Freeq) shows(m map[string]any) {
	for nick, u := range f.users {
		if target := text(m, "target"); strings.HasPrefix(target, "#") || target == nick || target == string(u.DID) {
			f.read = append(f.read, Line{Nick: nick, From: text(m, "from"), Text: text(m, "text"), ID: text(m, "msgid")})
		}
	}
}

// spoken checks a line against the modes of its channel, or a private line against its users. It
// delivers the line and files it once under its message ID. A private line is filed only if it
// names the DIDs of both ends, because a server resolves a nick only for registered nicks.
func (f *Freeq) spoken(m map[string]any) {
	from, target, id := text(m, "from"), text(m, "target"), text(m, "msgid")
	members, isChannel := f.members[target]
	_, there := members[from]
	switch {
	case isChannel && !there && f.dropped > 0: // its JOIN may be one of the dropped messages
	case isChannel && !there:
		f.odd("%s speaks in %s and is no member", from, target)
	case isChannel && f.moderated[target]:
	case f.gone[target]: // the peer may not have read its QUIT
	case !isChannel && f.reader(target) == "":
		f.odd("%s speaks to %s, who is not there", from, target)
	case id != "" && f.row(id) != nil:
	default:
		f.shows(m)
		files := isChannel || text(m, "account") != "" && (text(m, "recipient_did") == string(f.reader(target)) || federation.DID(target) == f.reader(target))
		if id != "" && files {
			f.log = append(f.log, freeqRow{id: id, venue: target, text: text(m, "text"), origin: f.peerName, at: time.Now().Unix()})
		}
	}
}

// The target is a nick or a DID. The result is "" for an unknown nick.
func (f *Freeq) reader(target string) federation.DID {
	if u := f.users[target]; u != nil {
		return u.DID
	}
	did, err := federation.ParseDID(target)
	if err != nil {
		return ""
	}
	return did
}

func (f *Freeq) sayState() {
	channels := []map[string]any{}
	for _, name := range f.cfg.Channels {
		members := []map[string]any{}
		for _, u := range f.users {
			members = append(members, map[string]any{"nick": u.Nick, "is_op": false, "did": string(u.DID)})
		}
		channels = append(channels, map[string]any{
			"name": name, "nick_info": members, "nicks": []string{}, "did_ops": []string{}, "created_at": 0,
			"topic_locked": true, "no_ext_msg": true, "moderated": false, "invite_only": false, "key": nil,
		})
	}
	f.say(map[string]any{"type": "sync_response", "server_id": f.id, "channels": channels})
}

func (f *Freeq) state(m map[string]any) {
	if text(m, "server_id") != f.cfg.Peer {
		f.odd("the state of %q", m["server_id"])
		return
	}
	for channel := range f.members {
		f.members[channel] = map[string]string{}
	}
	channels, _ := m["channels"].([]any)
	for _, each := range channels {
		c, _ := each.(map[string]any)
		if ops, _ := c["did_ops"].([]any); len(ops) > 0 || c["founder_did"] != nil {
			f.odd("claims ops of %v", c["name"])
		}
		infos, _ := c["nick_info"].([]any)
		for _, info := range infos {
			n, _ := info.(map[string]any)
			f.enter(text(c, "name"), text(n, "nick"), text(n, "did"))
		}
	}
}

func (f *Freeq) enter(channel, nick, did string) {
	if f.members[channel] == nil {
		f.odd("%s joins %s", nick, channel)
		return
	}
	if f.users[nick] != nil {
		f.odd("%s is the nick of a local user", nick)
	}
	if strings.HasPrefix(did, "did:web:") {
		f.odd("%s joins as %s, which is a server's", nick, did)
	}
	f.members[channel][nick] = did
}

func (f *Freeq) member(m map[string]any) {
	nick := text(m, "nick")
	switch text(m, "type") {
	case "join":
		f.enter(text(m, "channel"), nick, text(m, "did"))
	case "part":
		delete(f.members[text(m, "channel")], nick)
	case "quit":
		for _, members := range f.members {
			delete(members, nick)
		}
	}
}

// Each answer has at most 500 rows, oldest first.
func (f *Freeq) replay(m map[string]any) {
	since, _ := m["since_ts"].(float64)
	limit, _ := m["limit"].(float64)
	if limit <= 0 || limit > 500 {
		limit = 500
	}
	events, more := []map[string]any{}, false
	for _, row := range f.log {
		if row.at < int64(since) {
			continue
		}
		if len(events) == int(limit) {
			more = true
			break
		}
		subject := row.task
		if row.task == row.id {
			subject = ""
		}
		kind := "act"
		if row.canonical == "" {
			kind = "message"
		}
		events = append(events, map[string]any{
			"event_id": row.id, "kind": kind, "venue": row.venue, "timestamp": row.at, "canonical": row.canonical,
			"signature": row.signature, "actor_did": row.actor, "subject": subject, "origin": row.origin,
		})
	}
	f.say(map[string]any{"type": "catchup_events", "origin": f.id, "events": events, "more": more})
}

func (f *Freeq) learn(m map[string]any) {
	rows, _ := m["events"].([]any)
	for _, each := range rows {
		told, _ := each.(map[string]any)
		row := freeqRow{
			id: text(told, "event_id"), task: text(told, "subject"), venue: text(told, "venue"), canonical: text(told, "canonical"),
			signature: text(told, "signature"), actor: text(told, "actor_did"), origin: text(told, "origin"), at: time.Now().Unix(),
		}
		tags := map[string]string{}
		for name, value := range tagsOf(row) {
			tags[name], _ = value.(string)
		}
		if row.origin != f.cfg.Peer || tags["+freeq.at/eventid"] != row.id || !f.verified(tags, row.canonical) {
			f.odd("a row of a log that does not verify: %v", told)
			continue
		}
		f.file(row, tags, false, false)
	}
}

// Refusals are silent.
func (f *Freeq) step(m map[string]any, routed bool) {
	tags := map[string]string{}
	raw, _ := m["tags"].(map[string]any)
	for name, value := range raw {
		tags[name], _ = value.(string)
	}
	if !routed && (tags["+draft/react"] != "" || tags["+draft/unreact"] != "") {
		if text(m, "account") != "" {
			f.odd("a reaction of an account without its signature: %v", m)
		}
		return
	}
	venue := f.venue(text(m, "target"), tags)
	document, err := actDocument(tags, venue)
	if err != nil {
		f.odd("no document: %v", err)
		return
	}
	if !f.verified(tags, document) {
		f.odd("a step of %s that does not verify: %s", tags["+freeq.at/from"], document)
		return
	}
	if !routed { // also for a filed or an illegal step
		f.show(m)
	}
	row := freeqRow{
		id: tags["+freeq.at/eventid"], task: tags["+freeq.at/act-id"], venue: venue, canonical: document,
		signature: tags["+freeq.at/sig"], actor: tags["+freeq.at/from"], origin: f.cfg.Peer, at: time.Now().Unix(),
	}
	f.file(row, tags, false, routed)
}

// A private step has the pair of signer and recipient, and a step of a server the venue of its
// handoff.
func (f *Freeq) venue(target string, tags map[string]string) string {
	if !strings.HasPrefix(target, "did:") {
		return strings.ToLower(target)
	}
	if task := f.tasks[tags["+freeq.at/act-id"]]; task != nil {
		return task.venue
	}
	return federation.PrivateVenue(federation.DID(target), federation.DID(tags["+freeq.at/from"]))
}

func (f *Freeq) verified(tags map[string]string, document string) bool {
	parts := strings.Split(tags["+freeq.at/sig"], ":")
	if len(parts) != 3 || parts[0] != "ed25519" {
		return false
	}
	name := keyName(tags["+freeq.at/from"], parts[1])
	if f.keys[name] == nil {
		f.keys[name] = f.fetch(tags["+freeq.at/from"], parts[1])
	}
	sig, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	return err == nil && len(f.keys[name]) == ed25519.PublicKeySize && ed25519.Verify(f.keys[name], []byte(document), sig)
}

func (f *Freeq) fetch(did, kid string) ed25519.PublicKey {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, //nolint:forbidigo // the line has no context
		f.cfg.PeerAPI+"/api/v1/signing-keys/"+url.QueryEscape(did)+"/"+url.QueryEscape(kid), nil)
	if err != nil {
		return nil
	}
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	var answer struct {
		Key string `json:"public_key"`
	}
	_ = json.Unmarshal(body, &answer)
	key, _ := base64.RawURLEncoding.DecodeString(answer.Key)
	if len(key) != ed25519.PublicKeySize || federation.KeyID(key) != kid {
		return nil
	}
	return key
}

package bridgetest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// FreeqUser is a logged-in user of a [Freeq]. The server publishes its signing key.
type FreeqUser struct {
	Nick string
	DID  federation.DID
	key  ed25519.PrivateKey
	home *Freeq
}

func entropy() io.Reader { return rand.Reader }

// Join adds a user to all channels.
func (f *Freeq) Join(nick string, did federation.DID, key ed25519.PrivateKey) *FreeqUser {
	u := &FreeqUser{Nick: nick, DID: did, key: key, home: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users[nick] = u
	delete(f.gone, nick)
	f.keys[keyName(string(did), federation.KeyID(public(key)))] = public(key)
	for _, channel := range f.cfg.Channels {
		f.say(f.event(map[string]any{
			"type": "join", "nick": nick, "channel": channel, "did": string(did), "handle": nil, "is_op": false, "actor_class": nil,
		}))
	}
	return u
}

// Quit removes a user from the server.
func (u *FreeqUser) Quit() {
	f := u.home
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.users, u.Nick)
	f.gone[u.Nick] = true
	f.say(f.event(map[string]any{"type": "quit", "nick": u.Nick, "reason": ""}))
}

// Make makes a user create a channel.
func (u *FreeqUser) Make(channel string) {
	f := u.home
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[channel] = map[string]string{}
	f.say(f.event(map[string]any{
		"type": "join", "nick": u.Nick, "channel": channel, "did": string(u.DID), "handle": nil, "is_op": false, "actor_class": nil,
	}))
}

// Offer opens a handoff in a channel, or privately if the venue is a DID.
func (u *FreeqUser) Offer(target string, to federation.DID, title string) (federation.HandoffID, error) {
	tags := map[string]string{"+freeq.at/act-verb": "offer", "+freeq.at/act-title": title}
	if to != "" {
		tags["+freeq.at/act-to"] = string(to)
	}
	return u.Say(target, tags)
}

// Step takes a step in a handoff.
func (u *FreeqUser) Step(target string, id federation.HandoffID, verb federation.Verb, note string) (federation.EventID, error) {
	tags := map[string]string{"+freeq.at/act-verb": string(verb), "+freeq.at/act-id": id.String()}
	if note != "" {
		tags["+freeq.at/act-note"] = note
	}
	return u.Say(target, tags)
}

// Tell sends unencrypted text to a user, as clients do.
func (u *FreeqUser) Tell(nick, text string) { u.home.TellAs(u.Nick, nick, text) }

// TellAs is Tell for the user with the given nick.
func (f *Freeq) TellAs(from, nick, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say(f.event(map[string]any{"type": "privmsg", "from": from, "target": nick, "text": text, "tags": map[string]string{}}))
}

// Say signs a step and sends it like a client of a real server, which routes steps to their home
// for a ruling.
func (u *FreeqUser) Say(target string, tags map[string]string) (federation.EventID, error) {
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		return id, fmt.Errorf("mint event id: %w", err)
	}
	tags["+freeq.at/from"], tags["+freeq.at/eventid"] = string(u.DID), id.String()
	if tags["+freeq.at/act"] == "" {
		tags["+freeq.at/act"] = "handoff"
	}
	f := u.home
	f.mu.Lock()
	defer f.mu.Unlock()
	venue := f.venue(target, tags)
	document := seal(u.key, tags, venue)
	task := tags["+freeq.at/act-id"]
	f.file(freeqRow{
		id: id.String(), task: task, venue: venue, canonical: document, signature: tags["+freeq.at/sig"],
		actor: string(u.DID), origin: f.id, at: time.Now().Unix(),
	}, tags, true, false)
	f.note()
	if f.mute[tags["+freeq.at/act-verb"]] {
		return id, nil
	}
	step := map[string]any{"type": "tagmsg", "from": u.Nick, "target": target, "tags": tags, "account": string(u.DID)}
	f.show(step)
	f.relay("", step)
	f.say(f.event(step))
	if known := f.tasks[task]; known != nil && known.home != f.id && moving(tags["+freeq.at/act-verb"]) {
		routed := map[string]any{
			"type": "act_route", "act_id": task, "act_event_id": id.String(), "tags": tags, "target": target,
			"from": u.Nick, "account": string(u.DID),
		}
		if f.relay(known.home, routed); known.home == f.cfg.Peer {
			f.say(f.event(routed))
		}
	}
	return id, nil
}

func seal(key ed25519.PrivateKey, tags map[string]string, venue string) string {
	document, err := actDocument(tags, venue)
	if err != nil {
		panic("bridgetest: " + err.Error()) // it is made of strings
	}
	sig := base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(document)))
	tags["+freeq.at/sig"] = "ed25519:" + federation.KeyID(public(key)) + ":" + sig
	return document
}

// Repeat resends a stored step to the peer.
func (f *Freeq) Repeat(id federation.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.log {
		if row.id == id.String() {
			f.say(f.event(map[string]any{
				"type": "tagmsg", "from": "repeated", "target": f.target(row.venue), "tags": tagsOf(row), "account": row.actor,
			}))
		}
	}
}

// Route sends a stored step to the peer as the home of its handoff.
func (f *Freeq) Route(id federation.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.log {
		if row.id == id.String() {
			f.say(f.event(map[string]any{
				"type": "act_route", "act_id": row.task, "act_event_id": row.id, "from": "routed", "target": f.target(row.venue),
				"tags": tagsOf(row), "account": row.actor,
			}))
		}
	}
}

// Kicked removes a user of the peer from a channel.
func (f *Freeq) Kicked(channel, nick string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.members[channel], nick)
}

// Venue returns the target of a step in a handoff: its channel, or the other DID of the pair.
func (f *Freeq) Venue(id federation.HandoffID, by federation.DID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	task := f.tasks[id.String()]
	if task == nil {
		return ""
	}
	a, b, private := federation.Parties(task.venue)
	switch {
	case !private:
		return task.venue
	case a == by:
		return string(b)
	}
	return string(a)
}

// Spread spreads the times of the log rows over the last hour, a fixed number per second.
func (f *Freeq) Spread(each int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.log {
		f.log[i].at = time.Now().Add(-time.Hour).Unix() + int64(i/each)
	}
}

// Relive replays the recorded messages of a real server's user as a user of this server.
func (f *Freeq) Relive(tags map[string]string, target string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	venue := f.venue(target, tags)
	document, err := actDocument(tags, venue)
	if err != nil {
		return err
	}
	f.file(freeqRow{
		id: tags["+freeq.at/eventid"], task: tags["+freeq.at/act-id"], venue: venue, canonical: document,
		signature: tags["+freeq.at/sig"], actor: tags["+freeq.at/from"], origin: f.id, at: time.Now().Unix(),
	}, tags, true, false)
	return nil
}

// Hear handles one line as if the peer had sent it.
func (f *Freeq) Hear(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hear(line)
}

package freeq_test

import (
	"bufio"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
)

// listener is the server of a recording. It notes the messages of the gateway and answers its
// questions from an empty log, so it declares that it loses nothing.
type listener struct {
	*liar
	mu   sync.Mutex
	said []map[string]any
	more chan struct{} // has one token after something was said
}

// note serves one link.
func (l *listener) note(at net.Listener) {
	conn, err := at.Accept()
	if err != nil {
		return
	}
	l.conn = conn
	l.line(map[string]any{"type": "hello", "peer_id": l.id, "server_name": "fq-a.test", "capabilities": []string{"catchup", "act", "act_route", "lossless"}})
	l.say(map[string]any{"type": "sync_response", "server_id": l.id, "channels": []any{}})
	in := bufio.NewScanner(conn)
	for in.Scan() {
		m := unwrapped(in.Text())
		if m["type"] == "catchup_request" {
			l.say(map[string]any{"type": "catchup_events", "origin": l.id, "events": []any{}, "more": false})
		}
		l.mu.Lock()
		l.said = append(l.said, m)
		l.mu.Unlock()
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
}

// await returns the first message that fits.
func (l *listener) await(t *testing.T, what string, fits func(m map[string]any) bool) map[string]any {
	t.Helper()
	for late := time.After(patience); ; {
		l.mu.Lock()
		for _, m := range l.said {
			if fits(m) {
				l.mu.Unlock()
				return m
			}
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-late:
			t.Fatalf("%s is not said", what)
		}
	}
}

// recording has the signed messages of both ends of a recorded link, by event id.
type recording struct {
	steps map[federation.EventID]federation.Event
	ours  []map[string]any
}

func readRecording(t *testing.T, lines []recorded) recording {
	t.Helper()
	r := recording{steps: map[federation.EventID]federation.Event{}, ours: ours(lines)}
	for _, line := range lines {
		m := unwrapped(line.Line)
		tags := texts(m["tags"])
		target, _ := m["target"].(string)
		if tags["+freeq.at/act"] == "" {
			continue
		}
		ev, err := acttag.Codec{}.DecodeFromHome(translate.Tagged{Command: "TAGMSG", Target: target, Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		if ev, _, err = signing.Verify(t.Context(), recordedKeys(), ev); err != nil {
			t.Fatal(err)
		}
		ev.Provenance = federation.Signed
		ev.Arrival = federation.Arrival{Network: "airc", Link: "airc", Received: ev.ID.Time()}
		if line.Dir == "freeq->gw" {
			ev.Arrival.Network, ev.Arrival.Link = "freeq", linkName
		}
		if _, again := r.steps[ev.ID]; !again {
			r.steps[ev.ID] = ev
		}
	}
	return r
}

// view returns the handoff of a step, whose home is its origin.
func (r recording) view(ev federation.Event) federation.View {
	v := federation.View{
		ID: ev.Handoff, Kind: ev.Kind, Dialect: federation.ActTags, Version: 2, State: federation.Assigned, Home: home, Venue: channel,
	}
	if r.steps[ev.Handoff].Arrival.Link == linkName {
		v.Home, v.Remote = "fq-a.test", true
	}
	return v
}

// signedPart returns the meaning of a message: the part that two signed at different times have in
// common.
func signedPart(m map[string]any) map[string]any {
	part := maps.Clone(m)
	delete(part, "event_id")
	tags := map[string]any{}
	raw, _ := m["tags"].(map[string]any)
	maps.Copy(tags, raw)
	if raw["+freeq.at/act-verb"] == "confirm" { // whose id the home mints
		for _, name := range []string{"+freeq.at/eventid", "+freeq.at/sig", "msgid"} {
			delete(tags, name)
		}
	}
	part["tags"] = tags
	return part
}

// TestLinkOutputMatchesTheRecording gives a link the steps of each recording, with the keys of
// that, and compares its messages with the recording's gateway, which a real server took.
func TestLinkOutputMatchesTheRecording(t *testing.T) {
	compared := 0
	sessions := recordings(t)
	if sessions == nil {
		return
	}
	for file, lines := range sessions {
		if strings.HasPrefix(file, "06-") {
			continue // deliberately invalid
		}
		t.Run(file, func(t *testing.T) {
			l := &listener{
				liar: &liar{key: recordedKey(0x22), id: identity.EndpointID(public(recordedKey(0x22)))}, more: make(chan struct{}, 1),
			}
			at := local(t)
			go l.note(at)
			h := newHouse(t, asRecorded(at))
			h.gateway.names = map[federation.DID]string{
				"did:key:z6MktwtqAzuD5F77tAMBMwNs1KybZeff61EehV9xB1ZpXQG7": "scout",
				"did:key:z6MkrTDHAKQKiJFY8aThEpLtDaWpGyeoRCWCNW8VzPpdh1P1": "late",
			}
			h.run(t)
			r := readRecording(t, lines)
			for _, m := range r.ours {
				if h.compare(t, l, r, m) {
					compared++
				}
			}
		})
	}
	const recordedSteps = 41
	if compared != recordedSteps {
		t.Errorf("%d compared, want %d", compared, recordedSteps)
	}
}

// asRecorded gives a link the names and keys of the recordings.
func asRecorded(at net.Listener) func(*freeq.Config, *freeq.Deps) {
	return func(cfg *freeq.Config, deps *freeq.Deps) {
		cfg.ServerName, cfg.EndpointID, cfg.Address = "fq-a.test", identity.EndpointID(public(recordedKey(0x22))), at.Addr().String()
		deps.Endpoint = signer("", recordedKey(0x11))
		home, _ := deps.Rulings.(*rulings)
		home.receipt = confirm(recordedKey(0x33))
	}
}

// compare lets the link send a recorded message, and compares the two. It reports whether the
// message was a step.
func (h *house) compare(t *testing.T, l *listener, r recording, m map[string]any) bool {
	t.Helper()
	tags := texts(m["tags"])
	id, err := federation.ParseEventID(tags["+freeq.at/eventid"])
	if err != nil || m["type"] != "tagmsg" && m["type"] != "act_route" {
		return false
	}
	step := r.steps[id]
	if step.Verb == federation.Confirm {
		step = r.steps[step.Subject] // which brings its receipt
	}
	h.give(t, r.view(step), step)
	said := l.await(t, tags["+freeq.at/act-verb"]+" "+id.String(), func(said map[string]any) bool {
		own := texts(said["tags"])
		return said["type"] == "tagmsg" && own["+freeq.at/act-verb"] == tags["+freeq.at/act-verb"] && own["+freeq.at/act-id"] == tags["+freeq.at/act-id"] &&
			(own["+freeq.at/eventid"] == id.String() || own["+freeq.at/act-subject"] == step.ID.String())
	})
	want := signedPart(m)
	for _, name := range []string{"act_id", "act_event_id"} {
		delete(want, name) // of a routed step
	}
	want["type"] = "tagmsg"
	if diff := cmp.Diff(want, signedPart(said)); diff != "" {
		t.Errorf("%s (-recorded +said):\n%s", id, diff)
	}
	h.verifies(t, said)
	return true
}

// give hands a step to the link: to deliver, or to ask its home for the ruling.
func (h *house) give(t *testing.T, v federation.View, step federation.Event) {
	t.Helper()
	h.gateway.know(v)
	moves := step.Verb != federation.Offer && step.Verb != federation.Progress && step.Verb != federation.Expire
	if v.Home == home || !moves {
		d := federation.Delivery{Entry: federation.Entry{Event: step, Version: 2, Filed: step.ID.Time()}, View: v}
		if err := h.link.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return
	}
	waiting, err := h.record.ListPendingIn(t.Context(), step.Handoff)
	if err != nil {
		t.Fatal(err)
	}
	for _, earlier := range waiting {
		if err := h.record.ResolvePending(t.Context(), step.Handoff, earlier.Event.From, earlier.Event.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.record.KeepPending(t.Context(), federation.Pending{Event: step, Home: v.Home, Since: time.Now()}, 0); err != nil {
		t.Fatal(err)
	}
	h.wakes.Wake(bridge.RulingTopic(v.Home))
}

// verifies checks the signature of a step that the link said.
func (h *house) verifies(t *testing.T, said map[string]any) {
	t.Helper()
	target, _ := said["target"].(string)
	ev, err := acttag.Codec{}.DecodeFromHome(translate.Tagged{Command: "TAGMSG", Target: target, Tags: texts(said["tags"])})
	if err != nil {
		t.Fatal(err)
	}
	if _, verdict, err := signing.Verify(t.Context(), recordedKeys(), ev); verdict != federation.Valid {
		t.Errorf("%s of %s: %v", ev.Verb, ev.Handoff, err)
	}
}

package freeq_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
)

// recorded is one line that crossed a real link.
type recorded struct {
	Dir   string  `json:"dir"`
	Line  string  `json:"line"`
	Inner *string `json:"inner"`
}

// recordings returns the lines of each session with a real server, by file name; none if
// no variable names their folder.
func recordings(t *testing.T) map[string][]recorded {
	t.Helper()
	folder := os.Getenv("BATON_VECTORS")
	if folder == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "freeq", "transcripts", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings (%v)", err)
	}
	all := map[string][]recorded{}
	for _, file := range files {
		if strings.HasSuffix(file, ".side.jsonl") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r recorded
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(file)] = append(all[filepath.Base(file)], r)
		}
	}
	return all
}

// recordedKey returns the key made of one repeated byte.
func recordedKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// recordedKeys holds the keys of the signers in the recordings.
func recordedKeys() keys {
	return keys{
		"did:web:gw.test":   public(recordedKey(0x33)),
		"did:web:fq-a.test": public(recordedKey(0x55)),
		"did:key:z6MktwtqAzuD5F77tAMBMwNs1KybZeff61EehV9xB1ZpXQG7": public(recordedKey(0x44)),
		"did:key:z6MkrTDHAKQKiJFY8aThEpLtDaWpGyeoRCWCNW8VzPpdh1P1": public(recordedKey(0x88)),
		"did:key:z6Mki11Bt3TszrQcX7c1GuaNUc3gFh4XLWjCQWXrRis9QQeH": public(recordedKey(0x66)),
		"did:plc:alice234567abcdefghijkl":                          public(recordedKey(0x66)),
		"did:web:agents.example:bob":                               public(recordedKey(0xaa)),
	}
}

// end returns the key of the end that wrote a line.
func (r recorded) end() ed25519.PublicKey {
	if r.Dir == "gw->freeq" {
		return public(recordedKey(0x11))
	}
	return public(recordedKey(0x22))
}

func TestRecordedEnvelopesOpenExceptForgeries(t *testing.T) {
	refused := map[string]int{}
	sessions := recordings(t)
	if sessions == nil {
		return
	}
	for file, lines := range sessions {
		for i, r := range lines {
			message, why := freeq.OpenLine([]byte(r.Line), r.end())
			switch {
			case why != "":
				refused[file+" "+why]++
			case r.Inner != nil && message == nil && wanted(*r.Inner):
				t.Errorf("%s:%d: passed over: %s", file, i+1, *r.Inner)
			}
		}
	}
	const file = "06-refusals-and-parking.jsonl"
	want := map[string]int{
		file + " bad_envelope": 3, // by another key, padded, and under another's name
		file + " unsigned":     2, // an act and a line without an envelope
		file + " malformed":    2, // garbage
	}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// wanted tells whether a gateway has use for a message.
func wanted(inner string) bool {
	for _, kind := range []string{"crdt_sync", "channel_created", "privmsg", "topic", "quit_reason", "no_such", "invite"} {
		if strings.Contains(inner, `"type":"`+kind) {
			return false
		}
	}
	return true
}

func TestRecordedStepsVerifyExceptForgeries(t *testing.T) {
	var verified int
	var failed []string
	sessions := recordings(t)
	if sessions == nil {
		return
	}
	for file, lines := range sessions {
		for _, r := range lines {
			var m struct {
				Type, Target, Account string
				Tags                  map[string]string
			}
			if r.Inner == nil || json.Unmarshal([]byte(*r.Inner), &m) != nil || m.Type != "tagmsg" && m.Type != "act_route" {
				continue
			}
			ev, err := acttag.Codec{}.DecodeFromHome(translate.Tagged{Command: "TAGMSG", Target: m.Target, Tags: m.Tags})
			if err != nil {
				failed = append(failed, file+": "+err.Error())
				continue
			}
			if strings.HasPrefix(m.Target, "did:") {
				continue // whose venue only the handoff tells
			}
			if _, verdict, err := signing.Verify(t.Context(), recordedKeys(), ev); verdict != federation.Valid {
				failed = append(failed, file+": "+ev.ID.String()+": "+err.Error())
				continue
			}
			verified++
		}
	}
	const recordedSteps = 103
	if verified != recordedSteps || len(failed) != 1 || !strings.Contains(failed[0], "06-refusals-and-parking.jsonl: 01M7Y7PHSQQ0ST4RDHKC5BG56X") {
		t.Errorf("%d verified, want %d; failed: %q", verified, recordedSteps, failed)
	}
}

// replay plays the server of a recording to a link, which has to submit every step in it, and
// returns the link's own messages.
func replay(t *testing.T, lines []recorded) (said []map[string]any) {
	t.Helper()
	listener := local(t)
	h := newHouse(t, func(cfg *freeq.Config, deps *freeq.Deps) {
		cfg.ServerName, cfg.EndpointID, cfg.Address = "fq-a.test", identity.EndpointID(public(recordedKey(0x22))), listener.Addr().String()
		deps.Endpoint = signer("", recordedKey(0x11))
		home, _ := deps.Rulings.(*rulings)
		home.ours = func(context.Context, federation.DID) bool { return true }
	})
	known := recordedKeys()
	for _, m := range ours(lines) {
		h.opened(m)
	}
	h.gateway.answer = func(ev federation.Event) (federation.Judgement, error) {
		_, verdict, err := signing.Verify(t.Context(), known, ev)
		return federation.Judgement{Verdict: verdict}, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		said = serve(listener, lines)
	}()
	h.run(t)
	missing := stepsOf(lines)
	for len(missing) > 0 {
		delete(missing, h.gateway.next(t).ID)
	}
	h.stop()
	<-done
	return said
}

// opened notes the handoffs that the gateway of a recording opened, live and in its
// log.
func (h *house) opened(m map[string]any) {
	rows, _ := m["events"].([]any)
	for _, each := range rows {
		row, _ := each.(map[string]any)
		text, _ := row["event_id"].(string)
		if id, err := federation.ParseEventID(text); err == nil {
			h.gateway.know(federation.View{ID: id, Version: 1, Home: home, Venue: channel})
		}
	}
	tags, _ := m["tags"].(map[string]any)
	text, _ := tags["+freeq.at/eventid"].(string)
	target, _ := m["target"].(string)
	from, _ := tags["+freeq.at/from"].(string)
	id, err := federation.ParseEventID(text)
	if err != nil || tags["+freeq.at/act-verb"] != "offer" {
		return
	}
	v := federation.View{ID: id, Version: 1, Home: home, Venue: target}
	if other, err := federation.ParseDID(target); err == nil {
		v.Venue, v.Link = federation.PrivateVenue(federation.DID(from), other), linkName
	}
	h.gateway.know(v)
}

// serve replays the server's side of a recording, and answers the first question with all that the
// recording has of its log.
func serve(listener net.Listener, lines []recorded) (said []map[string]any) {
	conn, err := listener.Accept()
	if err != nil {
		return nil
	}
	server := &liar{conn: conn, key: recordedKey(0x22), id: identity.EndpointID(public(recordedKey(0x22)))}
	log := []any{}
	for _, r := range lines {
		switch {
		case r.Dir != "freeq->gw":
		case r.Inner != nil && strings.Contains(*r.Inner, `"type":"catchup_events"`):
			rows, _ := unwrapped(r.Line)["events"].([]any)
			log = append(log, rows...)
		default:
			_, _ = io.WriteString(conn, r.Line+"\n")
		}
	}
	in := bufio.NewScanner(conn)
	for in.Scan() {
		m := unwrapped(in.Text())
		said = append(said, m)
		if m["type"] == "catchup_request" {
			server.say(map[string]any{"type": "catchup_events", "origin": server.id, "events": log, "more": false})
			log = []any{}
		}
	}
	return said
}

// unwrapped returns the message in a line.
func unwrapped(line string) map[string]any {
	var m map[string]any
	_ = json.Unmarshal([]byte(line), &m) // a line without JSON is an empty message
	if payload, signed := m["payload"].(string); signed {
		inner, _ := base64.RawURLEncoding.DecodeString(payload)
		clear(m)
		_ = json.Unmarshal(inner, &m)
	}
	return m
}

// stepsOf returns the ids of all steps of a server's own people in its messages, live and from its
// log.
func stepsOf(lines []recorded) map[federation.EventID]bool {
	ids := map[federation.EventID]bool{}
	add := func(text, venue string) {
		if id, err := federation.ParseEventID(text); err == nil && (venue == channel || strings.HasPrefix(venue, "dm:")) {
			ids[id] = true
		}
	}
	for _, r := range lines {
		if r.Dir != "freeq->gw" {
			continue
		}
		m := unwrapped(r.Line)
		if tags, ok := m["tags"].(map[string]any); ok && m["type"] != "privmsg" {
			text, _ := tags["+freeq.at/eventid"].(string)
			target, _ := m["target"].(string)
			add(text, target)
		}
		rows, _ := m["events"].([]any)
		for _, each := range rows {
			row, _ := each.(map[string]any)
			text, _ := row["event_id"].(string)
			venue, _ := row["venue"].(string)
			if row["kind"] == "act" {
				add(text, venue)
			}
		}
	}
	return ids
}

func TestRecordedServerIsUnderstood(t *testing.T) {
	for file, lines := range recordings(t) {
		t.Run(file, func(t *testing.T) {
			said := replay(t, lines)
			for _, kind := range []string{"hello", "hello_ack", "sync_request"} {
				want := first(ours(lines), kind)
				if declared, ok := want["capabilities"].([]any); ok {
					want["capabilities"] = append(declared, "lossless") // newer than the recordings
				}
				if diff := cmp.Diff(want, first(said, kind)); diff != "" {
					t.Errorf("%s (-recorded +said):\n%s", kind, diff)
				}
			}
		})
	}
}

// ours returns the messages of a recording's gateway.
func ours(lines []recorded) (said []map[string]any) {
	for _, r := range lines {
		if r.Dir == "gw->freeq" {
			said = append(said, unwrapped(r.Line))
		}
	}
	return said
}

func first(messages []map[string]any, kind string) map[string]any {
	for _, m := range messages {
		if m["type"] == kind {
			return m
		}
	}
	return nil
}

func TestRecordedEnvelopesMatchOurs(t *testing.T) {
	var compared int
	sessions := recordings(t)
	if sessions == nil {
		return
	}
	for file, lines := range sessions {
		for i, r := range lines {
			if r.Dir != "gw->freeq" || r.Inner == nil {
				continue
			}
			var e struct{ Payload, Signature, Signer string }
			if err := json.Unmarshal([]byte(r.Line), &e); err != nil || strings.HasSuffix(e.Payload, "=") || e.Signer != identity.EndpointID(r.end()) {
				continue
			}
			sig := ed25519.Sign(recordedKey(0x11), []byte(*r.Inner))
			if e.Payload != base64.RawURLEncoding.EncodeToString([]byte(*r.Inner)) {
				t.Errorf("%s:%d: payload", file, i+1)
			}
			if e.Signature != base64.RawURLEncoding.EncodeToString(sig) {
				continue // the one that another key signed
			}
			compared++
		}
	}
	const recordedEnvelopes = 110
	if compared != recordedEnvelopes {
		t.Errorf("%d compared, want %d", compared, recordedEnvelopes)
	}
}

// TestRecordedEnvelopesAreTakenByTheTestServer holds the peer of these tests to the recordings: it
// accepts everything that a real server accepted.
func TestRecordedEnvelopesAreTakenByTheTestServer(t *testing.T) {
	var known house
	for _, key := range recordedKeys() {
		known.keys.Store(federation.KeyID(key), key)
	}
	api := httptest.NewServer(http.HandlerFunc(known.serveKey))
	defer api.Close()
	for file, lines := range recordings(t) {
		t.Run(file, func(t *testing.T) {
			server := bridgetest.NewFreeq(bridgetest.FreeqConfig{
				Name: "fq-a.test", Endpoint: recordedKey(0x22), Server: recordedKey(0x55),
				Peer: identity.EndpointID(public(recordedKey(0x11))), PeerAPI: api.URL, Channels: []string{channel, "#private"},
			})
			defer server.Close()
			for _, r := range lines {
				m := unwrapped(r.Line)
				switch {
				case r.Dir == "gw->freeq":
					server.Hear(r.Line)
				case m["from"] == "alice" && m["type"] != "privmsg":
					target, _ := m["target"].(string)
					relive(t, server, texts(m["tags"]), target)
				case m["type"] == "catchup_events":
					rows, _ := m["events"].([]any)
					for _, row := range rows {
						reliveRow(t, server, texts(row))
					}
				}
			}
			odd := len(server.Unexpected())
			if provokes := strings.HasPrefix(file, "06-") || strings.HasPrefix(file, "01-"); provokes == (odd == 0) {
				t.Errorf("odd: %q", server.Unexpected())
			}
		})
	}
}

func relive(t *testing.T, server *bridgetest.Freeq, tags map[string]string, target string) {
	t.Helper()
	if tags["+freeq.at/act"] == "" {
		return
	}
	if err := server.Relive(tags, target); err != nil {
		t.Fatal(err)
	}
}

// reliveRow takes a row of the log of a real server for a step of alice, if it is one.
func reliveRow(t *testing.T, server *bridgetest.Freeq, row map[string]string) {
	t.Helper()
	ev, err := translate.FromDocument(row["canonical"])
	if err != nil || row["kind"] != "act" || ev.From.Method() == "web" {
		return
	}
	tags := map[string]string{"+freeq.at/from": string(ev.From), "+freeq.at/eventid": ev.ID.String(), "+freeq.at/sig": row["signature"]}
	for name, value := range ev.Fields {
		tags["+freeq.at/"+name] = value
	}
	relive(t, server, tags, ev.Venue)
}

// texts returns the string members of an object.
func texts(object any) map[string]string {
	members, _ := object.(map[string]any)
	found := map[string]string{}
	for name, value := range members {
		if text, ok := value.(string); ok {
			found[name] = text
		}
	}
	return found
}

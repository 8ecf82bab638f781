package airc_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// relay sends a relay from an address and returns the outcome.
func (w *world) relay(t *testing.T, from string, body map[string]any) string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	recorder := w.ask(t, from, http.MethodPost, "/federation/relay", "", string(text))
	var answer map[string]any
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", recorder.Body, err)
	}
	return strings.TrimSpace(fmt.Sprint(recorder.Code, " ", orEmpty(answer["error"])))
}

// numbered returns changes that make a relay another message.
func numbered(n int, more ...any) map[string]any {
	changes := map[string]any{"message_id": fmt.Sprintf("msg_%016d", n)}
	for i := 0; i < len(more); i += 2 {
		changes[more[i].(string)] = more[i+1]
	}
	return changes
}

const (
	attacker = "198.51.100.7:1"
	honest   = "203.0.113.5:1"
)

// refilled returns how many requests a rate can have added since a time.
func refilled(perMinute int, start time.Time) int {
	return 1 + int(time.Since(start)*time.Duration(perMinute)/time.Minute)
}

func TestRelayWithoutSignatureConsumesNoRateOfItsRegistry(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]federation.SigningKey{"unsigned": {}, "signed with another key": signingKey(0x0c)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, b, _, _ := pair(t)
			tries, taken, start := 500, 0, time.Now()
			for n := range tries {
				if got := b.relay(t, attacker, forge(t, key, numbered(n))); strings.HasPrefix(got, "2") {
					taken++
				}
			}
			if most := 10 + refilled(10, start); taken > most {
				t.Errorf("%d of %d were accepted, want at most %d", taken, tries, most)
			}
			start = time.Now()
			for n := range 60 {
				// From the same address, behind one proxy.
				if got := b.relay(t, attacker, forge(t, signingKey(0x0a), numbered(1000+n))); got != "202" {
					t.Fatalf("signed relay %d after them: %s", n, got)
				}
			}
			got, more := "202", 0
			for ; got == "202" && more <= refilled(60, start); more++ {
				got = b.relay(t, honest, forge(t, signingKey(0x0a), numbered(2000+more)))
			}
			if got != "429 rate_limited" {
				t.Errorf("signed relay %d beyond the rate of the registry: %s", more, got)
			}
		})
	}
}

func TestUnsignedConsentConsumesNoRateOfItsRegistry(t *testing.T) {
	t.Parallel()
	_, _, b, _, _ := pair(t)
	for range 200 {
		b.ask(t, attacker, http.MethodPost, "/federation/consent", "", `{"type":"request","from":"@scout_7@a.test","to":"@amy_1@b.test"}`)
	}
	if got := b.relay(t, honest, forge(t, signingKey(0x0a), nil)); got != "202" {
		t.Errorf("signed relay after them: %s", got)
	}
}

func TestUnsignedRelayIsRateLimitedByAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for unsigned, most := range map[string]int{peers.ModeHold: 10, peers.ModeAllow: 60} {
			net := newInternet()
			net.join(t, "a.test", 0x0a)
			b := net.join(t, "b.test", 0x0b, peers.Config{Domain: "a.test", Unsigned: unsigned, Networks: []string{"198.51.100.0/24", "203.0.113.0/24"}})
			b.resident(t, "b.test", "amy_1", 0x05)
			taken, last := 0, ""
			for n := range 200 {
				if last = b.relay(t, attacker, forge(t, federation.SigningKey{}, numbered(n))); last == "202" {
					taken++
				}
			}
			if taken != most || last != "429 rate_limited" {
				t.Errorf("unsigned = %q: %d of 200 were accepted, then %s; want %d", unsigned, taken, last, most)
			}
			if got := b.relay(t, honest, forge(t, federation.SigningKey{}, numbered(500))); got != "202" {
				t.Errorf("unsigned = %q: from another address: %s", unsigned, got)
			}
			time.Sleep(time.Minute)
			if got := b.relay(t, attacker, forge(t, federation.SigningKey{}, numbered(501))); got != "202" {
				t.Errorf("unsigned = %q: after a minute: %s", unsigned, got)
			}
		}
	})
}

// open returns a registry that exchanges messages with any other, and its agent.
func (n *internet) open(t *testing.T) (*world, *bridgetest.Agent) {
	t.Helper()
	w := newWorld(t, func(c *airc.Config, d *airc.Deps) {
		c.Domain, c.Federation, d.Fetch = "b.test", peers.FederationOpen, n.client()
	})
	n.hosts["b.test"] = w
	return w, w.resident(t, "b.test", "amy_1", 0x05)
}

func TestInventedOriginsFileNothing(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]federation.SigningKey{"unsigned": {}, "signed": signingKey(0x0c)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := newInternet()
			b, _ := net.open(t)
			tries, taken := 3200, 0
			for n := range tries {
				origin := fmt.Sprintf("o%d.test", n)
				from := fmt.Sprintf("198.51.%d.%d:1", n%32, n/32) // a hundred from each of 32 networks
				got := b.relay(t, from, forge(t, key, numbered(n, "origin_registry", origin, "from_address", nil)))
				if strings.HasPrefix(got, "2") {
					taken++
				}
			}
			if taken != 0 {
				t.Errorf("%d of %d were accepted", taken, tries)
			}
			if pending, err := b.record.Pending(t.Context(), "amy_1", 200); err != nil || len(pending) != 0 {
				t.Errorf("%d senders wait for the agent, %v", len(pending), err)
			}
			if got := bodies(t, b, "amy_1"); len(got) != 0 {
				t.Errorf("the agent was told %d times", len(got))
			}
		})
	}
}

func TestUnsignedRelayNeedsAKnownSender(t *testing.T) {
	t.Parallel()
	net := newInternet()
	net.hosts["old.test"] = &bridgetest.Registry{Agents: []string{"amy"}}
	b, _ := net.open(t)
	for from, want := range map[string]string{"amy": "202", "nobody": "404 REMOTE_IDENTITY_NOT_FOUND"} {
		body := forge(t, federation.SigningKey{}, numbered(len(from), "origin_registry", "old.test", "from", from, "from_address", nil))
		if got := b.relay(t, honest, body); got != want {
			t.Errorf("from %s: %s, want %s", from, got, want)
		}
	}
}

func TestLookUpsForUnverifiedCallersAreRateLimitedByAddress(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]federation.SigningKey{"unsigned": {}, "signed": signingKey(0x0c)} {
		net := newInternet()
		peer := &scripted{answers: map[string]string{"/.well-known/airc": wellKnownOf(nil)}}
		b, _ := net.open(t)
		for n := range 300 {
			origin := fmt.Sprintf("o%d.test", n)
			net.hosts[origin] = peer
			b.relay(t, attacker, forge(t, key, numbered(n, "origin_registry", origin, "from_address", nil)))
		}
		peer.mu.Lock()
		if asked := len(peer.asked); asked > 20 {
			t.Errorf("%s: one address made the gateway send %d requests, want at most 20", name, asked)
		}
		peer.mu.Unlock()
	}
}

// The owner of a domain can run a registry under each name below it.
func TestUnconfiguredRegistriesShareTheRateOfTheirAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := newInternet()
		key := signingKey(0x0c)
		document := fmt.Sprintf(`{"protocol":"AIRC","protocol_version":"0.2.0","public_key":"ed25519:%s"}`, base64Std(key.Public))
		peer := &scripted{answers: map[string]string{"/.well-known/airc": document}}
		b, _ := net.open(t)
		b.firstContacts = federation.InboxLimits{} // only the rate is tested
		relay := func(from string, n int) string {
			origin := fmt.Sprintf("o%d.evil.test", n%50)
			net.hosts[origin] = peer
			return b.relay(t, from, forge(t, key, numbered(n, "origin_registry", origin, "from", fmt.Sprintf("bot_%d", n), "from_address", nil)))
		}
		for n := range 50 { // learns their keys, ten a minute
			relay(attacker, n)
			time.Sleep(6 * time.Second)
		}
		time.Sleep(time.Minute)
		tries, taken := 1000, 0
		for n := range tries {
			if strings.HasPrefix(relay(attacker, 50+n), "2") {
				taken++
			}
		}
		if taken > 60 {
			t.Errorf("%d of %d relays of one address in one minute were accepted, want at most 60", taken, tries)
		}
		if got := relay(honest, 2000); got != "202" {
			t.Errorf("from another address: %s", got)
		}
	})
}

func TestUnverifiedSendersDoNotPushOutTheRequestsOfVerifiedOnes(t *testing.T) {
	t.Parallel()
	_, _, b, _, amy := pair(t)
	if got := b.relay(t, honest, forge(t, signingKey(0x0a), nil)); got != "202" {
		t.Fatal(got)
	}
	taken := 0
	for n := range 150 {
		from := fmt.Sprintf("bot_%d", n)
		body := forge(t, federation.SigningKey{}, numbered(n+1, "from", from, "from_address", "@"+from+"@a.test"))
		if got := b.relay(t, fmt.Sprintf("198.51.100.%d:1", n), body); got == "202" {
			taken++
		} else if got != "429 recipient_over_capacity" {
			t.Fatalf("relay %d: %s", n, got)
		}
	}
	if taken != 20 {
		t.Errorf("%d of 150 unverified senders wait for the agent, want 20", taken)
	}
	if got := told(amy.Consent(t.Context(), "scout_7@a.test", "accept")); got != "200" {
		t.Fatal(got)
	}
	if got := bodies(t, b, "amy_1"); got[len(got)-1] != "scout_7@a.test: hello" {
		t.Errorf("after the agent accepted the verified sender it was told %q last", got[len(got)-1])
	}
}

// spec: airc-v0.1.1 §7
func TestRelayEnvelopeMustNameItsRecipient(t *testing.T) {
	t.Parallel()
	_, a, b, scout, _ := pair(t)
	b.resident(t, "b.test", "zoe_3", 0x06)
	envelope := func(to string, changes ...any) map[string]any {
		text := scout.Envelope(to, "hello", nil)
		for i := 0; i < len(changes); i += 2 {
			text[changes[i].(string)] = changes[i+1]
		}
		signed, err := scout.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		var whole map[string]any
		if err := json.Unmarshal(signed, &whole); err != nil {
			t.Fatal(err)
		}
		return whole
	}
	if scout.Domain != "a.test" || a == nil {
		t.Fatal("the agent is not of a.test")
	}
	for name, test := range map[string]struct {
		envelope map[string]any
		want     string
	}{
		"for this recipient":            {envelope("amy_1@b.test"), "202"},
		"for this recipient, with an @": {envelope("@amy_1@b.test"), "202"},
		"for another agent here":        {envelope("zoe_3@b.test"), "400 bad_request"},
		"for another agent, bare":       {envelope("zoe_3"), "400 bad_request"},
		"for the same name elsewhere":   {envelope("amy_1@c.test"), "400 bad_request"},
		"for the origin":                {envelope("amy_1@a.test"), "400 bad_request"},
		"of another audience":           {envelope("amy_1@b.test", "aud", "c.test"), "400 bad_request"},
		"of another sender":             {envelope("amy_1@b.test", "from", "zoe_3"), "400 bad_request"},
	} {
		for kind, key := range map[string]federation.SigningKey{"signed": signingKey(0x0a), "unsigned": {}} {
			body := forge(t, key, map[string]any{"envelope": test.envelope})
			if got := b.relay(t, fmt.Sprintf("203.0.113.%d:1", len(name)), body); got != test.want {
				t.Errorf("%s relay of an envelope %s: %s, want %s", kind, name, got, test.want)
			}
		}
	}
}

func TestRelayIDWithOtherBytesIsAConflict(t *testing.T) {
	t.Parallel()
	own := signingKey(0x0a)
	for name, key := range map[string]federation.SigningKey{"signed": own, "unsigned": {}} {
		_, _, b, _, _ := pair(t)
		b.resident(t, "b.test", "zoe_3", 0x06)
		for _, step := range []struct {
			what    string
			changes map[string]any
			want    string
		}{
			{"first", numbered(1), "202"},
			{"the same again", numbered(1), "202"},
			{"the same, a second later", numbered(1, "timestamp", time.Now().Add(time.Second).UTC().Format(time.RFC3339)), "202"},
			{"another text", numbered(1, "body", "evil"), "409 duplicate_message"},
			{"another payload", numbered(1, "payload", map[string]any{"type": "text"}), "409 duplicate_message"},
			{"another recipient", numbered(1, "to", "zoe_3", "to_address", "@zoe_3@b.test"), "409 duplicate_message"},
		} {
			if got := b.relay(t, honest, forge(t, key, step.changes)); got != step.want {
				t.Errorf("%s, %s: %s, want %s", name, step.what, got, step.want)
			}
		}
		if waits, err := b.record.Unshown(t.Context(), "amy_1", ""); err != nil || waits.Entries != 2 { // with the handshake
			t.Errorf("%s: %d messages wait for the agent, %v; want one and the handshake", name, waits.Entries, err)
		}
	}
}

// requesterOf returns the handle that the only handshake of an agent names.
func requesterOf(t *testing.T, w *world, handle string) string {
	t.Helper()
	messages, _, err := w.record.Inbox(t.Context(), handle, "", 10)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v; want one", len(messages), err)
	}
	var m message
	if err := json.Unmarshal(messages[0].Envelope, &m); err != nil || m.Payload.Type != "system:handshake_request" {
		t.Fatalf("%s, %v; want a handshake", messages[0].Envelope, err)
	}
	requester, _ := m.Payload.Data["requester"].(string)
	return requester
}

// spec: airc-shapes "First contact"
func TestAcceptingAnUnverifiedSenderReleasesItsHeldMessages(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]func(t *testing.T, b *world, amy *bridgetest.Agent, requester string) string{
		"D1": func(t *testing.T, _ *world, amy *bridgetest.Agent, requester string) string {
			t.Helper()
			return told(amy.Consent(t.Context(), requester, "accept"))
		},
		"D1 with an @": func(t *testing.T, _ *world, amy *bridgetest.Agent, requester string) string {
			t.Helper()
			return told(amy.Consent(t.Context(), "@"+requester, "accept"))
		},
		"D3 by to": func(t *testing.T, _ *world, amy *bridgetest.Agent, requester string) string {
			t.Helper()
			return told(amy.Call(t.Context(), http.MethodPost, "/api/consent", map[string]any{"action": "accept", "from": "amy_1", "to": "@" + requester}))
		},
		"D3 by from": func(t *testing.T, _ *world, amy *bridgetest.Agent, requester string) string {
			t.Helper()
			return told(amy.Call(t.Context(), http.MethodPost, "/api/consent", map[string]any{"action": "accept", "from": requester, "to": "amy_1"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, b, _, amy := pair(t)
			send := func(n int) string {
				return b.relay(t, honest, forge(t, federation.SigningKey{}, numbered(n, "body", fmt.Sprint("message ", n))))
			}
			if got := send(1) + " " + send(2); got != "202 202" {
				t.Fatal(got)
			}
			requester := requesterOf(t, b, "amy_1")
			if got := told(amy.Consent(t.Context(), "scout_7@a.test", "accept")); got != "200" { // the verified agent is another sender
				t.Fatal(got)
			}
			if got := bodies(t, b, "amy_1"); len(got) != 1 {
				t.Fatalf("consent to the verified agent released %q", got)
			}
			if got := accept(t, b, amy, requester); got != "200" {
				t.Fatalf("accept %s: %s", requester, got)
			}
			if got := send(3); got != "201" {
				t.Errorf("a message after the consent: %s", got)
			}
			want := []string{"system: asks", "?scout_7@a.test: message 1", "?scout_7@a.test: message 2", "?scout_7@a.test: message 3"}
			if diff := cmp.Diff(want, bodies(t, b, "amy_1")); diff != "" {
				t.Errorf("what was released (-want +got):\n%s", diff)
			}
		})
	}
}

// A registry with a pinned key does not have to publish documents.
func TestRelayIsVerifiedWithPinnedKey(t *testing.T) {
	t.Parallel()
	own, other := signingKey(0x0a), signingKey(0x0c)
	pin := base64.RawURLEncoding.EncodeToString(own.Public)
	for name, test := range map[string]struct {
		key       federation.SigningKey
		reachable bool // registry that publishes its own key
		pin       string
		dns       string // pk= in DNS; "" if DNS is not required
		want      string
	}{
		"of a registry that is away":                 {own, false, pin, "", "202"},
		"of a registry that is there":                {own, true, pin, "", "202"},
		"with another key":                           {other, false, pin, "", "400 INVALID_REGISTRY_SIGNATURE"},
		"with the published key beside a pinned one": {own, true, base64.RawURLEncoding.EncodeToString(other.Public), "", "400 INVALID_REGISTRY_SIGNATURE"},
		"without a pinned key, of one that is away":  {own, false, "", "", "503 unavailable"},
		"with DNS that has the key":                  {own, false, pin, "ed25519:" + base64Std(own.Public), "202"},
		"with DNS that has another key":              {own, false, pin, "ed25519:" + base64Std(other.Public), "503 unavailable"},
	} {
		net := newInternet()
		net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
		net.set("a.test", !test.reachable)
		net.texts = map[string][]string{"_airc.a.test": {"v=airc1 pk=" + test.dns}}
		b := newWorld(t, func(c *airc.Config, d *airc.Deps) {
			c.Domain, d.Fetch, d.TXT, c.RequireDNS = "b.test", net.client(), net.lookUp, test.dns != ""
			c.Peers = []peers.Config{{Domain: "a.test", PublicKey: test.pin}}
		})
		b.resident(t, "b.test", "amy_1", 0x05)
		if got := b.relay(t, honest, forge(t, test.key, nil)); got != test.want {
			t.Errorf("a relay %s: %s, want %s", name, got, test.want)
		}
		consent := map[string]any{"type": "request", "from": "@scout_7@a.test", "to": "@amy_1@b.test", "timestamp": time.Now().UTC().Format(time.RFC3339)}
		want := map[string]string{"202": "200"}[test.want]
		if status, answer := (&client{world: b}).call(t, http.MethodPost, "/federation/consent", signed(t, test.key, consent)); want != "" && fmt.Sprint(status) != want {
			t.Errorf("consent %s: %d %v, want %s", name, status, answer, want)
		}
	}
}

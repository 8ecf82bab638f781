package airc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// internet carries requests between registries without sockets.
type internet struct {
	mu    sync.Mutex
	hosts map[string]http.RoundTripper
	texts map[string][]string // in DNS
	cut   map[string]bool     // hosts that cannot be reached
}

func newInternet() *internet {
	return &internet{hosts: map[string]http.RoundTripper{}, texts: map[string][]string{}, cut: map[string]bool{}}
}

func (n *internet) set(host string, cut bool) { n.mu.Lock(); n.cut[host] = cut; n.mu.Unlock() }

// RoundTrip implements [http.RoundTripper].
func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	host, cut := n.hosts[r.URL.Host], n.cut[r.URL.Host]
	n.mu.Unlock()
	if host == nil || cut {
		return nil, &federation.UnavailableError{What: r.URL.Host}
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	response, err := host.RoundTrip(httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), bytes.NewReader(body)))
	if err == nil {
		response.Request = r
	}
	return response, err
}

// client returns a client of the hosts.
func (n *internet) client() *identity.Client {
	return identity.NewClient(identity.FetchConfig{Transport: n, Timeout: time.Minute, MaxBytes: 1 << 20, PerHost: 1 << 20})
}

// lookUp returns the texts in DNS under a name.
func (n *internet) lookUp(_ context.Context, name string) ([]string, error) {
	return n.texts[name], nil
}

// join opens a registry of a domain that exchanges messages with others.
func (n *internet) join(t *testing.T, domain string, key byte, others ...peers.Config) *world {
	t.Helper()
	w := newWorld(t, func(c *airc.Config, d *airc.Deps) {
		c.Domain, c.Peers, d.Fetch, d.TXT = domain, others, n.client(), n.lookUp
		d.Keyring = keyring(t, key)
		d.PublicURL = "https://" + domain
	})
	n.hosts[domain] = w
	return w
}

// run runs a registry until the function that it returns is called.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.link.Run(ctx, func() {})
	}()
	return func() { cancel(); <-ended }
}

// resident returns a registered agent of a registry of a domain.
func (w *world) resident(t *testing.T, domain, handle string, b byte) *bridgetest.Agent {
	t.Helper()
	return w.agent(t, handle, b, func(a *bridgetest.Agent) { a.Domain = domain })
}

// bodies returns the messages of an agent, each with its sender.
func bodies(t *testing.T, w *world, handle string) []string {
	t.Helper()
	messages, _, err := w.record.Inbox(t.Context(), handle, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range messages {
		var envelope struct {
			Body    string `json:"body"`
			Payload struct {
				Type string `json:"type"`
				Data struct {
					Notice string `json:"notice"`
					Code   string `json:"code"`
				} `json:"data"`
			} `json:"payload"`
		}
		if err := json.Unmarshal(m.Envelope, &envelope); err != nil {
			t.Fatal(err)
		}
		said := envelope.Body
		switch {
		case envelope.Payload.Data.Notice != "":
			said = strings.TrimSpace(envelope.Payload.Data.Notice + " " + envelope.Payload.Data.Code)
		case envelope.Payload.Type == "system:handshake_request":
			said = "asks"
		}
		all = append(all, m.From+": "+said)
	}
	return all
}

// pair is two registries that exchange messages, each with an agent.
func pair(t *testing.T) (net *internet, a, b *world, scout, amy *bridgetest.Agent) {
	t.Helper()
	net = newInternet()
	a = net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
	b = net.join(t, "b.test", 0x0b, peers.Config{Domain: "a.test"})
	return net, a, b, a.resident(t, "a.test", "scout_7", 0x01), b.resident(t, "b.test", "amy_1", 0x05)
}

func TestFederationCarriesAHandoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b, scout, amy := pair(t)
		defer a.run(t)()
		defer b.run(t)()
		status, answer, err := scout.Send(t.Context(), "amy_1@b.test", "please", request("Cite three sources"))
		if err != nil || status != http.StatusAccepted || answer["status"] != "queued" || answer["handoff"] == nil {
			t.Fatalf("offer: %d %v %v", status, answer, err)
		}
		offer, _ := answer["id"].(string)
		id, err := federation.ParseEventID(answer["handoff"].(map[string]any)["id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := bodies(t, b, "amy_1"); len(got) != 1 || got[0] != "system: asks" {
			t.Fatalf("first contact: %v", got)
		}
		if got := told(amy.Consent(t.Context(), "scout_7@a.test", "accept")); got != "200" {
			t.Fatalf("accept: %s", got)
		}
		if diff := cmp.Diff([]string{"system: asks", "scout_7@a.test: please"}, bodies(t, b, "amy_1")); diff != "" {
			t.Errorf("what was held (-want +got):\n%s", diff)
		}
		for _, reply := range []map[string]any{ack(offer, "received"), result(offer, "completed", "result", map[string]any{"note": "here"})} {
			if got := told(amy.Send(t.Context(), "scout_7@a.test", "on it", reply)); got != "202" {
				t.Errorf("answer: %s", got)
			}
		}
		time.Sleep(2 * time.Second)
		if got := a.verbs(t, id); got != "offer accept complete" {
			t.Errorf("at the home of the offerer: %s", got)
		}
		if diff := cmp.Diff([]string{"amy_1@b.test: on it", "amy_1@b.test: on it"}, bodies(t, a, "scout_7")); diff != "" {
			t.Errorf("what came back (-want +got):\n%s", diff)
		}
		status, edge, err := scout.Call(t.Context(), http.MethodGet, "/consent?handle=amy_1@b.test", nil)
		if err != nil || status != http.StatusOK || edge["state"] != "accepted" {
			t.Errorf("what the sender's registry knows of the consent: %d %v %v", status, edge, err)
		}
	})
}

func TestFederationDeliversOnceAndInOrderAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, a, b, scout, amy := pair(t)
		if got := told(amy.Send(t.Context(), "scout_7@a.test", "hello", nil)); got != "202" { // accepts its answers
			t.Fatal(got)
		}
		stop := a.run(t)
		defer b.run(t)()
		time.Sleep(2 * time.Second)
		net.set("b.test", true)
		var want []string
		send := func(n int) {
			t.Helper()
			want = append(want, fmt.Sprintf("scout_7@a.test: %d", n))
			if got := told(scout.Send(t.Context(), "amy_1@b.test", strconv.Itoa(n), nil)); got != "202" {
				t.Fatal(got)
			}
		}
		for n := range 5 {
			send(n)
		}
		time.Sleep(6 * time.Minute)
		stop() // restarted while the other one is away
		defer a.run(t)()
		if got := told(scout.Refresh(t.Context())); got != "200" {
			t.Fatal(got)
		}
		send(5)
		time.Sleep(3 * time.Minute) // with a pause of a minute at most it arrives before the first notice
		net.set("b.test", false)
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff(want, bodies(t, b, "amy_1")); diff != "" {
			t.Errorf("what arrived (-want +got):\n%s", diff)
		}
		var notices []string
		for _, said := range bodies(t, a, "scout_7") {
			if text, ok := strings.CutPrefix(said, "system: "); ok && text != "asks" {
				notices = append(notices, strings.Fields(text)[0])
			}
		}
		slices.Sort(notices)
		if diff := cmp.Diff([]string{"delayed", "delayed", "delayed", "delayed", "delayed", "delivered", "delivered", "delivered", "delivered", "delivered"}, notices); diff != "" {
			t.Errorf("what the sender was told (-want +got):\n%s", diff)
		}
	})
}

// The other registry behaves as a deployed one.
func TestFederationLosesNothingAtADeployedRegistry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := newInternet()
		other := &bridgetest.Registry{Agents: []string{"amy"}}
		net.hosts["old.test"] = other
		a := net.join(t, "a.test", 0x0a, peers.Config{Domain: "old.test"})
		scout := a.resident(t, "a.test", "scout_7", 0x01)
		defer a.run(t)()
		var want []string
		send := func(to string, n int) {
			t.Helper()
			if got := told(scout.Send(t.Context(), to+"@old.test", strconv.Itoa(n), nil)); got != "202" {
				t.Fatal(got)
			}
			if to == "amy" {
				want = append(want, strconv.Itoa(n))
			}
		}
		send("amy", 0)
		send("nobody", 1)
		time.Sleep(3 * time.Minute) // it refuses for want of consent, and drops
		if got := other.Taken(); len(got) != 0 || other.Asked() < 3 {
			t.Fatalf("before the consent: %v of %d", got, other.Asked())
		}
		other.Consent("scout_7@a.test", "amy")
		other.Garble(3)
		time.Sleep(30 * time.Minute)
		other.Lose(1)
		if got := told(scout.Refresh(t.Context())); got != "200" {
			t.Fatal(got)
		}
		for n := 2; n < 30; n++ {
			send("amy", n)
		}
		time.Sleep(10 * time.Minute)
		var got []string
		for _, m := range other.Taken() {
			got = append(got, m.Body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what was delivered (-want +got):\n%s", diff)
		}
		if said := bodies(t, a, "scout_7"); !slices.Contains(said, "system: undeliverable 404 REMOTE_IDENTITY_NOT_FOUND") {
			t.Errorf("the sender was told %v", said)
		}
		dead, err := a.record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 10)
		if err != nil || len(dead) != 1 || dead[0].Reason != federation.DeadRefused || dead[0].Why != "404 REMOTE_IDENTITY_NOT_FOUND" {
			t.Errorf("given up: %+v, %v", dead, err)
		}
	})
}

// forge returns a relay from a.test to amy at b.test, signed with a key.
func forge(t *testing.T, key federation.SigningKey, changes map[string]any) map[string]any {
	t.Helper()
	body := map[string]any{
		"origin_registry": "a.test", "from": "scout_7", "to": "amy_1", "body": "hello", "payload": nil, "message_id": "msg_0123456789abcdef",
		"timestamp": time.Now().UTC().Format(time.RFC3339), "from_address": "@scout_7@a.test", "to_address": "@amy_1@b.test",
	}
	for name, value := range changes {
		body[name] = value
		if value == nil && name != "payload" {
			delete(body, name)
		}
	}
	return signed(t, key, body)
}

// signed returns a message with the signature of a registry, or without one for the zero key.
func signed(t *testing.T, key federation.SigningKey, body map[string]any) map[string]any {
	t.Helper()
	if key.Sign == nil {
		return body
	}
	text, err := json.Marshal(body) // sorted and without spaces, as canonical JSON is
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	body["origin_registry_signature"] = "ed25519:" + base64Std(sig)
	return body
}

// spec: airc-shapes "Rules for all"
func TestFederationRefusesALyingRegistry(t *testing.T) {
	t.Parallel()
	_, _, b, _, amy := pair(t)
	own, other := signingKey(0x0a), signingKey(0x0c)
	if got := told(amy.Send(t.Context(), "scout_7@a.test", "hello", nil)); got != "202" { // accepts its answers
		t.Fatal(got)
	}
	peer := &client{world: b}
	for name, test := range map[string]struct {
		body map[string]any
		want string
	}{
		"the truth":                      {forge(t, own, nil), "201"},
		"the same again":                 {forge(t, own, map[string]any{"message_id": "msg_0123456789abcdef"}), "201"},
		"with the key of another":        {forge(t, other, nil), "400 INVALID_REGISTRY_SIGNATURE"},
		"of another registry":            {forge(t, own, map[string]any{"origin_registry": "c.test", "from_address": nil}), "403 FEDERATION_BLOCKED"},
		"in the name of this registry":   {forge(t, own, map[string]any{"origin_registry": "b.test", "from_address": nil}), "403 FEDERATION_BLOCKED"},
		"for an agent of another":        {forge(t, own, map[string]any{"from_address": "@scout_7@c.test"}), "400 bad_request"},
		"for a recipient of another":     {forge(t, own, map[string]any{"to_address": "@amy_1@c.test"}), "403 audience_mismatch"},
		"for no recipient of its own":    {forge(t, own, map[string]any{"to_address": nil}), "403 audience_mismatch"},
		"of six minutes ago":             {forge(t, own, map[string]any{"timestamp": time.Now().Add(-6 * time.Minute).UTC().Format(time.RFC3339)}), "401 invalid_timestamp"},
		"to nobody":                      {forge(t, own, map[string]any{"to": "nobody", "to_address": "@nobody@b.test", "message_id": "msg_00000000000000nb"}), "404 REMOTE_IDENTITY_NOT_FOUND"},
		"with an address for a registry": {forge(t, own, map[string]any{"origin_registry": "127.0.0.1", "from_address": nil}), "400 bad_request"},
		"with another one's envelope":    {forge(t, own, map[string]any{"envelope": map[string]any{"v": "0.1", "id": "0123456789abcdefghijkl", "kid": "k", "aud": "c.test", "from": "scout_7", "to": "x", "timestamp": 1, "body": "hello", "signature": "x"}}), "400 bad_request"},
		"with a handle that is a path":   {forge(t, own, map[string]any{"from": "../x", "from_address": nil}), "400 bad_request"},
	} {
		status, answer := peer.call(t, http.MethodPost, "/federation/relay", test.body)
		got := strings.TrimSpace(fmt.Sprint(status, " ", orEmpty(answer["error"])))
		if got != test.want {
			t.Errorf("%s: %s %v, want %s", name, got, answer["message"], test.want)
		}
	}
	if got := bodies(t, b, "amy_1"); len(got) != 1 {
		t.Errorf("amy was told %v, want one message", got)
	}
}

func base64Std(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func orEmpty(value any) string {
	text, _ := value.(string)
	return text
}

// The effect of a relay depends on how sure the registry is of its author.
func TestRelayIsLimitedByAssurance(t *testing.T) {
	t.Parallel()
	own := signingKey(0x0a)
	for _, test := range []struct {
		name, mode, unsigned string
		signed               bool
		assurance            string
		offer, accept        string // outcome of each
	}{
		{"signed", "", "", true, "registry", "offered", "assigned"},
		{"not signed, of one that is trusted", "", "allow", false, "vouched", "offered", "assigned"},
		{"not signed", "", "", false, "unverified", "", ""},
		{"signed, of one that is held", "hold", "", true, "unverified", "", ""},
		{"not signed, of one that is held", "hold", "allow", false, "unverified", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			net := newInternet()
			net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
			b := net.join(t, "b.test", 0x0b, peers.Config{Domain: "a.test", Mode: test.mode, Unsigned: test.unsigned, Networks: []string{"192.0.2.0/24"}})
			amy := b.resident(t, "b.test", "amy_1", 0x05)
			if got := told(amy.Send(t.Context(), "scout_7@a.test", "please", request("Cite"))); got != "202" {
				t.Fatal(got)
			}
			sent, _, err := b.record.Thread(t.Context(), "amy_1", "scout_7@a.test", 0, 10)
			if err != nil || len(sent) != 1 {
				t.Fatal(sent, err)
			}
			key := federation.SigningKey{}
			if test.signed {
				key = own
			}
			peer := &client{world: b}
			relay := func(n int, payload map[string]any) (assurance, state string) {
				t.Helper()
				_, answer := peer.call(t, http.MethodPost, "/federation/relay", forge(t, key, map[string]any{"message_id": fmt.Sprintf("msg_%016d", n), "payload": payload}))
				step, _ := answer["handoff"].(map[string]any)
				return orEmpty(answer["assurance"]), orEmpty(step["state"])
			}
			assurance, state := relay(1, request("Review"))
			if assurance != test.assurance || state != test.offer {
				t.Errorf("an offer: %s %q, want %s %q", assurance, state, test.assurance, test.offer)
			}
			if _, state := relay(2, ack(sent[0].ID, "received")); state != test.accept {
				t.Errorf("an accept: %q, want %q", state, test.accept)
			}
			want := "offer accept"
			if test.accept == "" {
				want = "offer"
			}
			if got := b.verbs(t, sent[0].Handoff); got != want {
				t.Errorf("the handoff: %s, want %s", got, want)
			}
		})
	}
}

func TestFederationPolicyLimitsPeers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		federation, mode string
		configured       bool
		want             string // of a message there, and of one from there
	}{
		{peers.FederationOff, "allow", true, "403 403"},
		{peers.FederationAllowlist, "allow", true, "202 202"},
		{peers.FederationAllowlist, "limit", true, "202 202"},
		{peers.FederationAllowlist, "block", true, "403 403"},
		{peers.FederationAllowlist, "", false, "404 403"},
		{peers.FederationOpen, "", false, "202 202"},
		{peers.FederationOpen, "block", true, "403 403"},
	} {
		net := newInternet()
		net.join(t, "a.test", 0x0a)
		var others []peers.Config
		if test.configured {
			others = append(others, peers.Config{Domain: "a.test", Mode: test.mode})
		}
		b := newWorld(t, func(c *airc.Config, d *airc.Deps) {
			c.Domain, c.Peers, c.Federation, d.Fetch = "b.test", others, test.federation, net.client()
		})
		amy := b.resident(t, "b.test", "amy_1", 0x05)
		b.resident(t, "b.test", "zoe_3", 0x06)
		out := strings.Fields(told(amy.Send(t.Context(), "scout_7@a.test", "x", nil)))[0]
		in, _ := (&client{world: b}).call(t, http.MethodPost, "/api/federation/relay", forge(t, signingKey(0x0a), map[string]any{"to": "zoe_3", "to_address": "@zoe_3@b.test"}))
		if got := fmt.Sprint(out, " ", in); got != test.want && (got != "404 403" || test.want != "403 403") {
			t.Errorf("federation %s, mode %q: %s, want %s", test.federation, test.mode, got, test.want)
		}
	}
}

func TestAddressesRefuseOtherForms(t *testing.T) {
	t.Parallel()
	w := newInternet().join(t, "b.test", 0x0b, peers.Config{Domain: "a.test"})
	amy := w.resident(t, "b.test", "amy_1", 0x05)
	for address, want := range map[string]string{
		"scout_7@a.test": "202", "@scout_7@a.test": "202", "amy_1@b.test": "201",
		"scout_7@127.0.0.1": "404", "scout_7@[::1]": "404", "scout_7@2130706433": "404", "scout_7@0x7f.1": "404",
		"scout_7@user@a.test": "404", "scout_7@a.test:443": "404", "scout_7@a.test/x": "404", "scout_7@localhost": "404",
		"Scout_7@a.test": "404", "scout_7@A.test": "404", "scout_7@-a.test": "404", "scout_7@a..test": "404", "@@a.test": "404",
		"scout_7@a.test.": "404", "sc@a.test": "404", "?scout_7@a.test": "404", "scout_7@unknown.test": "404",
	} {
		if got := strings.Fields(told(amy.Send(t.Context(), address, "x", nil)))[0]; got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestRegistryKeyMustBeInDNSIfRequired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		texts []string
		want  int
	}{
		"there":              {[]string{"v=spf1 -all", "v=airc1 pk=ed25519:" + base64Std(signingKey(0x0a).Public)}, 202},
		"another one there":  {[]string{"v=airc1 pk=ed25519:" + base64Std(signingKey(0x0c).Public)}, 503},
		"nothing there":      {nil, 503},
		"there as something": {[]string{"pk=ed25519:" + base64Std(signingKey(0x0a).Public)}, 503},
	} {
		net := newInternet()
		net.join(t, "a.test", 0x0a)
		net.texts["_airc.a.test"] = test.texts
		b := newWorld(t, func(c *airc.Config, d *airc.Deps) {
			c.Domain, c.RequireDNS, d.Fetch, d.TXT, c.Peers = "b.test", true, net.client(), net.lookUp, []peers.Config{{Domain: "a.test"}}
		})
		b.resident(t, "b.test", "amy_1", 0x05)
		status, answer := (&client{world: b}).call(t, http.MethodPost, "/federation/relay", forge(t, signingKey(0x0a), nil))
		if status != test.want {
			t.Errorf("%s: %d %v, want %d", name, status, answer, test.want)
		}
	}
}

func TestRegistryDocumentsForPeers(t *testing.T) {
	t.Parallel()
	net, a, _, scout, _ := pair(t)
	anybody := tokenlessAt(a)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/.well-known/airc", nil)
	recorder := httptest.NewRecorder()
	a.mux.ServeHTTP(recorder, request)
	var doc map[string]any
	if err := json.Unmarshal(recorder.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"protocol": "AIRC", "protocol_version": "0.2.0", "registry_id": "a.test", "registry_url": "https://a.test",
		"public_key": "ed25519:" + base64Std(signingKey(0x0a).Public), "federation_enabled": true, "relay_endpoint": "/federation/relay",
	} {
		if doc[name] != want {
			t.Errorf("%s is %v, want %v", name, doc[name], want)
		}
	}
	beat(t, scout, map[string]any{"status": "online", "visibility": "public"})
	if status, answer := anybody.call(t, http.MethodGet, "/federation/presence", nil); status != http.StatusOK || answer["count"] != 1.0 {
		t.Errorf("presence: %d %v", status, answer)
	}
	if status, answer := anybody.call(t, http.MethodGet, "/federation/identity?handle=scout_7", nil); status != http.StatusOK || answer["identity"].(map[string]any)["federated_id"] != "scout_7@a.test" {
		t.Errorf("identity: %d %v", status, answer)
	}
	if status, answer := anybody.call(t, http.MethodGet, "/federation/identity?handle=amy_1&registry=b.test", nil); status != http.StatusOK || answer["identity"].(map[string]any)["handle"] != "amy_1" {
		t.Errorf("identity elsewhere: %d %v", status, answer)
	}
	for path, want := range map[string]int{
		"/federation/identity?handle=nobody": 404, "/federation/identity?handle=nobody&registry=b.test": 404,
		"/federation/identity?handle=..%2Fx": 400, "/federation/identity?handle=amy_1&registry=c.test": 403,
	} {
		if status, answer := anybody.call(t, http.MethodGet, path, nil); status != want {
			t.Errorf("%s: %d %v, want %d", path, status, answer, want)
		}
	}
	net.set("b.test", true)
	if status, answer := anybody.call(t, http.MethodGet, "/federation/presence?registry=b.test", nil); status != http.StatusBadGateway {
		t.Errorf("presence of one that is away: %d %v", status, answer)
	}
}

// tokenlessAt is a caller without a token.
func tokenlessAt(w *world) *client { return &client{world: w} }

func TestRelayIsIdempotentAfterAKeyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, _, b, _, _ := pair(t)
		peer := tokenlessAt(b)
		if status, answer := peer.call(t, http.MethodPost, "/federation/relay", forge(t, signingKey(0x0a), nil)); status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		net.join(t, "a.test", 0x0d, peers.Config{Domain: "b.test"})
		changed := func() int {
			status, _ := peer.call(t, http.MethodPost, "/federation/relay", forge(t, signingKey(0x0d), map[string]any{"message_id": "msg_fedcba9876543210"}))
			return status
		}
		if got := changed(); got != http.StatusBadRequest {
			t.Errorf("at once: %d", got)
		}
		time.Sleep(2 * time.Minute)
		if got := changed(); got != http.StatusAccepted {
			t.Errorf("after two minutes: %d", got)
		}
	})
}

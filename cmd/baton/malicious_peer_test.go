package main_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A liar is another registry, at the domain of its name, that lies in one way.
type liar struct {
	name   string
	key    ed25519.PrivateKey
	server *httptest.Server
	asked  atomic.Int32 // requests about itself
	posted atomic.Int32
}

// answers are a liar's possible answers.
func answers(victim string) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"oversized": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"protocol":"AIRC","x":"`+strings.Repeat("x", 1<<20)+`"}`)
		},
		"slow": func(w http.ResponseWriter, r *http.Request) {
			for tick := time.Tick(20 * time.Millisecond); ; {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-tick:
				case <-r.Context().Done():
					return
				}
			}
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, victim+r.URL.Path, http.StatusTemporaryRedirect)
		},
		"garbled": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Welcome</html>") },
		"doubled": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"protocol":"AIRC","public_key":"x","public_key":"y"}`)
		},
	}
}

// open starts a liar. If it lies about itself, it gets no other requests; else
// relay is its answer to a relay.
func (l *liar) open(t *testing.T, itself, relay http.HandlerFunc) *liar {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, l.name)
	l.key = ed25519.NewKeyFromSeed(seed)
	public, _ := l.key.Public().(ed25519.PublicKey)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/airc", func(w http.ResponseWriter, r *http.Request) {
		l.asked.Add(1)
		if itself != nil {
			itself(w, r)
			return
		}
		fmt.Fprintf(w, `{"protocol":"AIRC","protocol_version":"0.2.0","public_key":"ed25519:%s"}`, base64.StdEncoding.EncodeToString(public))
	})
	mux.HandleFunc("POST /api/federation/relay", func(w http.ResponseWriter, r *http.Request) {
		l.posted.Add(1)
		relay(w, r)
	})
	l.server = httptest.NewServer(mux)
	t.Cleanup(l.server.Close)
	return l
}

// relay returns a message to scout_7 that the liar signed.
func (l *liar) relay(t *testing.T, changes map[string]any) []byte {
	t.Helper()
	m := map[string]any{
		"origin_registry": l.name + ".test", "from_address": "@amy_1@" + l.name + ".test", "to_address": "@scout_7@a.test", "to": "scout_7",
		"body": "hello", "message_id": "msg_" + l.name + "_0123456789", "timestamp": time.Now().UTC().Format(time.RFC3339),
	}
	maps.Copy(m, changes)
	text, err := json.Marshal(m) // sorted and without spaces, as canonical JSON is
	if err != nil {
		t.Fatal(err)
	}
	m["origin_registry_signature"] = "ed25519:" + base64.StdEncoding.EncodeToString(ed25519.Sign(l.key, text))
	if text, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return text
}

// relayed posts a relay and returns the status and the code of the answer.
func relayed(t *testing.T, h *house, body []byte) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url()+"/federation/relay", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var said struct{ Error string }
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", said.Error))
}

// gatewayAmong starts a gateway that exchanges messages with registries, and waits for
// each answer so long.
func gatewayAmong(t *testing.T, timeout time.Duration, all ...*liar) *house {
	t.Helper()
	h := newHouse(t)
	var peers strings.Builder
	for _, l := range all {
		fmt.Fprintf(&peers, "[[airc.peers]]\ndomain = %q\nurl = %q\n", l.name+".test", l.server.URL)
	}
	h.configure(t, fmt.Sprintf("[fetch]\nallow_private = true\ntimeout = %q\n[airc]\ndomain = 'a.test'\n%s", timeout, peers.String()))
	h.start(t)
	return h
}

// notUsed returns the reasons for which the log says that an answer of a registry was
// not used, and that the counter has.
func notUsed(t *testing.T, h *house, registry string) string {
	t.Helper()
	reasons, lines := map[string]bool{}, h.logged(t)
	counters := h.counters(t) // later than the lines, whose counts are included
	for _, line := range lines {
		if line["msg"] == "answer of a registry not used" && line["peer"] == registry+".test" {
			reason, _ := line["reason"].(string)
			reasons[reason] = true
			if counters[fmt.Sprintf(`baton_bad_input_total{link="airc",network="airc",reason=%q}`, reason)] == 0 {
				t.Errorf("%s is not counted", reason)
			}
		}
	}
	var all []string
	for reason := range reasons {
		all = append(all, reason)
	}
	return strings.Join(all, " ")
}

// lies are the logged and counted reasons for each of [answers].
var lies = map[string]string{"oversized": "size", "slow": "slow", "elsewhere": "redirect", "garbled": "json", "doubled": "json"}

func TestMaliciousRegistryIsRefusedAndRecorded(t *testing.T) {
	t.Parallel()
	var misled atomic.Int32
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { misled.Add(1) }))
	t.Cleanup(victim.Close)
	var all []*liar
	for name, lie := range answers(victim.URL) {
		all = append(all, (&liar{name: name}).open(t, lie, lie))
	}
	began := time.Now()
	h := gatewayAmong(t, time.Second, all...)
	scout := resident(t, h, "scout_7", 1)
	for _, l := range all {
		if status, answer, err := scout.Send(t.Context(), "amy_1@"+l.name+".test", "hello", nil); err != nil || status != http.StatusAccepted {
			t.Fatal(l.name, status, answer, err)
		}
		for range 10 {
			if got := relayed(t, h, l.relay(t, nil)); got != "503 unavailable" {
				t.Errorf("%s: %s, want 503 unavailable", l.name, got)
			}
		}
		if got := notUsed(t, h, l.name); !strings.Contains(got, lies[l.name]) { // on a busy machine others are slow too
			t.Errorf("%s is recorded as %q, want %q", l.name, got, lies[l.name])
		}
		if n, most := l.asked.Load(), 3+int32(time.Since(began)/time.Second); n > most { // its answer is cached for 5 s
			t.Errorf("%s was asked %d times", l.name, n)
		}
		if n := l.posted.Load(); n != 0 {
			t.Errorf("%s was sent %d messages", l.name, n)
		}
	}
	if got := texts(t, scout); len(got) != 0 {
		t.Errorf("the agent was told %v", got)
	}
	if n := misled.Load(); n != 0 {
		t.Errorf("another host was asked %d times", n)
	}
}

func TestMaliciousRegistryAnswerDeliversNothing(t *testing.T) {
	t.Parallel()
	var misled atomic.Int32
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { misled.Add(1) }))
	t.Cleanup(victim.Close)
	var all []*liar
	var truthful atomic.Bool
	var taken atomic.Int32
	for name, lie := range answers(victim.URL) {
		if name == "doubled" {
			continue // of an answer nothing is read that could have two meanings
		}
		all = append(all, (&liar{name: name}).open(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if !truthful.Load() {
				lie(w, r)
				return
			}
			taken.Add(1)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{}")
		}))
	}
	h := gatewayAmong(t, time.Second, all...)
	scout := resident(t, h, "scout_7", 1)
	for _, l := range all {
		if status, answer, err := scout.Send(t.Context(), "amy_1@"+l.name+".test", "hello", nil); err != nil || status != http.StatusAccepted {
			t.Fatal(l.name, status, answer, err)
		}
	}
	for _, l := range all {
		await(t, "the lie of "+l.name, func() bool { return strings.Contains(notUsed(t, h, l.name), lies[l.name]) })
	}
	truthful.Store(true)
	await(t, "the messages to be taken", func() bool { return int(taken.Load()) == len(all) })
	if n := misled.Load(); n != 0 {
		t.Errorf("another host was asked %d times", n)
	}
}

func TestMaliciousRegistrySpeaksOnlyForItself(t *testing.T) {
	t.Parallel()
	other, own := (&liar{name: "other"}).open(t, nil, nil), (&liar{name: "own"}).open(t, nil, nil)
	h := gatewayAmong(t, patience, own, other)
	scout := resident(t, h, "scout_7", 1)
	truth := own.relay(t, nil)
	for _, test := range []struct {
		name string
		body []byte
		want string
	}{
		{"the truth", truth, "202"},
		{"the same again", truth, "202"},
		{"the same in another attempt", own.relay(t, map[string]any{"timestamp": time.Now().Add(time.Second).UTC().Format(time.RFC3339)}), "202"},
		{"in the name of another registry", own.relay(t, map[string]any{"origin_registry": "other.test", "from_address": "@amy_1@other.test"}), "400 INVALID_REGISTRY_SIGNATURE"},
		{"of an agent of another registry", own.relay(t, map[string]any{"from_address": "@amy_1@other.test"}), "400 bad_request"},
		{"in the name of this registry", own.relay(t, map[string]any{"origin_registry": "a.test", "from_address": "@amy_1@a.test"}), "403 FEDERATION_BLOCKED"},
		{"what it sent to another registry", own.relay(t, map[string]any{"to_address": "@scout_7@other.test"}), "403 audience_mismatch"},
		{"of an hour ago", own.relay(t, map[string]any{"timestamp": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}), "401 invalid_timestamp"},
		{"changed on the way", bytes.Replace(truth, []byte(`"hello"`), []byte(`"hullo"`), 1), "400 INVALID_REGISTRY_SIGNATURE"},
		{"of a registry that nobody knows", own.relay(t, map[string]any{"origin_registry": "127.0.0.1", "from_address": "@amy_1@127.0.0.1"}), "400 bad_request"},
	} {
		if got := relayed(t, h, test.body); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if status, answer, err := scout.Consent(t.Context(), "amy_1@own.test", "accept"); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	if diff := cmp.Diff([]string{"amy_1@own.test: hello"}, texts(t, scout)); diff != "" {
		t.Errorf("what came of it (-want +got):\n%s", diff)
	}
	counters := h.counters(t)
	for code, want := range map[string]float64{"INVALID_REGISTRY_SIGNATURE": 2, "FEDERATION_BLOCKED": 1, "audience_mismatch": 1, "invalid_timestamp": 1} {
		if got := counters[fmt.Sprintf(`baton_refusals_total{code=%q,network="airc"}`, code)]; got != want {
			t.Errorf("%s is counted %v times, want %v", code, got, want)
		}
	}
}

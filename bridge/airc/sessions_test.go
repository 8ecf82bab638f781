package airc_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// header returns the headers of a request signed by a key, as clients below /api send them.
func header(t *testing.T, key ed25519.PrivateKey, body map[string]any) []string {
	t.Helper()
	text, err := json.Marshal(body) // sorted and without spaces, like canonical JSON
	if err != nil {
		t.Fatal(err)
	}
	return []string{"X-AIRC-Signature", base64.StdEncoding.EncodeToString(ed25519.Sign(key, text)), "X-AIRC-Identity", "scout_7"}
}

// prefixed formats a public key as clients below /api do.
func prefixed(key ed25519.PrivateKey) string {
	return "ed25519:" + base64.StdEncoding.EncodeToString(key[ed25519.PublicKeySize:])
}

// began returns how the sessions of an agent began, sorted.
func (w *world) began(t *testing.T, handle string, dids ...string) []string {
	t.Helper()
	found, err := w.record.Sessions(t.Context(), append(dids, handle), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, s := range found {
		all = append(all, string(s.Began))
	}
	slices.Sort(all)
	return all
}

// spec: airc-v0.1.1 §5.5
func TestRevokeKeyEndsItsSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stolen, _ := newKey(0x01)
		first := map[string]any{"action": "register", "username": "scout_7", "publicKey": prefixed(stolen), "workingOn": "testing"}
		w.newcomer(t, "scout_7", first, header(t, stolen, first)...)
		thief, owner := w.stranger("scout_7", 0x01), w.stranger("scout_7", 0x01)
		for _, a := range []*bridgetest.Agent{thief, owner} {
			if err := a.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		again := map[string]any{"action": "register", "username": "scout_7"}
		api := &client{world: w, name: "scout_7"}
		status, answer := api.call(t, http.MethodPost, "/api/presence", again, header(t, stolen, again)...)
		if api.token, _ = answer["token"].(string); status != http.StatusOK || api.token == "" {
			t.Fatalf("the thief registers below /api: %d %v", status, answer)
		}
		waiting := make(chan string, 1)
		go func() { waiting <- told(thief.Call(t.Context(), http.MethodGet, "/messages/inbox?wait=50", nil)) }()
		synctest.Wait()

		rotate(t, owner, 0x0a, "key_2")
		if err := owner.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		revocation := map[string]any{"kid": thief.KeyID, "reason": "stolen"}
		if err := owner.Bind(revocation, "revoke", "signature", owner.Key, "kid", "reason"); err != nil {
			t.Fatal(err)
		}
		if got := told(owner.Call(t.Context(), http.MethodPost, "/identity/revoke", revocation)); got != "200" {
			t.Fatalf("revoke: %s", got)
		}
		if got := <-waiting; got != "401 key_revoked" || time.Since(began) > 0 {
			t.Errorf("a request that waits: %s after %s", got, time.Since(began))
		}
		apiStatus, _ := api.call(t, http.MethodGet, "/api/messages?user=scout_7", nil)
		for name, test := range map[string]struct{ got, want string }{
			"the access token":  {told(thief.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)), "401 key_revoked"},
			"the refresh token": {told(thief.Refresh(t.Context())), "401 unauthorized"},
			"the /api token":    {fmt.Sprint(apiStatus), "401"},
			"the owner":         {told(owner.Send(t.Context(), "scout_7", "hi", nil)), "201"},
		} {
			if test.got != test.want {
				t.Errorf("%s: %s, want %s", name, test.got, test.want)
			}
		}
		if diff := cmp.Diff([]string{"bound"}, w.began(t, "scout_7")); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
	})
}

// spec: airc-v0.1.1 §5.4
func TestRotateKeyEndsSessionsOfTheOldKeyAfterItsOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		old := *scout
		rotate(t, scout, 0x0a, "key_2")
		if err := scout.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends := time.Now().Add(24 * time.Hour)
		for time.Now().Before(ends.Add(-10 * time.Minute)) { // keep both sessions alive
			time.Sleep(10 * time.Minute)
			for _, a := range []*bridgetest.Agent{&old, scout} {
				if got := told(a.Refresh(t.Context())); got != "200" {
					t.Fatalf("a refresh with %s at %s: %s", a.KeyID, time.Until(ends), got)
				}
			}
		}
		time.Sleep(time.Until(ends))
		if got := told(old.Refresh(t.Context())); got != "401 unauthorized" {
			t.Errorf("a refresh after the overlap: %s", got)
		}
		if got := told(old.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)); got != "401 key_revoked" {
			t.Errorf("an access token after the overlap: %s", got)
		}
		if got := told(scout.Refresh(t.Context())); got != "200" {
			t.Errorf("a refresh of the new key: %s", got)
		}
	})
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second, third := w.agent(t, "scout_7", 0x01), w.stranger("scout_7", 0x01), w.stranger("scout_7", 0x01)
	for _, a := range []*bridgetest.Agent{second, third} {
		if err := a.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sessions := func(a *bridgetest.Agent) (current string, others []string) {
		_, answer, err := a.Call(t.Context(), http.MethodGet, "/auth/sessions", nil)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := answer["sessions"].([]any)
		for _, each := range list {
			s, _ := each.(map[string]any)
			if s["kid"] != first.KeyID || s["began"] != "bound" || s["address"] != "192.0.2.100" || s["createdAt"] == nil || s["usedAt"] == nil {
				t.Errorf("a session: %v", s)
			}
			id, _ := s["id"].(string)
			if s["current"] == true {
				current = id
			} else {
				others = append(others, id)
			}
		}
		return current, others
	}
	ended := func(a *bridgetest.Agent, method, path string) string {
		status, answer, err := a.Call(t.Context(), method, path, nil)
		return fmt.Sprint(status, " ", answer["ended"], " ", answer["error"], " ", err)
	}
	current, others := sessions(first)
	if current == "" || len(others) != 2 {
		t.Fatalf("sessions %q and %q", current, others)
	}
	stranger := w.agent(t, "bob_1", 0x02)
	if got := ended(stranger, http.MethodDelete, "/auth/sessions/"+current); got != "404 <nil> not_found <nil>" {
		t.Errorf("the session of another agent: %s", got)
	}
	mine, _ := sessions(second)
	if got := ended(first, http.MethodDelete, "/auth/sessions/"+mine); got != "200 1 <nil> <nil>" {
		t.Errorf("one session: %s", got)
	}
	if got := told(second.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)); got != "401 unauthorized" {
		t.Errorf("the token of it: %s", got)
	}
	if got := ended(third, http.MethodPost, "/auth/logout"); got != "200 1 <nil> <nil>" {
		t.Errorf("a logout: %s", got)
	}
	for name, got := range map[string]string{
		"its access token": told(third.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)), "its refresh token": told(third.Refresh(t.Context())),
	} {
		if got != "401 unauthorized" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, a := range []*bridgetest.Agent{second, third} {
		if err := a.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := ended(first, http.MethodDelete, "/auth/sessions"); got != "200 2 <nil> <nil>" {
		t.Errorf("all other sessions: %s", got)
	}
	if current, others := sessions(first); current == "" || len(others) != 0 {
		t.Errorf("sessions %q and %q are left", current, others)
	}
}

func TestDeployedSessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, owner := w.newcomer(t, "scout_7", nil), w.stranger("scout_7", 0x01)
	owner.Token = scout.token
	status, answer, err := owner.Call(t.Context(), http.MethodGet, "/auth/sessions", nil)
	list, _ := answer["sessions"].([]any)
	if err != nil || status != http.StatusOK || len(list) != 1 || list[0].(map[string]any)["began"] != "keyless" || list[0].(map[string]any)["current"] != true {
		t.Errorf("sessions: %d %v", status, answer)
	}
	if status, answer, err := owner.Call(t.Context(), http.MethodPost, "/auth/logout", nil); err != nil || status != http.StatusOK || answer["ended"] != 1.0 {
		t.Errorf("a logout: %d %v", status, answer)
	}
	if status, _ := scout.call(t, http.MethodGet, "/api/messages?user=scout_7", nil); status != http.StatusUnauthorized {
		t.Errorf("the token after it: %d", status)
	}
}

func TestHeartbeatsKeepOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.newcomer(t, "scout_7", nil)
		for range 5 {
			time.Sleep(29 * 24 * time.Hour)
			status, answer := scout.call(t, http.MethodPost, "/api/presence", map[string]any{"action": "heartbeat", "username": "scout_7"})
			if scout.token, _ = answer["token"].(string); status != http.StatusOK {
				t.Fatalf("a heartbeat: %d %v", status, answer)
			}
		}
		if diff := cmp.Diff([]string{"keyless"}, w.began(t, "scout_7")); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
	})
}

func TestHeaderRegistersOnlyItsOwnHandle(t *testing.T) {
	t.Parallel()
	key, _ := newKey(0x01)
	register := map[string]any{"action": "register", "username": "scout_7"}
	with := func(body, more map[string]any) map[string]any {
		body = maps.Clone(body)
		maps.Copy(body, more)
		return body
	}
	for name, test := range map[string]struct {
		first string // method of the first registration
		mode  string
		body  map[string]any
		more  []string
		want  int
	}{
		"again":                               {"header", airc.HeaderOwn, register, nil, 200},
		"where the operator denies it":        {"header", airc.HeaderDeny, register, nil, 409},
		"of an agent that used a challenge":   {"challenge", airc.HeaderOwn, register, nil, 409},
		"of an agent that made a bound proof": {"bound", airc.HeaderOwn, register, nil, 409},
		"of an agent that only named its key": {"named", airc.HeaderOwn, register, nil, 409},
		"another action":                      {"header", airc.HeaderOwn, map[string]any{"action": "accept", "handle": "scout_7"}, nil, 409},
		"no action":                           {"header", airc.HeaderOwn, map[string]any{"username": "scout_7"}, nil, 409},
		"the handle under another name":       {"header", airc.HeaderOwn, map[string]any{"action": "register", "handle": "scout_7"}, nil, 409},
		"the identity of another handle":      {"header", airc.HeaderOwn, register, []string{"X-AIRC-Identity", "bob_1"}, 409},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.HeaderRegistration = test.mode })
			first := with(register, map[string]any{"publicKey": prefixed(key), "workingOn": "testing"})
			switch test.first {
			case "header":
				w.newcomer(t, "scout_7", first, header(t, key, first)...)
			case "named":
				w.newcomer(t, "scout_7", first)
			case "challenge":
				if err := w.stranger("scout_7", 0x01).RegisterBare(t.Context()); err != nil {
					t.Fatal(err)
				}
			case "bound":
				w.agent(t, "scout_7", 0x01)
			}
			thief := &client{world: w, name: "scout_7"}
			status, answer := thief.call(t, http.MethodPost, "/api/presence", test.body, append(header(t, key, test.body), test.more...)...)
			if status != test.want || (answer["token"] != nil) != (test.want == 200) {
				t.Errorf("%d %v, want %d", status, answer, test.want)
			}
		})
	}
}

// A malicious registry passes on the challenge of this one, or anything else, to an agent that
// registers there.
func TestBareSignatureRegistersANewHandleOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	evil := w.stranger("scout_7", 0x01) // no key: the agent signs on its behalf
	if err := evil.RegisterBare(t.Context()); err != nil {
		t.Fatal(err)
	}
	did := signingKey(0x01).DID
	w.checkOwner(t, did, "")
	if known := alsoKnownAs(t, evil, "scout_7"); slices.Contains(known, string(did)) {
		t.Errorf("a bare registration is also known as %q", known)
	}
	challenge, err := evil.Challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := evil.Call(t.Context(), http.MethodPost, "/register", evil.Registration(challenge))
	message, _ := answer["message"].(string)
	if status != 401 || answer["error"] != "challenge_invalid" || err != nil || message == "" {
		t.Errorf("again: %d %v %v", status, answer, err)
	}
	key, public := newKey(0x0b)
	for name, body := range map[string]map[string]any{
		"the new key signed as a challenge": {"newPublicKey": public, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(evil.Key, []byte(public)))},
		"the whole request":                 signedBody(t, evil.Key, map[string]any{"newPublicKey": public, "newKid": "key_2"}),
		"both keys":                         withNewKeySignature(t, evil.Key, key, public),
	} {
		if got := told(evil.Call(t.Context(), http.MethodPost, "/identity/rotate", body)); got != "401 invalid_signature" {
			t.Errorf("a rotation by %s: %s", name, got)
		}
	}
	revocation := signedBody(t, evil.Key, map[string]any{"kid": evil.KeyID, "reason": "x"})
	if got := told(evil.Call(t.Context(), http.MethodPost, "/identity/revoke", revocation)); got != "401 invalid_signature" {
		t.Errorf("a revocation: %s", got)
	}
	scout := w.stranger("scout_7", 0x01)
	if err := scout.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.checkOwner(t, did, "scout_7")
	if got := told(evil.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)); got != "401 unauthorized" {
		t.Errorf("the session of the bare proof after the bound one: %s", got)
	}
	if diff := cmp.Diff([]string{"bound"}, w.began(t, "scout_7")); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

func TestBoundProofIsForOneRegistryPurposeAndTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	_, public := newKey(0x0b)
	covered := []string{"newPublicKey", "newKid"}
	for name, test := range map[string]struct {
		change func(a *bridgetest.Agent, body map[string]any)
		want   string
	}{
		"another registry":         {func(a *bridgetest.Agent, _ map[string]any) { a.Domain = "evil.example" }, "403 audience_mismatch"},
		"another handle":           {func(a *bridgetest.Agent, _ map[string]any) { a.Handle = "bob_1" }, "401 invalid_signature"},
		"the key of another agent": {func(a *bridgetest.Agent, _ map[string]any) { a.Key, _ = newKey(0x0c) }, "401 invalid_signature"},
	} {
		a, body := *scout, map[string]any{"newPublicKey": public, "newKid": "key_2"}
		test.change(&a, body)
		if err := a.Bind(body, "rotate", "signature", a.Key, covered...); err != nil {
			t.Fatal(err)
		}
		if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", body)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	for name, test := range map[string]struct {
		purpose string
		member  string
		value   any
		want    string
	}{
		"another purpose":              {"revoke", "", nil, "401 invalid_signature"},
		"the purpose changed after it": {"revoke", "purpose", "rotate", "401 invalid_signature"},
		"the time changed after it":    {"rotate", "timestamp", time.Now().Add(time.Minute).Unix(), "401 invalid_signature"},
		"an old time":                  {"rotate", "timestamp", time.Now().Add(-6 * time.Minute).Unix(), "401 invalid_timestamp"},
		"a time out of range":          {"rotate", "timestamp", 1e19, "400 bad_request"},
		"another kid":                  {"rotate", "newKid", "key_3", "401 invalid_signature"},
		"no purpose":                   {"rotate", "purpose", nil, "400 bad_request"},
	} {
		body := map[string]any{"newPublicKey": public, "newKid": "key_2"}
		if err := scout.Bind(body, test.purpose, "signature", scout.Key, covered...); err != nil {
			t.Fatal(err)
		}
		if test.member != "" {
			body[test.member] = test.value
		}
		if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", body)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if agent, err := w.record.Agent(t.Context(), "scout_7"); err != nil || len(agent.Keys) != 1 {
		t.Errorf("the agent has keys %v, %v", agent.Keys, err)
	}
}

func TestSessionBecomesBoundByASignedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.stranger("scout_7", 0x01)
	if err := scout.RegisterBare(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, public := newKey(0x0b)
	bare := map[string]any{"newPublicKey": public, "newKid": "key_2", "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(scout.Key, []byte(public)))}
	if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", bare)); got != "401 invalid_signature" {
		t.Errorf("a bare rotation before: %s", got)
	}
	if got := told(scout.Send(t.Context(), "scout_7", "hi", nil)); got != "201" {
		t.Fatalf("send: %s", got)
	}
	w.checkOwner(t, signingKey(0x01).DID, "scout_7")
	if got := told(scout.Call(t.Context(), http.MethodPost, "/identity/rotate", bare)); got != "200" {
		t.Errorf("a bare rotation after: %s", got)
	}
	w.checkOwner(t, signingKey(0x0b).DID, "")
}

// spec: wire/airc §2.4
func TestRecoveryKeyReplacesAndRevokesKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, _ := newKey(0x21)
	second, _ := newKey(0x22)
	recovery, _ := newKey(0x23)
	register := map[string]any{"action": "register", "username": "scout_7", "workingOn": "testing", "publicKey": prefixed(first), "recoveryKey": prefixed(recovery)}
	thief := w.newcomer(t, "scout_7", register, header(t, first, register)...)
	prove := func(key ed25519.PrivateKey, member string, body map[string]any) map[string]any {
		body["nonce"] = "00"
		if body["timestamp"] == nil {
			body["timestamp"] = time.Now().Unix()
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		body[member] = base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))
		return body
	}
	rotation := func(key ed25519.PrivateKey, proof map[string]any) map[string]any {
		return map[string]any{"new_public_key": prefixed(second), "proof": prove(key, "signature", proof)}
	}
	nobody := &client{world: w, name: "scout_7"}
	const rotate, revoke = "/api/identity/scout_7/rotate", "/api/identity/revoke"
	for _, step := range []struct {
		name, path string
		body       map[string]any
		want       int
	}{
		{"a rotation by the stolen key", rotate, rotation(first, map[string]any{"new_public_key": prefixed(second)}), 401},
		{"a proof of no new key", rotate, rotation(recovery, map[string]any{"handle": "scout_7"}), 400},
		{"a proof of a revocation", rotate, rotation(recovery, map[string]any{"new_public_key": prefixed(second), "action": "revoke"}), 401},
		{"a proof of another handle", rotate, rotation(recovery, map[string]any{"new_public_key": prefixed(second), "handle": "bob_1"}), 403},
		{"an old proof", rotate, rotation(recovery, map[string]any{"new_public_key": prefixed(second), "timestamp": time.Now().Add(-6 * time.Minute).Unix()}), 401},
		{"a handle without a recovery key", "/api/identity/bob_1/rotate", rotation(recovery, map[string]any{"new_public_key": prefixed(second)}), 401},
		{"a rotation", rotate, rotation(recovery, map[string]any{"new_public_key": prefixed(second)}), 200},
		{"the same again", rotate, rotation(recovery, map[string]any{"new_public_key": prefixed(second)}), 400},
	} {
		status, answer := nobody.call(t, http.MethodPost, step.path, step.body)
		if status != step.want {
			t.Errorf("%s: %d %v, want %d", step.name, status, answer, step.want)
		}
		if step.want == 200 {
			nobody.token, _ = answer["token"].(string)
		}
	}
	if status, _ := thief.call(t, http.MethodGet, "/api/messages?user=scout_7", nil); status != http.StatusUnauthorized {
		t.Errorf("the token of the stolen key: %d", status)
	}
	if status, _ := nobody.call(t, http.MethodGet, "/api/messages?user=scout_7", nil); status != http.StatusOK {
		t.Errorf("the token of the rotation: %d", status)
	}
	again := map[string]any{"action": "register", "username": "scout_7"}
	if status, _ := thief.call(t, http.MethodPost, "/api/presence", again, header(t, first, again)...); status == http.StatusOK {
		t.Errorf("the stolen key registers again")
	}
	_, shown, err := w.stranger("scout_7", 0x01).Identity(t.Context(), "scout_7")
	if err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		if strings.Contains(fmt.Sprint(shown), encoding.EncodeToString(recovery[ed25519.PublicKeySize:])) {
			t.Errorf("the identity shows the recovery key: %v", shown)
		}
	}
	nobody.token = ""
	end := prove(recovery, "proof", map[string]any{"v": "0.2", "handle": "scout_7", "action": "revoke", "reason": "lost"})
	if status, answer := nobody.call(t, http.MethodPost, revoke, end); status != http.StatusOK || answer["status"] != "revoked" {
		t.Errorf("a revocation: %d %v", status, answer)
	}
	third, _ := newKey(0x24)
	after := map[string]any{"new_public_key": prefixed(third), "proof": prove(recovery, "signature", map[string]any{"new_public_key": prefixed(third)})}
	if status, _ := nobody.call(t, http.MethodPost, rotate, after); status != http.StatusUnauthorized {
		t.Errorf("a rotation after the revocation: %d", status)
	}
	if diff := cmp.Diff([]string{}, w.began(t, "scout_7")); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

// Tokens from before version 5 of the record name no session, or one whose key is unknown.
func TestTokensSurviveAnUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, now := w.agent(t, "scout_7", 0x01), time.Now()
	for id, generation := range map[string]uint64{"api:scout_7": 0, "old": 3} { // as the upgrade leaves them
		s := federation.Session{
			ID: id, Participant: "scout_7", Generation: generation, Began: federation.BeganRefresh, Created: now, Used: now, Expires: now.Add(time.Hour),
		}
		if err := w.record.StartSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	tokens := credential.NewTokens(seed(0x77), "gw.example", func(use credential.Use) string {
		if use == "api" {
			return "gw.example/api"
		}
		return "gw.example"
	})
	shows := func(claims credential.Claims, method, path string) string {
		t.Helper()
		token, err := tokens.Issue("scout_7", claims, now, now.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		scout.Token = token
		return told(scout.Call(t.Context(), method, path, nil))
	}
	api := credential.Claims{Use: "api"}
	refresh := credential.Claims{Use: credential.Refresh, Session: "old", Generation: 3}
	access := credential.Claims{Use: credential.Access}
	check := func(when string, want ...string) {
		t.Helper()
		got := []string{
			shows(api, http.MethodGet, "/api/messages"), shows(access, http.MethodGet, "/messages/inbox"), shows(refresh, http.MethodPost, "/auth/refresh"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		refresh.Generation++
	}
	check("after the upgrade", "200", "401 token_expired", "200")
	if _, err := w.record.RevokeKey(t.Context(), "scout_7", scout.KeyID, scout.KeyID, "lost", time.Now()); err != nil {
		t.Fatal(err)
	}
	check("after the revocation", "401 key_revoked", "401 token_expired", "401 unauthorized")
}

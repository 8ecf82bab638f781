//go:build interop

package main_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// oldChallenge returns a challenge given to a handle six minutes ago.
func (h *house) oldChallenge(t *testing.T, handle string) string {
	t.Helper()
	head := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(-time.Minute).Unix()))
	head = append(head, "8 bytes."...)
	mac := hmac.New(sha256.New, h.tokenKey(t))
	fmt.Fprintf(mac, "airc challenge\x00%s\x00%s", handle, head)
	return base64.RawURLEncoding.EncodeToString(append(head, mac.Sum(nil)[:16]...))
}

// grant is the answer to a refresh.
type grant struct {
	AccessToken, RefreshToken string
	ExpiresAt                 int64
}

func refresh(t *testing.T, url, token string) (grant, outcome) {
	t.Helper()
	agent := bridgetest.NewAgent(url, "anybody", make([]byte, 32))
	agent.Token = token
	status, body, err := agent.Do(t.Context(), http.MethodPost, "/auth/refresh", nil)
	if err != nil {
		t.Fatal(err)
	}
	var g grant
	got := outcome{}
	for _, into := range []any{&g, &got} {
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatalf("%d %s: %v", status, body, err)
		}
	}
	got.Status = status
	return g, got
}

// enlist registers an agent and returns its refresh token too.
func (r *threeAgents) enlist(t *testing.T, handle string) (*mailbox, string) {
	t.Helper()
	agent := &mailbox{Agent: bridgetest.NewAgent(r.url(), handle, newPerson(t).key.Seed())}
	status, answer, err := agent.Call(t.Context(), http.MethodPost, "/register", agent.Registration(r.challenge(t, handle)))
	if err != nil || status != http.StatusCreated {
		t.Fatalf("register: %d %v %v", status, answer, err)
	}
	agent.Token, _ = answer["accessToken"].(string)
	agent.Domain, _ = answer["domain"].(string)
	token, _ := answer["refreshToken"].(string)
	r.secrets = append(r.secrets, agent.Token, token)
	return agent, token
}

func good(t *testing.T, agent *mailbox, token string) bool {
	t.Helper()
	as := *agent.Agent
	as.Token = token
	status, _, err := as.Do(t.Context(), http.MethodGet, "/messages/inbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	return status == http.StatusOK
}

func TestAIRCRefreshTokenReuseEndsTheFamily(t *testing.T) {
	t.Parallel()
	r := newThreeAgents(t)
	agent, first := r.enlist(t, "tess_9")
	if good(t, agent, first) {
		t.Error("a refresh token opens the inbox")
	}
	if _, got := refresh(t, r.url(), agent.Token); got.Status != http.StatusUnauthorized || got.Error != "unauthorized" {
		t.Errorf("an access token is refreshed: %+v", got)
	}
	second, got := refresh(t, r.url(), first)
	if got.Status != http.StatusOK || !good(t, agent, second.AccessToken) || second.RefreshToken == first {
		t.Fatalf("the first refresh is answered %+v %+v", got, second)
	}
	if life := time.Until(time.Unix(second.ExpiresAt, 0)); life < 14*time.Minute || life > 16*time.Minute {
		t.Errorf("the access token is good for %s", life)
	}
	r.kill(t)
	r.start(t)
	third, got := refresh(t, r.url(), second.RefreshToken)
	if got.Status != http.StatusOK || !good(t, agent, third.AccessToken) {
		t.Fatalf("after a restart the second refresh is answered %+v", got)
	}
	for _, spent := range []string{first, third.RefreshToken} { // the second because of the first
		if _, got := refresh(t, r.url(), spent); got.Status != http.StatusUnauthorized || got.Error != "unauthorized" || got.Message == "" {
			t.Errorf("a spent token is answered %+v", got)
		}
	}
	r.secrets = append(r.secrets, second.AccessToken, second.RefreshToken, third.AccessToken, third.RefreshToken)
}

func TestAIRCTokensExpire(t *testing.T) {
	t.Parallel()
	r := newThreeAgents(t)
	agent, token := r.enlist(t, "tess_9")
	past := map[string]any{"exp": time.Now().Add(-time.Second).Unix()}
	if good(t, agent, r.forge(t, agent.Token, past)) {
		t.Error("an access token that has expired opens the inbox")
	}
	if _, got := refresh(t, r.url(), r.forge(t, token, past)); got.Status != http.StatusUnauthorized || got.Error != "token_expired" {
		t.Errorf("a refresh token that has expired is answered %+v", got)
	}
	if good(t, agent, r.forge(t, agent.Token, map[string]any{"sub": "rita_1", "aud": []string{"other.test"}})) {
		t.Error("a token for another registry opens an inbox")
	}
}

func TestAIRCThreadIsReadAckedAndDeleted(t *testing.T) {
	t.Parallel()
	r := newThreeAgents(t)
	var ids []string
	for i, turn := range []struct{ from, to *mailbox }{{r.rita, r.sam}, {r.sam, r.rita}, {r.rita, r.sam}} {
		envelope := turn.from.Envelope(turn.to.Handle, fmt.Sprint("line ", i+1), nil)
		got, _ := exchangeHTTP(t, turn.from, http.MethodPost, "/messages", write(t, turn.from.Agent, envelope))
		if got.Status != http.StatusCreated {
			t.Fatalf("message %d is answered %+v", i, got)
		}
		ids = append(ids, got.ID)
	}
	type line struct {
		Seq  int
		Body string
	}
	thread := func(agent *mailbox, with, query string) (lines []line, more bool) {
		status, body, err := agent.Do(t.Context(), http.MethodGet, "/messages/thread/"+with+query, nil)
		var page struct {
			Messages []line
			HasMore  bool
		}
		if err != nil || status != http.StatusOK || json.Unmarshal(body, &page) != nil {
			t.Fatalf("thread: %d %s %v", status, body, err)
		}
		return page.Messages, page.HasMore
	}
	all := []line{{1, "line 1"}, {2, "line 2"}, {3, "line 3"}}
	for _, tt := range []struct {
		name, query string
		want        []line
		more        bool
	}{{"whole", "", all, false}, {"after the first", "?after_seq=1", all[1:], false}, {"two at a time", "?limit=2", all[:2], true}} {
		t.Run(tt.name, func(t *testing.T) {
			got, more := thread(r.rita, "sam_2", tt.query)
			if diff := cmp.Diff(tt.want, got); diff != "" || more != tt.more {
				t.Errorf("thread, has more %v (-want +got):\n%s", more, diff)
			}
		})
	}
	if got, _ := exchangeHTTP(t, r.sam, http.MethodPost, "/messages/"+ids[0]+"/ack", nil); got.Status != http.StatusOK || got.ID != ids[0] {
		t.Errorf("ack is answered %+v", got)
	}
	if got, _ := exchangeHTTP(t, r.zoe, http.MethodPost, "/messages/"+ids[0]+"/ack", nil); got.Status != http.StatusNotFound {
		t.Errorf("an ack of somebody else's is answered %+v", got)
	}
	if got, _ := exchangeHTTP(t, r.sam, http.MethodDelete, "/messages/"+ids[0], nil); got.Status != http.StatusOK {
		t.Errorf("delete is answered %+v", got)
	}
	left, _ := thread(r.sam, "rita_1", "")
	if diff := cmp.Diff(all[1:], left, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after a delete (-want +got):\n%s", diff)
	}
}

func TestAIRCInboxWaits(t *testing.T) {
	t.Parallel()
	r := newThreeAgents(t, "[rest]\nmax_wait = \"2s\"\n")
	_, cursor := inbox(t, r.sam.Agent, "")
	if took, messages := r.waits(t, r.sam, cursor, "30"); len(messages) > 0 || took < 1900*time.Millisecond || took > 3*time.Second {
		t.Errorf("an empty inbox is answered with %d messages after %s, want none after 2 s", len(messages), took)
	}
	for round := range 3 {
		sent := make(chan time.Time, 1)
		text := r.envelope(t, nil)
		timer := time.AfterFunc(200*time.Millisecond, func() {
			sent <- time.Now()
			_, _, _ = r.rita.Post(t.Context(), text) // a missed message is seen below
		})
		_, messages := r.waits(t, r.sam, cursor, "2")
		took := time.Since(<-sent)
		timer.Stop()
		if len(messages) != 1 || took > 100*time.Millisecond {
			t.Errorf("round %d: %d messages %s after the first was sent, want one within 100 ms", round, len(messages), took)
		}
		_, cursor = inbox(t, r.sam.Agent, cursor)
	}
	if took, messages := r.waits(t, r.sam, "", "2"); len(messages) == 0 || took > time.Second {
		t.Errorf("what is there already is answered after %s with %d messages", took, len(messages))
	}
}

// waits asks for an inbox and waits for something to come.
func (r *threeAgents) waits(t *testing.T, agent *mailbox, cursor, seconds string) (time.Duration, []json.RawMessage) {
	t.Helper()
	start := time.Now()
	status, body, err := agent.Do(t.Context(), http.MethodGet, "/messages/inbox?wait="+seconds+"&cursor="+cursor, nil)
	took := time.Since(start)
	var page struct{ Messages []json.RawMessage }
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &page) != nil {
		t.Fatalf("inbox: %d %s %v", status, body, err)
	}
	return took, page.Messages
}

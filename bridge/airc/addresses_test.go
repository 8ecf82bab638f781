package airc_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
)

// each returns a count of which every address has a limit in an hour.
func each(limit int) credential.Addresses {
	return credential.NewAddresses(func() int { return limit }, time.Hour)
}

func TestRegisterSharesOneRateAcrossEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registrations = 3
	w.agent(t, "scout_7", 0x01)
	deployed := func(from, handle string) int {
		return w.ask(t, from, http.MethodPost, "/api/presence", "", fmt.Sprintf(`{"action":"register","username":%q}`, handle)).Code
	}
	got := []int{deployed(agentsAddress, "amy_1"), deployed(agentsAddress, "bea_2"), deployed(agentsAddress, "cat_3"), deployed("192.0.2.9:1", "dan_4")}
	if diff := cmp.Diff([]int{http.StatusCreated, http.StatusCreated, http.StatusTooManyRequests, http.StatusCreated}, got); diff != "" {
		t.Error(diff)
	}
	if err := w.stranger("eve_5", 0x05).Register(t.Context()); err == nil {
		t.Error("a fourth handle is registered from one address")
	}
}

func TestLoginIsRateLimitedByAddress(t *testing.T) {
	t.Parallel()
	var metrics *bridge.Metrics
	w := newWorld(t, func(_ *airc.Config, d *airc.Deps) { d.Logins, metrics = each(3), d.Metrics })
	scout := w.agent(t, "scout_7", 0x01) // a challenge
	again := func(from string) []int {
		var got []int
		for _, request := range [][2]string{
			{"/register/challenge", `{"handle":"amy_1"}`},
			{"/auth/refresh", `{}`},
			{"/api/presence", `{"action":"register","username":"scout_7"}`},
		} {
			got = append(got, w.ask(t, from, http.MethodPost, request[0], "", request[1]).Code)
		}
		return got
	}
	const much = http.StatusTooManyRequests
	if diff := cmp.Diff([]int{http.StatusOK, http.StatusUnauthorized, much}, again(agentsAddress)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{much, much, much}, again(agentsAddress)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{http.StatusOK, http.StatusUnauthorized, http.StatusConflict}, again("192.0.2.9:1")); diff != "" {
		t.Error(diff)
	}
	if got := w.ask(t, agentsAddress, http.MethodPost, "/api/presence", scout.Token, `{"action":"heartbeat"}`).Code; got != http.StatusOK {
		t.Errorf("a heartbeat with a token is answered %d", got)
	}
	if n := testutil.ToFloat64(metrics.Limited.WithLabelValues("airc")); n != 4 {
		t.Errorf("%v are counted, want 4", n)
	}
}

func TestMessagesShareOneRatePerAddress(t *testing.T) {
	t.Parallel()
	writes := each(4)
	w := newWorld(t, func(_ *airc.Config, d *airc.Deps) { d.Writes = writes })
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	var got []string
	for range 3 {
		for _, a := range []*bridgetest.Agent{scout, planner} {
			status, answer, err := a.Send(t.Context(), a.Handle, "hello", nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(status, " ", answer["error"]))
		}
	}
	const ok, much = "201 <nil>", "429 rate_limited"
	if diff := cmp.Diff([]string{ok, ok, ok, ok, much, much}, got); diff != "" {
		t.Error(diff)
	}
	body := `{"from":"planner","to":"planner","body":"hello"}`
	if got := w.ask(t, "192.0.2.9:1", http.MethodPost, "/api/messages", planner.Token, body).Code; got >= http.StatusBadRequest {
		t.Errorf("from another address it is answered %d", got)
	}
	if left := writes.Left(bridge.SubnetOf("192.0.2.9"), time.Now()).Left; left != 3 {
		t.Errorf("%d are left to the other address, want 3", left)
	}
}

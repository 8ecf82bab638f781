//go:build interop && long

package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// realUser is a logged-in client of a real freeq-server that signs steps. The server takes
// five of them in two seconds.
type realUser struct {
	*bridgetest.IRCClient
	person
	home   *bridgetest.FreeqServer
	bearer string // of the web API
	peered bool   // the server has peers beside the gateway
	steps  *rate.Limiter
	t      *testing.T
}

// logInto connects a user to a real server, and into the channel.
func logInto(t *testing.T, server *bridgetest.FreeqServer, nick string, p person) *realUser {
	t.Helper()
	prove := func(challenge string) (string, error) { return proves(t, p, challenge), nil }
	client, err := bridgetest.LogInIRC(patient(t), server.IRC, nick, prove,
		"sasl", "message-tags", "batch", "server-time", "account-tag", "echo-message", "freeq.at/act")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	u := &realUser{IRCClient: client, person: p, home: server, steps: rate.NewLimiter(2, 1), t: t}
	said := next(t, client, "the bearer", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.HasPrefix(m.Params[len(m.Params)-1], "API-BEARER ")
	})
	u.bearer = strings.TrimPrefix(said.Params[len(said.Params)-1], "API-BEARER ")
	if err := client.Send(nil, "MSGSIG", base64.RawURLEncoding.EncodeToString(p.public())); err != nil {
		t.Fatal(err)
	}
	next(t, client, "the key to be taken", func(m bridgetest.IRCMessage) bool { return m.Command == "MSGSIG" })
	if err := client.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	return u
}

// Offer implements [stepTaker].
func (u *realUser) Offer(target string, to federation.DID, title string) (federation.HandoffID, error) {
	more := extras{"title": title}
	if to != "" {
		more["to"] = string(to)
	}
	id, err := u.say(target, actTags.offer(u.person, u.venue(target), more))
	return id, err
}

// Step implements [stepTaker].
func (u *realUser) Step(target string, id federation.HandoffID, verb federation.Verb, note string) (federation.EventID, error) {
	return u.say(target, actTags.step(u.person, u.venue(target), string(verb), id.String(), extras{"note": note}))
}

// venue returns the signed venue of a step to a target.
func (u *realUser) venue(target string) string {
	if strings.HasPrefix(target, "#") {
		return target
	}
	return federation.PrivateVenue(federation.DID(u.did), federation.DID(target))
}

// say sends a step, and returns once the server has taken it.
func (u *realUser) say(target string, step signed) (federation.EventID, error) {
	id, err := federation.ParseEventID(step.event)
	if err != nil {
		return id, err
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	if err := u.steps.Wait(ctx); err != nil {
		return id, err
	}
	if err := u.Send(step.tags, "TAGMSG", target); err != nil {
		return id, err
	}
	for {
		status, _ := u.home.Get(ctx, "/api/v1/verify/"+step.event, u.bearer)
		if status == http.StatusOK {
			return id, nil
		}
		for _, m := range u.Received() {
			if m.Command == "FAIL" || m.Command == "404" || m.Command == "401" {
				return id, fmt.Errorf("%s is refused: %q", step.document, m.Params)
			}
		}
		select {
		case <-ctx.Done():
			return id, fmt.Errorf("%s is not filed: %d", step.document, status)
		case <-time.After(lookEach):
		}
	}
}

// AwaitState implements [meshServer] by the web API of the user's server.
func (u *realUser) AwaitState(ctx context.Context, id federation.HandoffID, state federation.State) error {
	for {
		status, body := u.home.Get(ctx, "/api/v1/actions/"+id.String(), u.bearer)
		last := readAction(body).state()
		if status == http.StatusOK && last == string(state) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is %q there, not %s: %d %s", id, last, state, status, body)
		case <-time.After(lookEach):
		}
	}
}

// action is a handoff in the web API.
type action struct {
	Task   *struct{ State string } // nil if it is over
	Events []actionEvent
}

type actionEvent struct {
	ID        string `json:"event_id"`
	Canonical string
	Confirmed *string `json:"confirm_state"`
}

func readAction(body []byte) (a action) {
	_ = json.Unmarshal(body, &a) // an error has no events
	return a
}

func (e actionEvent) document() (document map[string]string) {
	_ = json.Unmarshal([]byte(e.Canonical), &document) // a server files no other
	return document
}

// state returns the state of a handoff. The API shows only the steps of a
// closed one.
func (a action) state() string {
	if a.Task != nil {
		return a.Task.State
	}
	state := ""
	for _, e := range a.Events {
		if e.Confirmed == nil || *e.Confirmed != "confirmed" {
			continue
		}
		switch verb := e.document()["act-verb"]; verb {
		case "complete":
			state = "completed"
		case "decline", "expire":
			state = verb + "d"
		case "cancel":
			state = "cancelled"
		}
	}
	return state
}

// Verbs implements [meshServer]: the steps that the client got, and those on file that a peer
// of the server sent: a server that gets a step of a peer as act_route before the TAGMSG drops
// the latter, and shows its users neither. One waiting for the key of the signer with both
// shows them twice.
func (u *realUser) Verbs(id federation.HandoffID) (verbs []string) {
	got := map[string]bool{}
	for _, m := range u.Received() {
		verb, about := m.Tags[vendor+"act-verb"], m.Tags[vendor+"act-id"]
		if about == "" {
			about = m.Tags[vendor+"eventid"]
		}
		step := m.Tags[vendor+"eventid"]
		if m.Command != "TAGMSG" || about != id.String() || verb == "confirm" || u.peered && got[step] && !strings.HasSuffix(m.Nick, "-gw") {
			continue
		}
		verbs = append(verbs, verb)
		got[step] = true
	}
	if !u.peered {
		return verbs
	}
	_, body := u.home.Get(u.t.Context(), "/api/v1/actions/"+id.String(), u.bearer)
	for _, e := range readAction(body).Events {
		if verb := e.document()["act-verb"]; verb != "confirm" && !got[e.ID] {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// Speakers implements [meshServer].
func (u *realUser) Speakers() (nicks []string) {
	for _, m := range u.Received() {
		if strings.HasSuffix(m.Nick, "-gw") {
			nicks = append(nicks, m.Nick)
		}
	}
	return nicks
}

// newRealMesh is [newFreeqMesh] with the freeq-server whose binary FREEQ_SERVER names, each
// linked through dumbpipe. It returns nil if the variable is unset.
func newRealMesh(t *testing.T, topology string, more ...string) *freeqMesh {
	t.Helper()
	binary := os.Getenv("FREEQ_SERVER")
	if binary == "" {
		t.Log("not run: FREEQ_SERVER is unset")
		return nil
	}
	m := &freeqMesh{house: newHouse(t)}
	gateway := m.endpoint(t)
	var servers []*bridgetest.FreeqServer
	peers, tables := map[rune][]*bridgetest.FreeqServer{}, ""
	for i, group := range topology {
		name := fmt.Sprintf("fq%d", i)
		server, err := bridgetest.NewFreeqServer(t.Context(), binary, t.TempDir(), name+".freeq.test", seeded(name+" endpoint"), federationtest.FreeAddr(t), federationtest.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		server.Admit(gateway, m.url())
		servers = append(servers, server)
		peers[group] = append(peers[group], server)
		tables += fmt.Sprintf("[[irc.freeq]]\nname = %q\nserver_name = %q\nendpoint_id = %q\npeer_api = %q\naddress = %q\nchannels = [%q]\n",
			name, name+".freeq.test", server.ID, server.API, server.Address, channel)
	}
	for _, group := range peers {
		bridgetest.MeshServers(group...)
	}
	for _, server := range servers {
		t.Cleanup(func() {
			server.Stop()
			if t.Failed() {
				t.Logf("%s wrote:\n%s", server.ID, server.Log())
			}
		})
		if err := server.Start(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	for i, server := range servers {
		linked := fmt.Sprintf("\nfreeq_s2s_peers %d\n", len(peers[rune(topology[i])])-1)
		await(t, server.ID+" to be linked to its peers", func() bool {
			_, metrics := server.Get(t.Context(), "/metrics", "")
			return strings.Contains(string(metrics), linked)
		})
	}
	m.configure(t, strings.Join(more, "\n")+tables+"[fetch]\nallow_private = true\nper_host = 1000\n")
	m.start(t)
	m.ready(t)
	for i, server := range servers {
		nick := fmt.Sprintf("user%d", i)
		key := seeded(nick)
		user := logInto(t, server, nick, person{key: key, did: string(didOf(key))})
		user.peered = len(peers[rune(topology[i])]) > 1
		m.servers = append(m.servers, user)
		m.users = append(m.users, meshUser{did: federation.DID(user.did), stepTaker: user})
	}
	return m
}

// Servers with the same letter are peers.
func TestFreeqRealServersGetEachStepOnce(t *testing.T) {
	for _, topology := range []string{"a", "ab", "aa", "abc", "aab", "aaa"} {
		t.Run(topology, func(t *testing.T) {
			if m := newRealMesh(t, topology); m != nil {
				m.befriend(t)
				m.play(t, topology)
			}
		})
	}
}

// newRealPair is a mesh of one real server, nil if there is none, and its user.
func newRealPair(t *testing.T, more ...string) (*freeqMesh, *realUser) {
	t.Helper()
	m := newRealMesh(t, "a", more...)
	if m == nil {
		return nil, nil
	}
	user, _ := m.servers[0].(*realUser)
	return m, user
}

func TestFreeqRealServerMakesTheFirstUserAnOperator(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	next(t, user.IRCClient, "the gateway", func(m bridgetest.IRCMessage) bool { return m.Command == "JOIN" && m.Nick == "Baton-gw" })
	if err := user.Send(nil, "NAMES", channel); err != nil {
		t.Fatal(err)
	}
	next(t, user.IRCClient, "the operator", func(m bridgetest.IRCMessage) bool {
		return m.Command == "353" && strings.Contains(" "+m.Params[len(m.Params)-1]+" ", " @"+user.Nick+" ") && strings.Contains(m.Params[len(m.Params)-1], "-gw")
	})
}

func TestFreeqRealServerUsersGetWorkDoneByAnHTTPAgent(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	agent := logIn(t, m.url())
	agent.must(t, http.StatusOK, http.MethodPut, "agents/"+string(agent.did), map[string]any{"caps": []string{skill}}, nil)
	directed, err := user.Offer(channel, agent.did, title)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the offer to the agent", func() bool { return len(agent.reads(t, "")) > 0 })
	var refused struct{ Code string }
	agent.must(t, http.StatusUnauthorized, http.MethodPost, "handoffs/"+directed.String()+"/accept", nil, &refused)
	if refused.Code != "need-signature" {
		t.Errorf("the accept is refused with %q", refused.Code)
	}
	open, err := user.say(channel, actTags.offer(user.person, channel, extras{"title": title, "caps": skill}))
	if err != nil {
		t.Fatal(err)
	}
	m.all(t, open, federation.Open)
	await(t, "the gateway to know it", func() bool { return m.command(t, "handoff", "show", open.String()).Run() == nil })
	for _, step := range []struct {
		verb  string
		state federation.State
	}{{"claim", federation.Assigned}, {"progress", federation.Assigned}, {"complete", federation.Completed}} {
		response, err := http.DefaultClient.Do(agent.request(t, http.MethodPost, "handoffs/"+open.String()+"/"+step.verb, map[string]any{"note": "by hand"}))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusAccepted { // or its home has not ruled yet
			t.Fatalf("%s is answered %d", step.verb, response.StatusCode)
		}
		m.all(t, open, step.state)
	}
	m.once(t, open, "offer", "claim", "progress", "complete")
	m.once(t, directed, "offer") // no client has seen the refused step
}

func TestFreeqRealServerPlainClientAnswersAPrivateOffer(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	p := newPerson(t)
	plain, err := bridgetest.LogInIRC(patient(t), user.home.IRC, "plain", func(challenge string) (string, error) { return proves(t, p, challenge), nil }, "sasl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	if err := plain.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	if out, err := m.command(t, "bind", "add", "fq0", p.did, p.did, "--vouch").CombinedOutput(); err != nil {
		t.Fatalf("bind: %v %s", err, out)
	}
	agent := logIn(t, m.url())
	id := agent.offer(t, map[string]any{"title": title, "to": p.did})
	line := next(t, plain, "the private line", func(m bridgetest.IRCMessage) bool {
		return m.Command == "PRIVMSG" && strings.Contains(m.Params[1], "accept")
	})
	if line.Params[0] != "plain" {
		t.Errorf("the line is for %q", line.Params[0])
	}
	_, command, _ := strings.Cut(line.Params[1], "/msg ")
	baton, command, _ := strings.Cut(command, " ")
	command, _, _ = strings.Cut(command, " or ")
	if err := plain.Send(nil, "PRIVMSG", baton, command); err != nil {
		t.Fatal(err)
	}
	await(t, "the accept to arrive", func() bool {
		for _, a := range agent.reads(t, "") {
			if a.Step.Verb == "accept" {
				return true
			}
		}
		return false
	})
	var shown struct{ State string }
	if m.asks(t, &shown, "handoff", "show", id); shown.State != "assigned" {
		t.Errorf("it is %q", shown.State)
	}
}

// The log of the server is read to its end, although the rate of the link is lower.
func TestFreeqRealServerLogIsReadAfterAnOutage(t *testing.T) {
	m, user := newRealPair(t, "[limits]\nlink_events_per_second = 50\n")
	if m == nil {
		return
	}
	m.stop(t)
	const sessions, each = 8, 30
	offered := make(chan federation.HandoffID, sessions*each)
	var running sync.WaitGroup
	for n := range sessions {
		other := logInto(t, user.home, fmt.Sprintf("other%d", n), newPerson(t))
		running.Go(func() {
			for range each {
				id, err := other.Offer(channel, "", title)
				if err != nil {
					t.Error(err)
					return
				}
				offered <- id
			}
		})
	}
	running.Wait()
	close(offered)
	m.start(t)
	m.ready(t)
	var page struct{ Items []struct{ ID string } }
	await(t, "all offers to be on record", func() bool {
		m.asks(t, &page, "handoff", "list", "--limit", "500")
		return len(page.Items) >= sessions*each
	})
	known := map[string]bool{}
	for _, item := range page.Items {
		known[item.ID] = true
	}
	for id := range offered {
		if !known[id.String()] {
			t.Errorf("%s is not on record", id)
		}
	}
}

func TestFreeqRealServerConversation(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	agent := logIn(t, m.url())
	await(t, "the gateway to know the user", func() bool {
		response, err := http.DefaultClient.Do(agent.request(t, http.MethodPost, "messages", map[string]any{"to": user.Nick + "@fq0", "text": "which of them?"}))
		if err != nil {
			t.Fatal(err)
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusCreated
	})
	line := clientReads(t, user.IRCClient, "which of them?")
	if err := user.Send(nil, "PRIVMSG", nickOf(line), "the second one"); err != nil {
		t.Fatal(err)
	}
	if from := agent.hears(t, "the second one")["from"]; from != user.did {
		t.Errorf("the answer is from %v, want %s", from, user.did)
	}
	if err := user.Send(nil, "PRIVMSG", "Baton-gw", "say "+string(agent.did)+" a third one"); err != nil {
		t.Fatal(err)
	}
	agent.hears(t, "a third one")
}

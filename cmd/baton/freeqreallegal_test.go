//go:build interop && long

package main_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// quitGrace is how long a server keeps a departed user before it notifies its peers.
//
// spec: freeq-s2s "Must send or handle", quit
const quitGrace = 32 * time.Second

// shows logs the view of a handoff in the web API of a real server.
func (u *realUser) shows(t *testing.T, when string, id federation.HandoffID) {
	t.Helper()
	_, body := u.home.Get(t.Context(), "/api/v1/actions/"+id.String(), u.bearer)
	a := readAction(body)
	var steps []string
	for _, e := range a.Events {
		confirmed := "receipt"
		if e.Confirmed != nil {
			confirmed = *e.Confirmed
		}
		steps = append(steps, e.document()["act-verb"]+" "+confirmed)
	}
	t.Logf("%s: /api/v1/actions/%s: state %q, events %q", when, id, a.state(), steps)
}

func TestFreeqRealServerAcceptsAHandoffBetweenHTTPAgents(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	from, to := logIn(t, m.url()), logIn(t, m.url())
	if out, err := m.command(t, "bind", "add", "fq0", string(from.did), string(from.did)).CombinedOutput(); err != nil {
		t.Fatalf("bind: %v %s", err, out)
	}
	text := from.offer(t, map[string]any{"to": to.did, "title": title, "channel": channel})
	id, err := federation.ParseEventID(text)
	if err != nil {
		t.Fatal(err)
	}
	m.all(t, id, federation.Offered)
	user.shows(t, "offered", id)
	to.step(t, text, "accept", nil)
	m.all(t, id, federation.Assigned)
	user.shows(t, "accepted", id)
	to.step(t, text, "progress", nil)
	to.step(t, text, "complete", nil)
	m.all(t, id, federation.Completed)
	user.shows(t, "completed", id)
	m.once(t, id, "offer", "accept", "progress", "complete")
	text = from.offer(t, map[string]any{"to": to.did, "title": title, "channel": channel})
	if id, err = federation.ParseEventID(text); err != nil {
		t.Fatal(err)
	}
	to.step(t, text, "decline", nil)
	m.all(t, id, federation.Declined)
	user.shows(t, "declined", id)
}

// A user absent during a private offer sees the offer and its line after
// returning.
func TestFreeqRealServerPrivateOfferWaitsForItsUser(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	p := newPerson(t)
	agent := logIn(t, m.url())
	away := logInto(t, user.home, "away", p)
	await(t, "the gateway to know the user", func() bool {
		response, err := http.DefaultClient.Do(agent.request(t, http.MethodPost, "messages", map[string]any{"to": "away@fq0", "text": "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusCreated
	})
	clientReads(t, away.IRCClient, "hello")
	run := func(args ...string) {
		t.Helper()
		if out, err := m.command(t, args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", args, err, out)
		}
	}
	run("feed", "hold", "fq0", "--reason", "test")
	text := agent.offer(t, map[string]any{"to": p.did, "title": title})
	agent.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": p.did, "text": "are you there?"}, nil)
	away.Close()
	time.Sleep(quitGrace)
	run("feed", "release", "fq0")
	await(t, "the delivery to wait", func() bool {
		out, _ := m.command(t, "handoff", "show", text).CombinedOutput()
		return strings.Contains(string(out), "is not logged in there")
	})
	out, _ := m.command(t, "handoff", "show", text).CombinedOutput()
	t.Logf("while away: %s", out)
	back := logInto(t, user.home, "away", p)
	clientReads(t, back.IRCClient, title)
	clientReads(t, back.IRCClient, "are you there?")
	next(t, back.IRCClient, "the offer in tags", func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags[vendor+"act-verb"] == "offer"
	})
	id, err := federation.ParseEventID(text)
	if err != nil {
		t.Fatal(err)
	}
	back.shows(t, "back", id)
}

// A killed server is noticed while a step waits for its proof.
func TestFreeqRealServerDeathIsNoticed(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	agent := logIn(t, m.url())
	if out, err := m.command(t, "bind", "add", "fq0", string(agent.did), string(agent.did)).CombinedOutput(); err != nil {
		t.Fatalf("bind: %v %s", err, out)
	}
	user.home.Stop()
	text := agent.offer(t, map[string]any{"title": title, "channel": channel})
	start := time.Now()
	await(t, "the link to be down", func() bool {
		out, _ := m.command(t, "link", "list").CombinedOutput()
		return !strings.Contains(string(out), " up ")
	})
	t.Logf("noticed after %s", time.Since(start).Round(time.Millisecond))
	if err := user.home.Start(patient(t)); err != nil {
		t.Fatal(err)
	}
	await(t, "the offer to be there", func() bool {
		status, _ := user.home.Get(t.Context(), "/api/v1/verify/"+text, "")
		return status == http.StatusOK
	})
	t.Logf("delivered after %s", time.Since(start).Round(time.Millisecond))
}

// A user offers to the DID shown by the server for an agent, which is the kept key of the agent.
func TestFreeqRealServerUserOffersToAKeptDID(t *testing.T) {
	m, user := newRealPair(t)
	if m == nil {
		return
	}
	agent := logIn(t, m.url())
	first, err := federation.ParseEventID(agent.offer(t, map[string]any{"to": user.did, "title": "the first offer"}))
	if err != nil {
		t.Fatal(err)
	}
	m.all(t, first, federation.Offered)
	_, body := user.home.Get(t.Context(), "/api/v1/actions/"+first.String(), user.bearer)
	kept := federation.DID(readAction(body).Events[0].document()["from"])
	if kept == "" || kept == agent.did {
		t.Fatalf("the server shows %q, want a kept key", kept)
	}
	id, err := user.Offer(channel, kept, title)
	if err != nil {
		t.Fatal(err)
	}
	agent.received(t, title)
	for _, step := range []struct {
		verb  string
		state federation.State
	}{{"accept", federation.Assigned}, {"complete", federation.Completed}} {
		agent.must(t, http.StatusAccepted, http.MethodPost, "handoffs/"+id.String()+"/"+step.verb, nil, nil)
		m.all(t, id, step.state)
		user.shows(t, step.verb, id)
	}
	m.once(t, id, "offer", "accept", "complete")
}

// Two servers are peers of each other, and are started again without their peering while the gateway
// is linked to both.
func TestFreeqRealServersGetEachStepAfterASplit(t *testing.T) {
	m := newRealMesh(t, "aa")
	if m == nil {
		return
	}
	carry := func() {
		t.Helper()
		for _, target := range []string{channel, string(m.users[1].did)} {
			id, err := m.users[0].Offer(target, m.users[1].did, title)
			if err != nil {
				t.Fatal(err)
			}
			m.all(t, id, federation.Offered)
			if target != channel {
				target = string(m.users[0].did)
			}
			m.works(t, id, federation.Accept, m.users[1], target)
		}
	}
	carry()
	var servers []*bridgetest.FreeqServer
	for _, each := range m.servers {
		user, _ := each.(*realUser)
		user.Close()
		user.home.Stop()
		servers = append(servers, user.home)
	}
	bridgetest.PartServers(servers...)
	for i, server := range servers {
		if err := server.Start(patient(t)); err != nil {
			t.Fatal(err)
		}
		was, _ := m.servers[i].(*realUser)
		user := logInto(t, server, was.Nick, was.person)
		m.servers[i], m.users[i].stepTaker = user, user
	}
	agent := logIn(t, m.url())
	for i, user := range m.users { // pending deliveries let the gateway notice the restarts
		agent.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": user.did, "text": "are you there?"}, nil)
		back, _ := m.servers[i].(*realUser)
		clientReads(t, back.IRCClient, "are you there?")
	}
	carry()
	m.noPhantoms(t, "ab")
}

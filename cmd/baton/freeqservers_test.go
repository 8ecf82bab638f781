//go:build interop

package main_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

type meshServer interface {
	// AwaitState blocks until a handoff is in a state there.
	AwaitState(ctx context.Context, id federation.HandoffID, state federation.State) error
	// Verbs returns the steps of a handoff that the users there were shown, but for receipts.
	Verbs(id federation.HandoffID) []string
	// Speakers returns the nicks under which the gateway spoke there.
	Speakers() []string
}

// meshUser is a user of a server of a mesh.
type meshUser struct {
	did federation.DID
	stepTaker
}

// stepTaker takes steps as a user of a freeq server.
type stepTaker interface {
	Offer(target string, to federation.DID, title string) (federation.HandoffID, error)
	Step(target string, id federation.HandoffID, verb federation.Verb, note string) (federation.EventID, error)
}

type fakeServer struct{ *bridgetest.Freeq }

func (f fakeServer) Verbs(id federation.HandoffID) (verbs []string) {
	for _, s := range f.Shown(id.String()) {
		verbs = append(verbs, s.Verb)
	}
	return verbs
}

func (f fakeServer) Speakers() (nicks []string) {
	for _, said := range f.Said() {
		from, _ := said["from"].(string)
		nicks = append(nicks, from)
	}
	return nicks
}

// freeqMesh is a gateway linked to several freeq servers, with one user on each and
// an agent.
type freeqMesh struct {
	*house
	servers []meshServer
	users   []meshUser
	finn    *mailbox
}

// newFreeqMesh starts as many servers as a topology has letters. Servers with the same letter are peers of
// each other, whose messages take a while.
func newFreeqMesh(t *testing.T, topology string, lag time.Duration) *freeqMesh {
	t.Helper()
	m := &freeqMesh{house: newHouse(t)}
	var tables []string
	var servers []*bridgetest.Freeq
	peers := map[rune][]*bridgetest.Freeq{}
	for i, group := range topology {
		server, table := newFreeq(t, m.house, fmt.Sprintf("fq%d", i), channel)
		if i > 0 {
			table, _, _ = strings.Cut(table, "[fetch]") // which the first one has
		}
		servers = append(servers, server)
		tables = append([]string{table}, tables...)
		peers[group] = append(peers[group], server)
	}
	for _, group := range peers {
		bridgetest.Mesh(lag, group...)
	}
	m.configure(t, tables...)
	m.start(t)
	m.ready(t)
	for i, server := range servers {
		if err := server.AwaitLink(patient(t)); err != nil {
			t.Fatal(err)
		}
		key := seeded(fmt.Sprintf("user %d", i))
		user := server.Join(fmt.Sprintf("user%d", i), didOf(key), key)
		m.servers = append(m.servers, fakeServer{server})
		m.users = append(m.users, meshUser{did: user.DID, stepTaker: user})
	}
	m.befriend(t)
	return m
}

// befriend has the agent consent to messages of each user.
func (m *freeqMesh) befriend(t *testing.T) {
	t.Helper()
	m.finn = (&world{house: m.house}).hire(t, "finn", skill)
	for _, user := range m.users {
		first, err := user.Offer(channel, federation.DID(m.finn.DID), "say hello")
		if err != nil {
			t.Fatal(err)
		}
		m.finn.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
		consent(t, m.finn.Agent, handleOf(string(user.did)))
		m.finn.next(t, "the first offer", isAbout("offer", first.String()))
	}
}

// all waits until a handoff is in a state on each server.
func (m *freeqMesh) all(t *testing.T, id federation.HandoffID, state federation.State) {
	t.Helper()
	for i, server := range m.servers {
		if err := server.AwaitState(patient(t), id, state); err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
	}
}

// once holds each server to have shown each step of a handoff once.
func (m *freeqMesh) once(t *testing.T, id federation.HandoffID, verbs ...string) {
	t.Helper()
	slices.Sort(verbs)
	for i, server := range m.servers {
		shown := server.Verbs(id)
		for late := time.After(patience); len(shown) < len(verbs); shown = server.Verbs(id) {
			select {
			case <-late:
				t.Fatalf("server %d shows %q, want %q", i, shown, verbs)
			case <-time.After(lookEach):
			}
		}
		slices.Sort(shown)
		if diff := cmp.Diff(verbs, shown); diff != "" {
			t.Errorf("server %d shows (-want +got):\n%s", i, diff)
		}
	}
}

// noPhantoms holds the gateway to have no user on a server that stands for a user of one of
// the server's peers.
func (m *freeqMesh) noPhantoms(t *testing.T, topology string) {
	t.Helper()
	for i, server := range m.servers {
		for _, nick := range server.Speakers() {
			for j := range m.users {
				if topology[i] == topology[j] && strings.HasPrefix(nick, fmt.Sprintf("user%d-", j)) {
					t.Errorf("server %d has %s of its peer %d", i, nick, j)
				}
			}
		}
	}
}

// works carries a handoff from its offer to its end, each server following.
func (m *freeqMesh) works(t *testing.T, id federation.HandoffID, takes federation.Verb, worker meshUser, target string) {
	t.Helper()
	for _, step := range []struct {
		verb  federation.Verb
		state federation.State
	}{{takes, federation.Assigned}, {federation.Progress, federation.Assigned}, {federation.Complete, federation.Completed}} {
		if _, err := worker.Step(target, id, step.verb, "by hand"); err != nil {
			t.Fatal(err)
		}
		m.all(t, id, step.state)
	}
	m.once(t, id, "offer", string(takes), "progress", "complete")
}

// Servers with the same letter are peers.
func TestFreeqServersGetEachStepOnce(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"a", "ab", "aa", "abc", "aab", "aaa"} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			newFreeqMesh(t, topology, 0).play(t, topology)
		})
	}
}

// Servers fetch the key of a signer from each other before they file a step. The gateway does not
// take them for servers without peers meanwhile.
func TestFreeqServersWithSlowPeeringGetEachStepOnce(t *testing.T) {
	t.Parallel()
	m := newFreeqMesh(t, "aa", 2*time.Second)
	id, err := m.users[0].Offer(channel, "", title)
	if err != nil {
		t.Fatal(err)
	}
	m.all(t, id, federation.Open)
	m.works(t, id, federation.Claim, m.users[1], channel)
	m.noPhantoms(t, "aa")
}

// play carries handoffs between all users of the mesh, and the agent.
func (m *freeqMesh) play(t *testing.T, topology string) {
	t.Helper()
	for i, offerer := range m.users {
		for j, worker := range m.users {
			if i == j && len(m.users) > 1 {
				continue
			}
			t.Run(fmt.Sprintf("user %d offers to anyone, user %d claims", i, j), func(t *testing.T) {
				id, err := offerer.Offer(channel, "", title)
				if err != nil {
					t.Fatal(err)
				}
				m.all(t, id, federation.Open)
				m.works(t, id, federation.Claim, worker, channel)
			})
			t.Run(fmt.Sprintf("user %d offers to user %d", i, j), func(t *testing.T) {
				id, err := offerer.Offer(channel, worker.did, title)
				if err != nil {
					t.Fatal(err)
				}
				m.all(t, id, federation.Offered)
				m.works(t, id, federation.Accept, worker, channel)
			})
		}
		for j, worker := range m.users {
			if i == j {
				continue
			}
			t.Run(fmt.Sprintf("user %d offers to user %d in private", i, j), func(t *testing.T) {
				id, err := offerer.Offer(string(worker.did), worker.did, title)
				if err != nil {
					t.Fatal(err)
				}
				pair := *m
				pair.servers = []meshServer{m.servers[i], m.servers[j]}
				pair.all(t, id, federation.Offered)
				pair.works(t, id, federation.Accept, worker, string(offerer.did))
				for k, server := range m.servers {
					if verbs := server.Verbs(id); k != i && k != j && len(verbs) > 0 {
						t.Errorf("user %d is shown %q of others", k, verbs)
					}
				}
			})
		}
		t.Run(fmt.Sprintf("user %d offers to anyone, the agent claims", i), func(t *testing.T) { m.agentClaims(t, offerer) })
	}
	m.noPhantoms(t, topology)
}

// agentClaims makes the agent claim and do a user's offer to anyone.
func (m *freeqMesh) agentClaims(t *testing.T, offerer meshUser) {
	t.Helper()
	id, err := offerer.Offer(channel, "", title)
	if err != nil {
		t.Fatal(err)
	}
	m.all(t, id, federation.Open)
	await(t, "the gateway to know it", func() bool { return m.command(t, "handoff", "show", id.String()).Run() == nil })
	for _, step := range []struct {
		verb  string
		state federation.State
	}{{"claim", federation.Assigned}, {"progress", federation.Assigned}, {"complete", federation.Completed}} {
		if got, _ := printError(t, m.finn, handleOf(string(offerer.did)), answerPayload(step.verb, id.String())); got.Handoff.ID != id.String() {
			t.Fatalf("%s is answered %+v", step.verb, got)
		}
		m.all(t, id, step.state)
	}
	m.once(t, id, "offer", "claim", "progress", "complete")
}

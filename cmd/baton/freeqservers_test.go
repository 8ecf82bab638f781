//go:build interop

package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/bridge/bridgetest"
	"baton/federation"
)

// freeqMesh is a gateway that is linked to several freeq servers, with one user on each and
// an agent.
type freeqMesh struct {
	*house
	servers []*bridgetest.Freeq
	users   []*bridgetest.FreeqUser
	finn    *mailbox
}

// newFreeqMesh starts as many servers as a topology has letters. Servers with the same letter are peers of
// each other.
func newFreeqMesh(t *testing.T, topology string) *freeqMesh {
	t.Helper()
	m := &freeqMesh{house: newHouse(t)}
	var tables []string
	peers := map[rune][]*bridgetest.Freeq{}
	for i, group := range topology {
		server, table := newFreeq(t, m.house, fmt.Sprintf("fq%d", i), channel)
		if i > 0 {
			table, _, _ = strings.Cut(table, "[fetch]") // which the first one has
		}
		m.servers = append(m.servers, server)
		tables = append([]string{table}, tables...)
		peers[group] = append(peers[group], server)
	}
	for _, group := range peers {
		bridgetest.Mesh(group...)
	}
	m.configure(t, tables...)
	m.start(t)
	m.ready(t)
	for i, server := range m.servers {
		if err := server.AwaitLink(patient(t)); err != nil {
			t.Fatal(err)
		}
		key := seeded(fmt.Sprintf("user %d", i))
		m.users = append(m.users, server.Join(fmt.Sprintf("user%d", i), didOf(key), key))
	}
	m.finn = (&world{house: m.house}).hire(t, "finn", skill)
	for _, user := range m.users {
		first, err := user.Offer(channel, federation.DID(m.finn.DID), "say hello")
		if err != nil {
			t.Fatal(err)
		}
		m.finn.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
		consent(t, m.finn.Agent, handleOf(string(user.DID)))
		m.finn.next(t, "the first offer", isAbout("offer", first.String()))
	}
	return m
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
		var shown []string
		for _, s := range server.Shown(id.String()) {
			shown = append(shown, s.Verb)
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
		for _, said := range server.Said() {
			from, _ := said["from"].(string)
			for j := range m.users {
				if topology[i] == topology[j] && strings.HasPrefix(from, fmt.Sprintf("user%d", j)) {
					t.Errorf("server %d has %s of its peer %d: %v", i, from, j, said["type"])
				}
			}
		}
	}
}

// works carries a handoff from its offer to its end, each server following.
func (m *freeqMesh) works(t *testing.T, id federation.HandoffID, takes federation.Verb, worker *bridgetest.FreeqUser, target string) {
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
func TestEachFreeqServerGetsEachStepOnce(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"a", "ab", "aa", "abc", "aab", "aaa"} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			m := newFreeqMesh(t, topology)
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
						id, err := offerer.Offer(channel, worker.DID, title)
						if err != nil {
							t.Fatal(err)
						}
						m.all(t, id, federation.Offered)
						m.works(t, id, federation.Accept, worker, channel)
					})
				}
				t.Run(fmt.Sprintf("user %d offers to anyone, the agent claims", i), func(t *testing.T) {
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
						if got, _ := tell(t, m.finn, handleOf(string(offerer.DID)), answerPayload(step.verb, id.String())); got.Handoff.ID != id.String() {
							t.Fatalf("%s is answered %+v", step.verb, got)
						}
						m.all(t, id, step.state)
					}
					m.once(t, id, "offer", "claim", "progress", "complete")
				})
			}
			m.noPhantoms(t, topology)
		})
	}
}

//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// farHomes is two homes: one with people on IRC, and one with an agent of REST.
type farHomes struct {
	people *talkative // at a.test, with only the listener for clients
	a, b   neighbour
	agent  *caller // at b.test
}

// newFarHomes starts both, which reach each other over HTTPS, or only by a hub.
func newFarHomes(t *testing.T, byHub bool) *farHomes {
	t.Helper()
	all := newNeighbours(t, "a.test", "b.test")
	f := &farHomes{a: all[0], b: all[1]}
	f.people = &talkative{homeServer: &homeServer{house: f.a.house, irc: federationtest.FreeAddr(t)}}
	listener := fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n", f.people.irc, channel)
	if byHub {
		hub := accountsHub(t, all)
		f.a.behindNAT(t, all, "", hub, listener)
		f.b.behindNAT(t, all, "", hub)
	} else {
		f.a.settle(t, all, listener)
	}
	f.a.start(t)
	f.b.start(t)
	f.people.ready(t)
	f.agent = logIn(t, f.b.url())
	return f
}

// askBaton writes to a DID by the gateway's own user, and waits for its answer.
func askBaton(t *testing.T, c *bridgetest.IRCClient, command, answer string) {
	t.Helper()
	if err := c.Send(nil, "PRIVMSG", "Baton", command); err != nil {
		t.Fatal(err)
	}
	_, err := c.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.Contains(m.Params[1], answer)
	})
	if err != nil {
		t.Fatalf("%s is not answered with %s: %v", command, answer, err)
	}
}

// texts returns the messages in the inbox of the agent, and their author.
func (f *farHomes) texts(t *testing.T) (texts []string, from string) {
	t.Helper()
	var page struct {
		Items []struct{ Message struct{ Text, From string } }
	}
	f.agent.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &page)
	for _, e := range page.Items {
		texts, from = append(texts, e.Message.Text), e.Message.From
	}
	return texts, from
}

// reads waits until the agent has some messages, and compares all that it has.
func (f *farHomes) reads(t *testing.T, want ...string) {
	t.Helper()
	await(t, "the agent to read "+want[len(want)-1], func() bool {
		got, _ := f.texts(t)
		return slices.Contains(got, want[len(want)-1])
	})
	got, _ := f.texts(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the agent reads (-want +got):\n%s", diff)
	}
}

// waiting returns how many deliveries a home has for the other one.
func waiting(t *testing.T, n neighbour, peer string) float64 {
	t.Helper()
	return n.counters(t)[fmt.Sprintf(`baton_feed_rows{link=%q,network="home"}`, peer)]
}

func TestFarHomeConversationSurvivesKills(t *testing.T) {
	t.Parallel()
	for name, byHub := range map[string]bool{"https": false, "hub": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newFarHomes(t, byHub).converse(t)
		})
	}
}

func (f *farHomes) converse(t *testing.T) {
	t.Helper()
	zoe := f.people.guest(t, "zoe")
	askBaton(t, zoe, "say "+string(f.agent.did)+" hello agent", "on its way") // whose home a.test has to find
	f.reads(t, "hello agent")
	_, author := f.texts(t)
	f.agent.must(t, http.StatusAccepted, http.MethodPost, "messages", map[string]any{"to": author, "text": "hello zoe"}, nil)
	agent := nickOf(clientReads(t, zoe, "hello zoe"))

	// The home of the agent is killed while zoe writes, and then that of zoe.
	f.b.kill(t)
	want := []string{"hello agent"}
	for n := range 3 {
		line := fmt.Sprintf("line %d", n)
		if err := zoe.Send(nil, "PRIVMSG", agent, line); err != nil {
			t.Fatal(err)
		}
		want = append(want, line)
		await(t, line+" on disk", func() bool { return waiting(t, f.a, "b.test") == float64(n+1) })
	}
	f.a.kill(t)
	f.a.start(t)
	f.b.start(t)
	f.reads(t, want...)
	await(t, "the receipt", func() bool { return waiting(t, f.a, "b.test") == 0 })

	// The same in the other direction.
	f.a.kill(t)
	for n := range 3 {
		f.agent.must(t, http.StatusAccepted, http.MethodPost, "messages", map[string]any{"to": author, "text": fmt.Sprintf("answer %d", n)}, nil)
	}
	f.b.kill(t)
	f.b.start(t)
	f.a.start(t)
	f.people.ready(t)
	zoe = f.people.guest(t, "zoe")
	for n := range 3 {
		clientReads(t, zoe, fmt.Sprintf("answer %d", n))
	}

	f.conversesWithTheRegistry(t, zoe)

	// The home of the recipient judges consent, and the sender is told.
	f.agent.must(t, http.StatusOK, http.MethodPut, "contacts/"+url.PathEscape(author), map[string]any{"state": "blocked"}, nil)
	if err := zoe.Send(nil, "PRIVMSG", agent, "once more"); err != nil {
		t.Fatal(err)
	}
	told, err := zoe.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.Contains(m.Params[1], "UNDELIVERABLE")
	})
	if err != nil || !strings.Contains(told.Params[1], "does not accept messages from you") {
		t.Errorf("zoe is told %q, %v", told.Params, err)
	}
	f.reads(t, want...)
}

// conversesWithTheRegistry makes zoe ask an agent of the registry of the other home, which holds
// messages of strangers until the agent accepts them.
func (f *farHomes) conversesWithTheRegistry(t *testing.T, zoe *bridgetest.IRCClient) {
	t.Helper()
	b := &talkative{homeServer: &homeServer{house: f.b.house}, seen: map[string]bool{}}
	b.scout = (&world{house: f.b.house}).register(t, "scout_7")
	askBaton(t, zoe, "say "+b.scout.DID+" may I ask?", "on its way")
	asker := b.asker(t, "may I ask?")
	if status, answer, err := b.scout.Consent(t.Context(), asker, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("accept: %d %v %v", status, answer, err)
	}
	b.scoutReads(t, "may I ask?")
	b.send(t, asker, "you may", http.StatusAccepted)
	scout := nickOf(clientReads(t, zoe, "you may"))
	if err := zoe.Send(nil, "PRIVMSG", scout, "why is that?"); err != nil {
		t.Fatal(err)
	}
	b.scoutReads(t, "why is that?")
}

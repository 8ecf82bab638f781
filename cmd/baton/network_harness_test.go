//go:build interop

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// channel is the channel of the tests.
const channel = "#ops"

// network is one InspIRCd that the gateway links to.
type network struct {
	*bridgetest.InspIRCd
	name  string // of the link
	table string // of the gateway's configuration
}

// newNetwork starts an InspIRCd that lets the gateway of a house link to it.
func newNetwork(t *testing.T, h *house, name, sid string) *network {
	t.Helper()
	return newNetworkOf(t, h, "", name, sid)
}

// newNetworkOf is newNetwork with the binary of an InspIRCd 4; "" is that of Debian's InspIRCd 3.
func newNetworkOf(t *testing.T, h *house, binary, name, sid string) *network {
	t.Helper()
	dir := filepath.Join(h.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	send, recv := "planted-send-"+name, "planted-recv-"+name
	h.keep(t, name+".send", send)
	h.keep(t, name+".recv", recv)
	server := name + ".irc.test"
	ircd, err := bridgetest.StartInspIRCd(t.Context(), dir, bridgetest.InspIRCdConfig{
		Binary: binary, Name: server, SID: sid, LinkName: "gw.test", SendPassword: recv, RecvPassword: send, Services: servicesName,
		Modules: []string{"joinflood"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ircd.Stop)
	return &network{InspIRCd: ircd, name: name, table: linkTable(name, server, ircd.LinkAddr)}
}

// linkTable returns the table of a link that dials an address.
func linkTable(name, server, address string) string {
	return fmt.Sprintf(`[[irc.spanningtree]]
name = %q
server_name = %q
address = %q
sid = "9GW"
send_password_file = %q
recv_password_file = %q
channels = [%q]
`, name, server, address, name+".send", name+".recv", channel)
}

// join connects a client and brings it into the channel.
func (n *network) join(t *testing.T, nick string, caps ...string) *bridgetest.IRCClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := bridgetest.DialIRC(ctx, n.ClientAddr, nick, caps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.Join(ctx, channel); err != nil {
		t.Fatal(err)
	}
	return client
}

// world is a gateway between a network with two people and an agent.
type world struct {
	*house
	net   *network
	alice *bridgetest.IRCClient // negotiated message-tags
	bob   *bridgetest.IRCClient // negotiated nothing
	key   person                // of alice
	scout *bridgetest.Agent     // asleep
}

// newWorld starts all of it.
func newWorld(t *testing.T) *world {
	t.Helper()
	h := newHouse(t)
	w := &world{house: h, net: newNetwork(t, h, "lab", "1LA"), key: newPerson(t)}
	w.populate(t)
	return w
}

// newWiredWorld starts all of it, with a wire between gateway and network.
func newWiredWorld(t *testing.T) (*world, *cable) {
	t.Helper()
	h := newHouse(t)
	w := &world{house: h, net: newNetwork(t, h, "lab", "1LA"), key: newPerson(t)}
	cable := newWire(t, w.net.LinkAddr)
	w.net.table = linkTable("lab", "lab.irc.test", cable.addr)
	w.populate(t)
	return w, cable
}

// populate starts the gateway, and brings everybody in.
func (w *world) populate(t *testing.T) {
	t.Helper()
	w.configure(t, w.net.table)
	w.start(t)
	w.ready(t)
	w.alice = w.net.join(t, "alice", "message-tags")
	w.bob = w.net.join(t, "bob")
	w.scout = w.register(t, "scout_7")
}

func (w *world) register(t *testing.T, handle string) *bridgetest.Agent {
	t.Helper()
	agent := bridgetest.NewAgent(w.url(), handle, newPerson(t).key.Seed())
	if err := agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.secrets = append(w.secrets, agent.Token)
	return agent
}

// send writes a step into the channel.
func send(t *testing.T, client *bridgetest.IRCClient, tags map[string]string) {
	t.Helper()
	if err := client.Send(tags, "TAGMSG", channel); err != nil {
		t.Fatal(err)
	}
}

// next waits for a message to a client.
func next(t *testing.T, client *bridgetest.IRCClient, what string, match func(bridgetest.IRCMessage) bool) bridgetest.IRCMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := client.Next(ctx, match)
	if err != nil {
		t.Fatalf("%s: %v; %s has %q", what, err, client.Nick, client.Received())
	}
	return m
}

// nextStep waits for a TAGMSG about a handoff.
func nextStep(t *testing.T, client *bridgetest.IRCClient, verb, id string) bridgetest.IRCMessage {
	t.Helper()
	return next(t, client, verb, func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags[vendor+"handoff"] == verb && m.Tags[vendor+"handoff-id"] == id
	})
}

// isLine matches the line that people read about a handoff.
func isLine(id, words string) func(bridgetest.IRCMessage) bool {
	text := regexp.MustCompile(`^\[handoff …` + id[len(id)-6:] + `\] ` + words)
	return func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Params[0] == channel && text.MatchString(m.Params[1])
	}
}

// lines returns the NOTICEs of the channel that a client has not taken.
func lines(client *bridgetest.IRCClient) []string {
	var texts []string
	for _, m := range client.Received() {
		if m.Command == "NOTICE" && m.Params[0] == channel {
			texts = append(texts, m.Nick+": "+m.Params[1])
		}
	}
	return texts
}

// message is an entry of an agent's inbox.
type message struct {
	ID, From, To, Body string
	Seq                int
	Payload            struct {
		Type string
		Data json.RawMessage
	}
	raw json.RawMessage
}

// inbox returns the entries after a cursor, and the cursor after them.
func inbox(t *testing.T, agent *bridgetest.Agent, cursor string) ([]message, string) {
	t.Helper()
	raws, after, err := agent.Inbox(t.Context(), cursor)
	if err != nil {
		t.Fatal(err)
	}
	var messages []message
	for _, raw := range raws {
		m := message{raw: raw}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	return messages, after
}

// awaitInbox polls until there is something after a cursor.
func awaitInbox(t *testing.T, agent *bridgetest.Agent, cursor string) (messages []message, after string) {
	t.Helper()
	await(t, "a message to "+agent.Handle, func() bool {
		messages, after = inbox(t, agent, cursor)
		return len(messages) > 0
	})
	return messages, after
}

// filed is the registry's answer about a step in a message.
type filed struct {
	Status  int `json:"-"` // of HTTP
	Error   string
	Message string
	Handoff struct {
		ID, Event, State string
		EventID          string `json:"event_id"`
		Lost             []string
	}
}

// post sends a message as an agent and returns the registry's answer.
func post(t *testing.T, agent *bridgetest.Agent, text []byte) filed {
	t.Helper()
	status, body, err := agent.Do(t.Context(), http.MethodPost, "/messages", text)
	if err != nil {
		t.Fatal(err)
	}
	answer := filed{Status: status}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return answer
}

// write returns a signed message.
func write(t *testing.T, agent *bridgetest.Agent, envelope map[string]any) []byte {
	t.Helper()
	text, err := agent.Sign(envelope)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func payload(kind string, data map[string]any) map[string]any {
	return map[string]any{"type": kind, "data": data}
}

func consent(t *testing.T, agent *bridgetest.Agent, handle string) {
	t.Helper()
	status, answer, err := agent.Consent(t.Context(), handle, "accept")
	if err != nil || status != http.StatusOK || answer["state"] != "accepted" {
		t.Fatalf("consent: %d %v %v", status, answer, err)
	}
}

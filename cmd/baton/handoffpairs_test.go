//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// A worker is a participant of one network, with how it takes part in a handoff there.
type worker struct {
	network string
	did     federation.DID
	address string // under which people of other networks offer it work

	offers func(t *testing.T, to worker, title string) (id string)
	// reads waits until the network tells of a step, and returns how the worker names the handoff.
	reads func(t *testing.T, s stepLine) (id string)
	takes func(t *testing.T, id, verb, note string)
}

// A stepLine is a step as a party reads it.
type stepLine struct{ verb, title, note string }

// clauses are the words for a step in a line for people.
var clauses = map[string]string{
	"offer": `\S+ offers \S+`, "accept": `\S+ accepts`, "progress": `\S+ reports progress`, "complete": `\S+ completes`,
	"decline": `\S+ declines`, "fail": `\S+ fails`, "cancel": `\S+ cancels`,
}

// line matches the private line about a step. A line about an offer ends with
// the command to type.
func (s stepLine) line() *regexp.Regexp {
	text := `^\[handoff …(\w{6})\] ` + clauses[s.verb] + `: ` + regexp.QuoteMeta(s.title)
	if s.note != "" {
		text += " — " + regexp.QuoteMeta(s.note)
	}
	if s.verb == "offer" {
		text += ` — answer: /msg (?P<bot>\S+) accept \w{6} or /msg \S+ decline \w{6}`
	}
	return regexp.MustCompile(text + "$")
}

// typed returns a step's command to the gateway.
func typed(verb string) string {
	if verb == "complete" {
		return "done"
	}
	return verb
}

// filedLine matches the gateway's answer to a command that was a step.
func filedLine(id, verb, state string) *regexp.Regexp {
	return regexp.MustCompile(`^\[handoff …(` + id + `)\] ` + verb + `: it is ` + state + ` now\.$`)
}

// plainWorker is a person with a plain client, whose account is bound to a DID.
func plainWorker(c *bridgetest.IRCClient, address string, did federation.DID) worker {
	reads := func(t *testing.T, what string, line *regexp.Regexp) string {
		t.Helper()
		m := next(t, c, what, func(m bridgetest.IRCMessage) bool {
			return m.Command == "NOTICE" && m.Params[0] == c.Nick && line.MatchString(m.Params[1])
		})
		if len(m.Tags) > 0 {
			t.Errorf("a client without tags gets %v", m.Tags)
		}
		return line.FindStringSubmatch(m.Params[1])[1]
	}
	return chatWorker(did, address, reads, func(t *testing.T, text string) {
		t.Helper()
		if err := c.Send(nil, "PRIVMSG", "Baton", text); err != nil {
			t.Fatal(err)
		}
	})
}

// chatWorker is a person that reads lines and writes commands to the gateway.
func chatWorker(did federation.DID, address string, reads func(t *testing.T, what string, line *regexp.Regexp) (id string), says func(t *testing.T, text string)) worker {
	return worker{
		did: did, address: address,
		offers: func(t *testing.T, to worker, title string) string {
			t.Helper()
			says(t, "offer "+to.address+" "+title)
			return reads(t, "the answer to an offer to "+to.address, filedLine(`\w{6}`, "offer", "offered"))
		},
		reads: func(t *testing.T, s stepLine) string { t.Helper(); return reads(t, fmt.Sprint(s), s.line()) },
		takes: func(t *testing.T, id, verb, note string) {
			t.Helper()
			says(t, typed(verb)+" "+id+" "+note)
			reads(t, "the answer to "+verb, filedLine(id, verb, `\w+`))
		},
	}
}

// freeqWorker is finn, with a plain client.
func (b *talkative) freeqWorker() worker {
	seen := map[any]bool{} // lines, by the id of the event that carried them
	reads := func(t *testing.T, what string, line *regexp.Regexp) string {
		t.Helper()
		m, err := b.freeq.AwaitLine(patient(t), what, func(m map[string]any) bool {
			text, _ := m["text"].(string)
			return m["type"] == "privmsg" && m["target"] == "finn" && !seen[m["event_id"]] && line.MatchString(text)
		})
		if err != nil {
			t.Fatal(err)
		}
		seen[m["event_id"]] = true
		text, _ := m["text"].(string)
		return line.FindStringSubmatch(text)[1]
	}
	return chatWorker(b.finn.DID, "finn@fq", reads, func(t *testing.T, text string) { t.Helper(); b.finn.Tell("Baton-gw", text) })
}

// aircWorker is scout, which takes each stranger for a friend.
func (b *talkative) aircWorker() worker {
	box := &mailbox{Agent: b.scout}
	from := map[string]string{} // the handle of the other party by handoff
	return worker{
		did: federation.DID(b.scout.DID), address: b.scout.Handle,
		offers: func(t *testing.T, to worker, title string) string {
			t.Helper()
			handle := handleOf(string(to.did))
			filed := post(t, b.scout, write(t, b.scout, b.scout.Envelope(handle, title, payload("task:request", map[string]any{"description": title}))))
			if filed.Status != http.StatusCreated {
				t.Fatalf("the offer to %s is answered %+v", to.network, filed)
			}
			from[filed.Handoff.ID] = handle
			return filed.Handoff.ID
		},
		reads: func(t *testing.T, s stepLine) string {
			t.Helper()
			for {
				m := box.next(t, fmt.Sprint(s), func(m message) bool { return m.Payload.Type == "system:handshake_request" || s.isIn(m) })
				if m.Payload.Type != "system:handshake_request" {
					from[about(m).ID] = m.From
					return about(m).ID
				}
				consent(t, b.scout, requesterOf(t, m))
			}
		},
		takes: func(t *testing.T, ref, verb, note string) {
			t.Helper()
			filed := post(t, b.scout, write(t, b.scout, b.scout.Envelope(from[ref], note, aircStep(ref, verb, note))))
			if filed.Status != http.StatusCreated {
				t.Fatalf("%s is answered %+v", verb, filed)
			}
		},
	}
}

// aircStep is a step as a payload of AIRC.
func aircStep(id, verb, note string) map[string]any {
	named := map[string]any{"id": id}
	result := func(status string) map[string]any {
		return payload("task:result", map[string]any{"handoff": named, "status": status, "result": map[string]any{"note": note}})
	}
	switch verb {
	case "accept":
		return payload("ack", map[string]any{"handoff": named, "status": "received"})
	case "decline":
		return payload("ack", map[string]any{"handoff": named, "status": "rejected", "message": note})
	case "progress":
		return result("partial")
	case "complete":
		return result("completed")
	}
	named["event"], named["note"] = verb, note
	return payload("at.freeq:handoff", map[string]any{"handoff": named})
}

// requesterOf returns the handle that a handshake is about.
func requesterOf(t *testing.T, m message) string {
	t.Helper()
	var data struct{ Requester string }
	if err := json.Unmarshal(m.Payload.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data.Requester
}

func (s stepLine) isIn(m message) bool {
	var data struct {
		Handoff struct{ Event, Title, Note, Notice string }
	}
	_ = json.Unmarshal(m.Payload.Data, &data) // a message about something else has none
	got := data.Handoff
	return got.Event == s.verb && got.Title == s.title && got.Note == s.note && got.Notice == ""
}

// restWorker is a caller of the agents' API.
func (b *talkative) restWorker() worker {
	ids := map[string]string{} // by title
	return worker{
		did: b.http.did, address: string(b.http.did),
		offers: func(t *testing.T, to worker, title string) string {
			t.Helper()
			ids[title] = b.http.offer(t, map[string]any{"to": to.did, "title": title})
			return ids[title]
		},
		reads: func(t *testing.T, s stepLine) string {
			t.Helper()
			await(t, fmt.Sprint(s), func() bool {
				var page struct{ Items []arrived }
				b.http.must(t, http.StatusOK, http.MethodGet, "inbox?limit=500", nil, &page)
				return slices.ContainsFunc(page.Items, func(e arrived) bool {
					if e.Step.Verb == "offer" {
						ids[e.Step.Title] = e.Step.HandoffID
					}
					return e.Step.Verb == s.verb && e.Step.HandoffID == ids[s.title] && e.Step.Note == s.note
				})
			})
			return ids[s.title]
		},
		takes: func(t *testing.T, id, verb, note string) {
			t.Helper()
			b.http.step(t, id, verb, map[string]any{"note": note})
		},
	}
}

// bound has a DID stand for the account of a person.
func (b *talkative) bound(t *testing.T, network, account string, did federation.DID) {
	t.Helper()
	b.asks(t, &struct{}{}, "bind", "add", network, account, string(did), "--vouch")
}

// member brings a person into a network, logged in to an account bound to a DID.
func (b *talkative) member(t *testing.T, n *network, nick string) worker {
	t.Helper()
	did := didOf(seeded(nick))
	b.bound(t, n.name, nick, did)
	c := n.join(t, nick)
	n.logIn(t, nick, nick)
	return plainWorker(c, nick+"@"+n.name, did)
}

func (b *talkative) workers(t *testing.T, networks ...*network) []worker {
	t.Helper()
	b.bound(t, "fq", string(b.finn.DID), b.finn.DID)
	b.write(t, b.scout.Handle, "may I ask?", http.StatusCreated) // a caller is known once it has acted
	zoe := newPerson(t)
	b.bound(t, "client", zoe.did, federation.DID(zoe.did))
	workers := []worker{
		b.aircWorker(), b.restWorker(), b.freeqWorker(), plainWorker(b.login(t, "zoe", zoe, "sasl"), "zoe@client", federation.DID(zoe.did)),
	}
	names := []string{"AIRC", "REST", "freeq", "client"}
	for _, n := range networks {
		workers, names = append(workers, b.member(t, n, "person-"+n.name)), append(names, n.name)
	}
	for i := range workers {
		workers[i].network = names[i]
	}
	return workers
}

// everyNetwork starts the InspIRCd servers of the tables: two of Debian, and the InspIRCd 4 that
// INSPIRCD4 names.
func everyNetwork(t *testing.T, h *house) (networks []*network, tables []string) {
	t.Helper()
	networks = []*network{newNetwork(t, h, "north", "3NO"), newNetwork(t, h, "south", "4SO")}
	if binary := os.Getenv("INSPIRCD4"); binary != "" {
		networks = append(networks, newNetworkOf(t, h, binary, "four", "5FO"))
	} else {
		t.Log("not run with InspIRCd 4: INSPIRCD4 is unset")
	}
	for _, n := range networks {
		tables = append(tables, n.table)
	}
	return networks, tables
}

// Participants of any two networks hand work to each other, whichever of them offers it. Each of them
// reads each step of the other on its own network: people by lines, to which they answer by commands.
func TestHandoffBetweenEachPairOfNetworks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	networks, tables := everyNetwork(t, h)
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	b := talkativeIn(t, h, append(tables, agentTable(agent, ""), unlimited)...)
	workers := b.workers(t, networks...)
	external := a2aWorker(agent)
	for i, one := range workers {
		for _, other := range workers[i+1:] {
			t.Run(one.network+" and "+other.network, func(t *testing.T) {
				b.handOff(t, one, other)
				b.handOff(t, other, one)
			})
		}
		t.Run(one.network+" is refused, and changes its mind", func(t *testing.T) {
			b.end(t, one, workers[(i+1)%len(workers)])
		})
		t.Run(one.network+" and "+external.network, func(t *testing.T) {
			b.handOff(t, one, external)
			b.end(t, one, external)
		})
	}
}

// end has one participant offer work twice: the other declines the first, and the offerer cancels the second.
func (b *talkative) end(t *testing.T, offerer, offeree worker) {
	t.Helper()
	no := stepLine{"decline", fmt.Sprintf("Paint the ships of %s for %s", offeree.network, offerer.network), "no paint"}
	offerer.offers(t, offeree, no.title)
	offeree.takes(t, offeree.reads(t, stepLine{"offer", no.title, ""}), no.verb, no.note)
	offerer.reads(t, no)
	b.recorded(t, no.title, offerer.did, offeree.did, federation.Declined, "offer", "decline")

	never := stepLine{"cancel", fmt.Sprintf("Sell the ships of %s for %s", offeree.network, offerer.network), "not today"}
	id := offerer.offers(t, offeree, never.title)
	offeree.reads(t, stepLine{"offer", never.title, ""})
	offerer.takes(t, id, never.verb, never.note)
	offeree.reads(t, never)
	b.recorded(t, never.title, offerer.did, offeree.did, federation.Cancelled, "offer", "cancel")
}

// handOff has one participant offer work, and the other accept it, report on it and complete it.
func (b *talkative) handOff(t *testing.T, offerer, assignee worker) {
	t.Helper()
	title := fmt.Sprintf("Count the ships of %s for %s", assignee.network, offerer.network)
	offerer.offers(t, assignee, title)
	id := assignee.reads(t, stepLine{"offer", title, ""})
	for _, step := range []stepLine{{"accept", title, ""}, {"progress", title, "half of them"}, {"complete", title, "forty ships"}} {
		assignee.takes(t, id, step.verb, step.note)
		offerer.reads(t, step)
	}
	b.recorded(t, title, offerer.did, assignee.did, federation.Completed, "offer", "accept", "progress", "complete")
}

func (b *talkative) recorded(t *testing.T, title string, offerer, offeree federation.DID, state federation.State, verbs ...string) {
	t.Helper()
	var page struct {
		Items []struct{ ID, Title, Offerer, Offeree string }
	}
	b.asks(t, &page, "handoff", "list", "--limit", "500")
	at := slices.IndexFunc(page.Items, func(h struct{ ID, Title, Offerer, Offeree string }) bool { return h.Title == title })
	if at < 0 {
		t.Fatalf("%q is not on record", title)
	}
	var shown shownHandoff
	b.asks(t, &shown, "handoff", "show", page.Items[at].ID)
	var got []string
	for _, s := range shown.Steps {
		got = append(got, s.Verb)
	}
	if diff := cmp.Diff(verbs, got); diff != "" || shown.State != string(state) {
		t.Errorf("%q is %s (-want +got): %s", title, shown.State, diff)
	}
	if page.Items[at].Offerer != string(offerer) || page.Items[at].Offeree != string(offeree) {
		t.Errorf("%q is from %s to %s, want %s and %s", title, page.Items[at].Offerer, page.Items[at].Offeree, offerer, offeree)
	}
}

package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

const researcher = federation.DID("did:web:gw.test:a2a:researcher")

func agentTable(a *bridgetest.A2AAgent, more string) string {
	return fmt.Sprintf("[[a2a.agents]]\nname = \"researcher\"\ncard = %q\nallow_private = true\n%s\n", a.URL, more)
}

// agentsHandoff is a handoff as the REST API has it.
type agentsHandoff struct {
	ID    string
	State string
	Steps []struct {
		Verb, Note, From, Provenance string
		Context                      string
		Evidence                     any
	}
}

func (c *caller) handoff(tb testing.TB, id string) (h agentsHandoff) {
	tb.Helper()
	c.must(tb, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &h)
	return h
}

// verbs returns the verbs and notes of the steps of a handoff.
func (h agentsHandoff) verbs() string {
	var all []string
	for _, s := range h.Steps {
		all = append(all, strings.TrimSpace(s.Verb+" "+s.Note))
	}
	return strings.Join(all, ", ")
}

// offerTo offers work to the agent and returns the ID of the handoff.
func (c *caller) offerTo(tb testing.TB, to federation.DID, title string) string {
	tb.Helper()
	var filed struct{ ID string }
	c.must(tb, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"to": to, "title": title, "context": map[string]any{"topic": "X", "n": 3}}, &filed)
	return filed.ID
}

// awaitTask waits until the agent has made a task.
func awaitTask(t *testing.T, a *bridgetest.A2AAgent, n int) *bridgetest.A2ATask {
	t.Helper()
	await(t, fmt.Sprintf("task %d", n), func() bool { return a.Task(n) != nil })
	return a.Task(n)
}

func TestExternalAgentTakesWorkOverEachBinding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		binding   wire.TransportProtocol
		version   wire.ProtocolVersion
		streaming bool
	}{
		{"JSONRPC", wire.TransportProtocolJSONRPC, wire.Version, false},
		{"JSONRPC with streams", wire.TransportProtocolJSONRPC, wire.Version, true},
		{"HTTP+JSON", wire.TransportProtocolHTTPJSON, wire.Version, false},
		{"GRPC", wire.TransportProtocolGRPC, wire.Version, false},
		{"GRPC with streams", wire.TransportProtocolGRPC, wire.Version, true},
		{"JSONRPC 0.3", wire.TransportProtocolJSONRPC, a2av0.Version, false},
		{"GRPC 0.3", wire.TransportProtocolGRPC, a2av0.Version, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			agent := bridgetest.NewA2AAgent(t, c.binding, c.version, c.streaming)
			h := newHouse(t, agentTable(agent, ""))
			h.start(t)
			h.ready(t)
			ada := logIn(t, h.url())
			id := ada.offerTo(t, researcher, "Cite three sources")
			task := awaitTask(t, agent, 0)
			sent := task.Messages[0]
			terms, _ := sent.Metadata["handoff"].(map[string]any)
			if sent.ID != id || task.Context != id || sent.Parts[0].Text() != "Cite three sources" || terms["offerer"] != string(ada.did) {
				t.Errorf("the agent got %+v in %s", sent, task.Context)
			}
			if data, err := json.Marshal(sent.Parts[1].Data()); err != nil || string(data) != `{"n":3,"topic":"X"}` {
				t.Errorf("the context is %s, %v", data, err)
			}
			task.Say(wire.TaskStateWorking, "reading")
			await(t, "progress", func() bool { return strings.Contains(ada.handoff(t, id).verbs(), "accept, progress reading") })
			task.Produce(wire.NewDataPart(map[string]any{"sources": []any{"a", "b", "c"}}))
			task.Say(wire.TaskStateCompleted, "three found")
			await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
			got := ada.handoff(t, id)
			if want := "offer, accept, progress reading, complete three found"; got.verbs() != want {
				t.Errorf("the steps are %s, want %s", got.verbs(), want)
			}
			last := got.Steps[len(got.Steps)-1]
			if last.Context != `{"sources":["a","b","c"]}` || last.From != string(researcher) || last.Provenance != "vouched" || last.Evidence == nil {
				t.Errorf("the result is %+v with %s", last, last.Context)
			}
			if n := len(agent.Tasks()); n != 1 {
				t.Errorf("the agent made %d tasks", n)
			}
		})
	}
}

func TestExternalAgentEndsTasksAsItLikes(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	h := newHouse(t, agentTable(agent, ""))
	h.start(t)
	h.ready(t)
	ada := logIn(t, h.url())
	for n, c := range []struct {
		title string
		end   func(t *bridgetest.A2ATask)
		steps string
	}{
		{"fails", func(t *bridgetest.A2ATask) { t.Say(wire.TaskStateFailed, "no access") }, "offer, accept, fail no access"},
		{"is rejected", func(t *bridgetest.A2ATask) { t.Say(wire.TaskStateRejected, "not my trade") }, "offer, decline not my trade"},
		{"is canceled", func(t *bridgetest.A2ATask) { t.Say(wire.TaskStateCanceled, "") }, "offer, accept, fail canceled"},
		{"has only text", func(t *bridgetest.A2ATask) {
			t.Produce(wire.NewTextPart("forty-two"))
			t.Say(wire.TaskStateCompleted, "")
		}, "offer, accept, complete forty-two"},
	} {
		id := ada.offerTo(t, researcher, c.title)
		c.end(awaitTask(t, agent, n))
		await(t, "the end of a task that "+c.title, func() bool { return strings.Count(ada.handoff(t, id).verbs(), ",") == strings.Count(c.steps, ",") })
		if got := ada.handoff(t, id).verbs(); got != c.steps {
			t.Errorf("a task that %s has the steps %s, want %s", c.title, got, c.steps)
		}
	}
	agent.AnswerWithout("answer at once")
	id := ada.offerTo(t, researcher, "answer at once")
	await(t, "an answer without a task", func() bool { return ada.handoff(t, id).State == "completed" })
	if got := ada.handoff(t, id).verbs(); got != "offer, accept, complete answer to answer at once" {
		t.Errorf("the steps are %s", got)
	}
	status, document := get(t, h.url()+"/a2a/researcher/did.json")
	if status != http.StatusOK || !strings.Contains(document, string(researcher)) {
		t.Errorf("the document is %d %s", status, document)
	}
}

func TestExternalAgentIsAskedToCancel(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	h := newHouse(t, agentTable(agent, ""))
	h.start(t)
	h.ready(t)
	ada := logIn(t, h.url())
	id := ada.offerTo(t, researcher, "Cite three sources")
	awaitTask(t, agent, 0)
	ada.step(t, id, "cancel", map[string]any{"note": "not needed"})
	await(t, "the task to be cancelled", func() bool { return agent.Calls("CancelTask") == 1 })
	if got := ada.handoff(t, id).State; got != "cancelled" {
		t.Errorf("the handoff is %s", got)
	}
}

func TestExternalAgentAsksTheOfferer(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	h := newHouse(t, agentTable(agent, ""))
	h.start(t)
	h.ready(t)
	ada := logIn(t, h.url())
	id := ada.offerTo(t, researcher, "Cite three sources")
	task := awaitTask(t, agent, 0)
	task.Say(wire.TaskStateInputRequired, "Which topic?")
	type entry struct {
		Type    string
		Message struct{ From, Body, Text string }
	}
	var asked []entry
	await(t, "the question", func() bool {
		var page struct{ Items []entry }
		ada.must(t, http.StatusOK, http.MethodGet, "inbox?device=x", nil, &page)
		asked = nil
		for _, each := range page.Items {
			if each.Type == "message" {
				asked = append(asked, each)
			}
		}
		return len(asked) > 0
	})
	if len(asked) != 1 || asked[0].Message.From != string(researcher) {
		t.Errorf("the questions are %+v", asked)
	}
	ada.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": "researcher@researcher", "text": "Topic Y"}, nil)
	await(t, "the answer to reach the agent", func() bool { return len(agent.Texts(task)) == 2 })
	if got := agent.Texts(task)[1]; got != "Topic Y" {
		t.Errorf("the agent got %s", got)
	}
	task.Say(wire.TaskStateCompleted, "found")
	await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
	if n := len(agent.Tasks()); n != 1 {
		t.Errorf("the agent made %d tasks", n)
	}
	if found := ada.handoff(t, id).verbs(); found != "offer, accept, complete found" {
		t.Errorf("the steps are %s", found)
	}
}

// An agent gets the open offers that fit its claims, one at a time. It claims by work; an offer that it
// rejects, or that another agent claims, is over for it.
func TestExternalAgentClaimsOpenOffers(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	h := newHouse(t, agentTable(agent, `claims = ["cite", "read"]`), "[policy]\nclaim_caps = true", "[limits]\n"+anyAddress)
	h.start(t)
	h.ready(t)
	ada, bob := logIn(t, h.url()), logIn(t, h.url())
	bob.declares(t, "cite")
	open := func(title string, caps ...string) string {
		return ada.offer(t, map[string]any{"title": title, "caps": caps})
	}
	got := func(n int, title string) *bridgetest.A2ATask {
		t.Helper()
		task := awaitTask(t, agent, n)
		if sent := agent.Texts(task); len(sent) != 1 || sent[0] != title {
			t.Errorf("task %d is %q, want %q", n, sent, title)
		}
		return task
	}
	open("Paint a ship", "paint")
	open("Cite and paint", "cite", "paint")
	ada.offer(t, map[string]any{"title": "Anything"})
	done := open("Cite three", "cite")
	task := got(0, "Cite three")
	rejected := open("Cite four", "cite", "read")
	task.Say(wire.TaskStateWorking, "reading")
	await(t, "the claim", func() bool { return strings.Contains(ada.handoff(t, done).verbs(), "progress") })
	if n := len(agent.Tasks()); n != 1 {
		t.Errorf("the agent has %d open offers at a time", n)
	}
	task.Say(wire.TaskStateCompleted, "three found")
	await(t, "the result", func() bool { return ada.handoff(t, done).State == "completed" })
	if got := ada.handoff(t, done).verbs(); got != "offer, claim, progress reading, complete three found" {
		t.Errorf("the steps are %s", got)
	}

	got(1, "Cite four").Say(wire.TaskStateRejected, "not my trade")
	lost := open("Cite five", "cite")
	got(2, "Cite five")
	if got := ada.handoff(t, rejected).verbs(); got != "offer" {
		t.Errorf("the steps of a rejected open offer are %s", got)
	}
	bob.step(t, lost, "claim", nil)
	await(t, "the task of the claimed offer to be cancelled", func() bool { return agent.Calls("CancelTask") == 1 })

	late := open("Cite six", "cite")
	task = got(3, "Cite six")
	h.kill(t)
	task.Say(wire.TaskStateCompleted, "six found")
	h.start(t)
	await(t, "the result at once", func() bool { return ada.handoff(t, late).State == "completed" })
	if got := ada.handoff(t, late).verbs(); got != "offer, claim, complete six found" || len(agent.Tasks()) != 4 {
		t.Errorf("the steps are %s, and the agent has %d tasks", got, len(agent.Tasks()))
	}
}

// The gateway is killed at each step of the way to the agent and back. The agent counts its tasks.
func TestExternalAgentMakesOneTaskThoughTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	type spot struct {
		name, method string
		after        bool // the agent has done the task
		open         bool // the offer is for anyone
	}
	var spots []spot
	for _, open := range []bool{false, true} {
		kind := map[bool]string{false: ", directed", true: ", open"}[open]
		spots = append(spots,
			spot{"before the message arrives" + kind, "SendMessage", false, open}, spot{"after the message arrived" + kind, "SendMessage", true, open},
			spot{"before the task is read" + kind, "GetTask", false, open}, spot{"after the task was read" + kind, "GetTask", true, open})
	}
	for _, c := range spots {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
			h := newHouse(t, agentTable(agent, `claims = ["cite"]`))
			var once atomic.Bool
			kill := func(method string) error {
				if method != c.method || !once.CompareAndSwap(false, true) {
					return nil
				}
				if err := h.process.Process.Kill(); err != nil {
					t.Error(err)
				}
				return bridgetest.ErrBreak
			}
			if c.after {
				agent.After = kill
			} else {
				agent.Before = kill
			}
			h.start(t)
			h.ready(t)
			ada := logIn(t, h.url())
			offer, first := map[string]any{"title": "Cite three sources", "to": researcher}, "accept"
			if c.open {
				offer, first = map[string]any{"title": "Cite three sources", "caps": []string{"cite"}}, "claim"
			}
			id := ada.offer(t, offer)
			await(t, "the gateway to be killed", h.gone)
			h.start(t)
			task := awaitTask(t, agent, 0)
			task.Say(wire.TaskStateWorking, "reading")
			await(t, "progress", func() bool { return strings.Contains(ada.handoff(t, id).verbs(), "progress") })
			h.kill(t)
			task.Say(wire.TaskStateCompleted, "three found")
			h.start(t)
			await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
			if want, got := "offer, "+first+", progress reading, complete three found", ada.handoff(t, id).verbs(); got != want {
				t.Errorf("the steps are %s, want %s", got, want)
			}
			if n := len(agent.Tasks()); n != 1 || len(agent.Texts(task)) != 1 {
				t.Errorf("the agent made %d tasks, the first of %q", n, agent.Texts(task))
			}
		})
	}
}

// A connection that breaks after the agent has the message leaves the result unknown.
func TestExternalAgentMakesOneTaskThoughConnectionsBreak(t *testing.T) {
	t.Parallel()
	for _, binding := range []wire.TransportProtocol{wire.TransportProtocolJSONRPC, wire.TransportProtocolGRPC} {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			agent := bridgetest.NewA2AAgent(t, binding, wire.Version, false)
			var broken atomic.Int32
			agent.After = func(method string) error {
				if method == "SendMessage" && broken.Add(1) <= 1 {
					return bridgetest.ErrBreak
				}
				return nil
			}
			h := newHouse(t, agentTable(agent, ""))
			h.start(t)
			h.ready(t)
			ada := logIn(t, h.url())
			id := ada.offerTo(t, researcher, "Cite three sources")
			awaitTask(t, agent, 0).Say(wire.TaskStateCompleted, "three found")
			await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
			if n := len(agent.Tasks()); n != 1 || agent.Calls("ListTasks") != 1 {
				t.Errorf("the agent made %d tasks, and listed them %d times", n, agent.Calls("ListTasks"))
			}
		})
	}
}

// The state of the link is that of the agent, though the agent has no task.
func TestLinkOfAnExternalAgentIsDownWhileItIsAway(t *testing.T) {
	t.Parallel()
	for _, binding := range []wire.TransportProtocol{wire.TransportProtocolJSONRPC, wire.TransportProtocolHTTPJSON} {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			agent := bridgetest.NewA2AAgent(t, binding, wire.Version, false)
			h := newHouse(t, agentTable(agent, ""))
			h.start(t)
			h.ready(t)
			state := func(want string) func() bool {
				return func() bool {
					var shown struct {
						State     string
						LastError string `json:"last_error"`
					}
					h.asks(t, &shown, "a2a", "show", "researcher")
					return shown.State == want && (want == "up" || strings.Contains(shown.LastError, "connection refused"))
				}
			}
			await(t, "the link to be up", state("up"))
			agent.Close()
			ada := logIn(t, h.url())
			id := ada.offerTo(t, researcher, "Cite three sources")
			await(t, "the link to be down with the reason", state("dialling"))
			listener, err := net.Listen("tcp", agent.Listener.Addr().String()) //nolint:noctx // of a test
			if err != nil {
				t.Fatal(err)
			}
			again := httptest.NewUnstartedServer(agent.Config.Handler)
			_ = again.Listener.Close()
			again.Listener = listener
			again.Start()
			t.Cleanup(again.Close)
			await(t, "the link to be up again", state("up"))
			awaitTask(t, agent, 0).Say(wire.TaskStateCompleted, "three found")
			await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
			if n := len(agent.Tasks()); n != 1 {
				t.Errorf("the agent made %d tasks", n)
			}
		})
	}
}

func TestA2ACommandsKeepExternalAgents(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	var checked struct{ Name, Binding, Protocol string }
	h.asks(t, &checked, "a2a", "check", agent.URL, "--allow-private")
	if checked.Name != "Researcher" || checked.Binding != "JSONRPC" || checked.Protocol != "1.0" {
		t.Errorf("the check finds %+v", checked)
	}
	if code, told := h.run(t, "a2a", "check", agent.URL); code == 0 || !strings.Contains(told, "address not allowed") {
		t.Errorf("a private address is answered %d %s", code, told)
	}
	var done struct{ Done string }
	h.asks(t, &done, "a2a", "add", agent.URL, "--name", "researcher", "--claims", "cite", "--claims", "read", "--allow-private", "--yes")
	if text, err := os.ReadFile(h.config); err != nil || !strings.Contains(string(text), `claims = ["cite", "read"]`) {
		t.Errorf("the configuration is %s, %v", text, err)
	}
	if code, told := h.run(t, "a2a", "add", agent.URL, "--name", "researcher", "--allow-private", "--yes"); code == 0 || !strings.Contains(told, "already") {
		t.Errorf("the same agent again is answered %d %s", code, told)
	}
	var links struct {
		Items []struct{ Name, State string }
	}
	await(t, "the agent to be up", func() bool {
		h.asks(t, &links, "a2a", "list")
		return len(links.Items) == 1 && links.Items[0].Name == "researcher" && links.Items[0].State == "up"
	})
	var shown struct{ Negotiated map[string]string }
	h.asks(t, &shown, "a2a", "show", "researcher")
	if shown.Negotiated["agent"] != "Researcher" || shown.Negotiated["did"] != string(researcher) {
		t.Errorf("the agent is shown as %+v", shown)
	}
	ada := logIn(t, h.url())
	id := ada.offerTo(t, researcher, "Cite three sources")
	awaitTask(t, agent, 0).Say(wire.TaskStateCompleted, "found")
	await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
	h.asks(t, &done, "a2a", "remove", "researcher", "--yes")
	h.asks(t, &links, "a2a", "list")
	if len(links.Items) != 0 {
		t.Errorf("after the removal there are %+v", links.Items)
	}
	if code, told := h.run(t, "a2a", "show", "researcher"); code == 0 || !strings.Contains(told, "no external agent") {
		t.Errorf("a removed agent is shown as %d %s", code, told)
	}
}

func TestOperatorsSeeExternalAgents(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	h := newHouse(t, agentTable(agent, `claims = ["cite"]`))
	h.start(t)
	h.ready(t)
	ada := logIn(t, h.url())
	tab := loggedIn(t, h, h.operatorToken(t, "read"))
	doctor := func(want ...string) {
		t.Helper()
		var line string
		await(t, "the doctor to say "+want[0], func() bool {
			found, _ := h.examined(t)
			line = found["link researcher"]
			return strings.HasPrefix(line, want[0])
		})
		for _, each := range want {
			if !strings.Contains(line, each) {
				t.Errorf("the doctor says %q, want %q", line, each)
			}
		}
	}
	counted := func(want map[string]float64) {
		t.Helper()
		await(t, fmt.Sprint(want), func() bool {
			found := h.counters(t)
			for name, n := range want {
				if found[name] != n {
					return false
				}
			}
			return true
		})
	}
	shown := func(args ...string) string {
		t.Helper()
		out, err := h.plain(t, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	doctor("ok link researcher: a2a-agent up, protocol 1.0")
	id := ada.offerTo(t, researcher, "Cite three sources")
	task := awaitTask(t, agent, 0)
	task.Say(wire.TaskStateAuthRequired, "log in to the library")
	doctor("warn link researcher: ", "log in to the library", "; baton a2a show researcher")
	counted(map[string]float64{`baton_agent_tasks_open{link="researcher"}`: 1, `baton_agent_tasks_total{link="researcher",outcome="made"}`: 1})
	listed := shown("a2a", "list")
	page := tab.wants(t, http.StatusOK, "/ui/links", nil).text
	for _, want := range []string{"Researcher 1.2", "JSONRPC 1.0", "polling", "cite", "log in to the library"} {
		if !strings.Contains(listed, want) || !strings.Contains(page, want) {
			t.Errorf("%q is not in the list %s or on the page", want, listed)
		}
	}
	if !strings.Contains(page, ">External agents</caption>") || !strings.Contains(page, `<code class="cli">baton a2a list</code>`) {
		t.Errorf("the page is %s", page)
	}
	task.Say(wire.TaskStateCompleted, "three found")
	await(t, "the result", func() bool { return ada.handoff(t, id).State == "completed" })
	counted(map[string]float64{`baton_agent_tasks_open{link="researcher"}`: 0, `baton_agent_tasks_total{link="researcher",outcome="complete"}`: 1})
	if explained := shown("explain", id); !strings.Contains(explained, "researcher") {
		t.Errorf("the offer is explained as %s", explained)
	}
	ada.offerTo(t, researcher, "Cite four sources")
	awaitTask(t, agent, 1)
	agent.CloseClientConnections()
	agent.Close()
	doctor("FAIL link researcher: ", "; baton a2a check "+agent.URL+"/.well-known/agent-card.json")
}

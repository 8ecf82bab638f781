package a2aclient_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

func TestConfigNamesEachMistake(t *testing.T) {
	t.Parallel()
	ports := bridgetest.Ports(nil)
	ports.Secrets = bridgetest.Secrets{"short": "ab", "seed": strings.Repeat("ab", 32)}
	for want, cfg := range map[string]a2aclient.Config{
		"":                            {Name: "a", Card: "agents.example", OfferFrom: []string{"any"}},
		"name":                        {Card: "https://a.example", OfferFrom: []string{"any"}},
		"card":                        {Name: "a", Card: "ftp://a.example", OfferFrom: []string{"any"}},
		"card credentials_file":       {Name: "a", Card: "https://u:p@a.example", CredentialsFile: "none", OfferFrom: []string{"any"}},
		"client_id client_key_file":   {Name: "a", Card: "https://a.example", ClientKeyFile: "short", OfferFrom: []string{"any"}},
		"credentials_file offer_from": {Name: "a", Card: "https://a.example", CredentialsFile: "short", ClientID: "x", ClientKeyFile: "seed"},
		"claims":                      {Name: "a", Card: "https://a.example", Claims: []string{"Not A Name"}, OfferFrom: []string{"any"}},
		"accepts":                     {Name: "a", Card: "https://a.example", Accepts: []string{""}, OfferFrom: []string{"any"}},
	} {
		_, err := a2aclient.Network(a2aclient.Deps{}).Open(table(cfg), ports)
		if got := keysOf(err); got != want {
			t.Errorf("%+v has mistakes in %q, want %q", cfg, got, want)
		}
	}
}

func keysOf(err error) string {
	var keys []string
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return ""
	}
	for _, each := range joined.Unwrap() {
		if mistake, ok := errors.AsType[*bridge.KeyError](each); ok {
			keys = append(keys, mistake.Key)
		}
	}
	return strings.Join(keys, " ")
}

func TestCardURLIsTheWellKnownOneOfAHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"agents.example":                  "https://agents.example/.well-known/agent-card.json",
		"http://127.0.0.1:9/":             "http://127.0.0.1:9/.well-known/agent-card.json",
		"https://agents.example/x/c.json": "https://agents.example/x/c.json",
		"":                                "",
		"https://agents.example/#x":       "",
	} {
		if got, _ := a2aclient.CardURL(text); got != want {
			t.Errorf("the card of %q is at %q, want %q", text, got, want)
		}
	}
}

func TestDeliverRefusesOffersThatTheConfigurationExcludes(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	w := newWorld(t, agent.URL)
	for _, cfg := range []a2aclient.Config{
		{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"did:web:b.example", "lab"}},
		{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}, Accepts: []string{"bounty"}},
	} {
		w.link = w.open(t, cfg)
		err := w.link.Deliver(t.Context(), w.offer(t, "x"))
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.PolicyDenied {
			t.Errorf("the offer is answered %v", err)
		}
	}
	if n := len(agent.Tasks()); n != 0 {
		t.Errorf("the agent made %d tasks", n)
	}
}

func TestDeliverSendsOnceHoweverOftenItIsCalled(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	w := newWorld(t, agent.URL)
	w.run(t)
	d := w.offer(t, "Cite three sources")
	for range 3 {
		if err := w.link.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(agent.Tasks()); n != 1 {
		t.Fatalf("the agent made %d tasks", n)
	}
	agent.Task(0).Say(wire.TaskStateCompleted, "found")
	w.awaitState(t, d.View.ID, federation.Completed)
	w.awaitNoJournal(t)
}

// stopping is a gateway that ends a session right after it has filed a step.
type stopping struct {
	bridge.Gateway

	verb federation.Verb
	stop func()
}

// Submit implements [bridge.Gateway].
func (g *stopping) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	judged, err := g.Gateway.Submit(ctx, ev)
	if ev.Verb == g.verb {
		go g.stop()
		<-ctx.Done()
	}
	return judged, err
}

func TestTasksCountOnceIfTheSessionEndsAfterAStep(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	w := newWorld(t, agent.URL)
	gateway := &stopping{Gateway: w.ports.Gateway, verb: federation.Complete}
	w.ports.Gateway = gateway
	w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}})
	stop := w.run(t)
	gateway.stop = stop
	d := w.offer(t, "Cite three sources")
	if err := w.link.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	agent.Task(0).Say(wire.TaskStateCompleted, "found")
	w.awaitState(t, d.View.ID, federation.Completed)
	stop()
	w.run(t)
	w.awaitNoJournal(t)
	if canceled := agent.Calls("CancelTask"); canceled != 1 {
		t.Errorf("the second session cancelled the task %d times, want 1", canceled)
	}
	for outcome, want := range map[string]float64{"made": 1, "complete": 1, "canceled": 0} {
		if got := testutil.ToFloat64(w.ports.Metrics.Tasks.WithLabelValues("researcher", outcome)); got != want {
			t.Errorf("%v tasks count as %s, want %v", got, outcome, want)
		}
	}
}

// leaving holds back the first waiter that stops to wait for a handoff.
type leaving struct {
	bridge.PubSub

	begun, end chan struct{}
	once       sync.Once
}

// Subscribe implements [bridge.PubSub].
func (l *leaving) Subscribe(topic string) (<-chan struct{}, func()) {
	wake, stop := l.PubSub.Subscribe(topic)
	return wake, func() {
		l.once.Do(func() {
			close(l.begun)
			<-l.end
		})
		stop()
	}
}

func TestTaskIsFollowedIfItIsMadeWhileASessionStopsToFollowIt(t *testing.T) {
	t.Parallel()
	var sends atomic.Int32
	agent := liar(t, nil, func(w http.ResponseWriter, method string, id any) {
		switch {
		case method == "GetTask":
			result(w, id, taskOf("t1", wire.TaskStateCompleted))
		case sends.Add(1) == 1:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
		}
	})
	w := newWorld(t, agent.URL)
	waits := &leaving{PubSub: w.ports.PubSub, begun: make(chan struct{}), end: make(chan struct{})}
	w.ports.PubSub = waits
	w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}})
	stop := w.run(t)
	d := w.offer(t, "x")
	if err := w.link.Deliver(t.Context(), d); err == nil {
		t.Fatal("the agent takes the first message")
	}
	stop()
	w.run(t) // reads the journal of the task, which the agent does not have yet
	<-waits.begun
	if err := w.link.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	close(waits.end)
	w.awaitState(t, d.View.ID, federation.Completed)
}

// refusing is a gateway whose home refuses the steps of one verb.
type refusing struct {
	bridge.Gateway

	verb    federation.Verb
	refused atomic.Bool
	read    chan struct{} // is closed by the first View after a refusal
	once    sync.Once
}

// Submit implements [bridge.Gateway].
func (g *refusing) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	if ev.Verb == g.verb {
		g.refused.Store(true)
		return federation.Judgement{}, &federation.RefusalError{Code: federation.PolicyDenied, Event: ev.ID, Handoff: ev.Handoff}
	}
	return g.Gateway.Submit(ctx, ev)
}

// View implements [bridge.Gateway].
func (g *refusing) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	if g.refused.Load() {
		g.once.Do(func() { close(g.read) })
	}
	return g.Gateway.View(ctx, id)
}

func TestTasksWithARefusedEndCountAsMadeOnly(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	w := newWorld(t, agent.URL)
	gateway := &refusing{Gateway: w.ports.Gateway, verb: federation.Complete, read: make(chan struct{})}
	w.ports.Gateway = gateway
	w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}})
	w.run(t)
	d := w.offer(t, "Cite three sources")
	if err := w.link.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	agent.Task(0).Say(wire.TaskStateCompleted, "found")
	<-gateway.read
	for outcome, want := range map[string]float64{"made": 1, "complete": 0, "canceled": 0} {
		if got := testutil.ToFloat64(w.ports.Metrics.Tasks.WithLabelValues("researcher", outcome)); got != want {
			t.Errorf("%v tasks count as %s, want %v", got, outcome, want)
		}
	}
}

// A lying agent is bounded, and the offerer gets the reason.
func TestLinkBoundsLyingAgents(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 50<<20)
	type reply = func(w http.ResponseWriter, id any)
	always := func(state wire.TaskState) func() reply {
		return func() reply { return func(w http.ResponseWriter, id any) { result(w, id, taskOf("t1", state)) } }
	}
	// inTurn returns the answers to the calls in order; the last one stays.
	inTurn := func(answers ...reply) func() reply {
		return func() reply {
			var calls atomic.Int32
			return func(w http.ResponseWriter, id any) { answers[min(int(calls.Add(1)), len(answers))-1](w, id) }
		}
	}
	one := func(task string, state wire.TaskState) reply {
		return func(w http.ResponseWriter, id any) { result(w, id, taskOf(task, state)) }
	}
	for name, c := range map[string]struct {
		get    func() reply
		want   federation.State
		stream func(w http.ResponseWriter, id any) error // writes one event; nil for an agent without streams
	}{
		"an artifact of 50 MB": {inTurn(func(w http.ResponseWriter, id any) {
			task := taskOf("t1", wire.TaskStateCompleted)
			task["artifacts"] = []any{map[string]any{"artifactId": "a", "parts": []any{map[string]any{"text": huge}}}}
			result(w, id, task)
		}), federation.Failed, nil},
		"an endless stream": {always(wire.TaskStateCompleted), federation.Completed, func(w http.ResponseWriter, id any) error {
			_, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"result\":{\"task\":{\"id\":\"t1\",\"contextId\":\"c\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n", id)
			return err
		}},
		"an event of 50 MB": {always(wire.TaskStateCompleted), federation.Completed, func(w http.ResponseWriter, id any) error {
			_, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"result\":{\"task\":{\"id\":\"t1\",\"contextId\":%q}}}\n\n", id, huge)
			return err
		}},
		"a state that goes back": {inTurn(one("t1", wire.TaskStateWorking), one("t1", wire.TaskStateCompleted), one("t1", wire.TaskStateWorking)), federation.Completed, nil},
		"another task":           {inTurn(one("t2", wire.TaskStateCompleted), one("t1", wire.TaskStateFailed)), federation.Failed, nil},
		"repeated members": {inTurn(func(w http.ResponseWriter, id any) {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"result":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_FAILED","state":"TASK_STATE_COMPLETED"}}}`, id)
		}, one("t1", wire.TaskStateFailed)), federation.Failed, nil},
	} {
		for binding, serve := range map[string]func(*testing.T, map[string]any, answer) *httptest.Server{"JSONRPC": liar, "GRPC": grpcLiar} {
			t.Run(name+" over "+binding, func(t *testing.T) {
				t.Parallel()
				get := c.get()
				card := map[string]any{"capabilities": map[string]any{"streaming": c.stream != nil}}
				agent := serve(t, card, func(w http.ResponseWriter, method string, id any) {
					switch method {
					case "SendMessage":
						result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
					case "GetTask":
						get(w, id)
					case "SubscribeToTask":
						w.Header().Set("Content-Type", "text/event-stream")
						for c.stream(w, id) == nil {
							time.Sleep(time.Millisecond) // the link ends the stream
						}
					default:
						failure(w, id, -32601, "no such method")
					}
				})
				w := newWorld(t, agent.URL)
				w.run(t)
				d := w.offer(t, "x")
				if err := w.link.Deliver(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				w.awaitState(t, d.View.ID, c.want)
			})
		}
	}
}

// A card is read from its own address, within a bound.
func TestRunRefusesLyingCards(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	for want, answer := range map[string]http.HandlerFunc{
		"redirects are not followed": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, agent.URL+"/.well-known/agent-card.json", http.StatusFound)
		},
		"more than": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"`+strings.Repeat("x", 50<<20)+`"}`)
		},
		"at least one interface": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"Liar","supportedInterfaces":[]}`)
		},
		"want an interface": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"Liar","supportedInterfaces":[{"url":"http://x.example/","protocolBinding":"SMTP","protocolVersion":"1.0"}]}`)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			err := newWorld(t, server.URL).link.Run(t.Context(), func() { t.Error("the link is up") })
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the link ends with %v", err)
			}
		})
	}
}

// If an agent cannot list its tasks, it is unknown whether an unanswered message became one.
func TestDeliverGivesUpAnUnansweredMessageThatCannotBeFound(t *testing.T) {
	t.Parallel()
	var sends atomic.Int32
	agent := liar(t, nil, func(w http.ResponseWriter, method string, id any) {
		if method != "SendMessage" {
			failure(w, id, -32601, "no such method")
			return
		}
		if sends.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
	})
	w := newWorld(t, agent.URL)
	w.run(t)
	d := w.offer(t, "x")
	err := w.link.Deliver(t.Context(), d)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Fatalf("the broken connection is %v", err)
	}
	for away := true; away; {
		err = w.link.Deliver(t.Context(), d)
		var later *federation.UnavailableError
		if later, away = errors.AsType[*federation.UnavailableError](err); away {
			time.Sleep(later.RetryAfter)
		}
	}
	givenUp, ok := errors.AsType[*federation.DeadLetterError](err)
	if !ok || givenUp.Reason != federation.DeadFailed || sends.Load() != 1 {
		t.Fatalf("after %d sends the delivery ends with %v", sends.Load(), err)
	}
	if err := w.link.Deliver(t.Context(), d); err != nil || sends.Load() != 2 { // an operator replays it
		t.Errorf("the replay is %v after %d sends", err, sends.Load())
	}
}

func TestDeliverRefusesTheMessageThatAnAgentRefuses(t *testing.T) {
	t.Parallel()
	agent := liar(t, nil, func(w http.ResponseWriter, _ string, id any) { failure(w, id, -32602, "no parts like these") })
	w := newWorld(t, agent.URL)
	w.run(t)
	err := w.link.Deliver(t.Context(), w.offer(t, "x"))
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || !strings.Contains(refused.Detail, "no parts like these") {
		t.Errorf("the delivery ends with %v", err)
	}
}

func TestCallsFollowNoRedirect(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 1)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(other.Close)
	agent := liar(t, nil, func(w http.ResponseWriter, _ string, _ any) {
		w.Header().Set("Location", other.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	w := newWorld(t, agent.URL)
	w.run(t)
	err := w.link.Deliver(t.Context(), w.offer(t, "x"))
	if _, away := errors.AsType[*federation.UnavailableError](err); !away || !strings.Contains(err.Error(), "redirects are not followed") || len(reached) > 0 {
		t.Errorf("the delivery ends with %v", err)
	}
}

func TestRunCallsNoPrivateAddress(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	w := newWorld(t, agent.URL)
	for _, card := range []string{agent.URL, strings.Replace(agent.URL, "http:", "https:", 1)} {
		link := w.open(t, a2aclient.Config{Name: "researcher", Card: card, OfferFrom: []string{"any"}})
		if err := link.Run(t.Context(), func() { t.Error("the link is up") }); err == nil || !strings.Contains(err.Error(), "address not allowed") {
			t.Errorf("%s ends with %v", card, err)
		}
	}
}

func TestRunSendsCredentialsAsTheCardSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme map[string]any
		want   func(r *http.Request) bool
	}{
		"bearer": {map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}}, func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer ada:secret" }},
		"basic": {map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Basic"}}, func(r *http.Request) bool {
			user, password, _ := r.BasicAuth()
			return user == "ada" && password == "secret"
		}},
		"header": {map[string]any{"apiKeySecurityScheme": map[string]any{"location": "header", "name": "X-Key"}}, func(r *http.Request) bool { return r.Header.Get("X-Key") == "ada:secret" }},
		"query":  {map[string]any{"apiKeySecurityScheme": map[string]any{"location": "query", "name": "key"}}, func(r *http.Request) bool { return r.URL.Query().Get("key") == "ada:secret" }},
		"0.3":    {map[string]any{"type": "apiKey", "in": "header", "name": "X-Key"}, func(r *http.Request) bool { return r.Header.Get("X-Key") == "ada:secret" }},
		"later":  {map[string]any{"somethingNew": map[string]any{}}, func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer ada:secret" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var right atomic.Bool
			agent := liar(t, map[string]any{"securitySchemes": map[string]any{"s": c.scheme}}, func(w http.ResponseWriter, _ string, id any) {
				result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
			})
			inner := agent.Config.Handler
			agent.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && c.want(r) {
					right.Store(true)
				}
				inner.ServeHTTP(w, r)
			})
			w := newWorld(t, agent.URL)
			w.ports.Secrets = bridgetest.Secrets{"token": "ada:secret"}
			w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}, CredentialsFile: "token"})
			w.run(t)
			if err := w.link.Deliver(t.Context(), w.offer(t, "x")); err != nil || !right.Load() {
				t.Errorf("the credentials are right: %t, %v", right.Load(), err)
			}
		})
	}
}

func TestRunPinsTheKeyOfTheCard(t *testing.T) {
	t.Parallel()
	_, first, _ := ed25519.GenerateKey(nil)
	_, second, _ := ed25519.GenerateKey(nil)
	var changed, forged, away atomic.Bool
	server := signedCard(t, func() ed25519.PrivateKey {
		if changed.Load() {
			return second
		}
		return first
	}, forged.Load, away.Load)
	w := newWorld(t, server.URL)
	run := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return w.link.Run(ctx, cancel)
	}
	if err := run(); !errors.Is(err, context.Canceled) {
		t.Fatalf("a signed card is %v", err)
	}
	details := w.link.(bridge.Describer).Describe() //nolint:forcetypeassert // it is one
	if details.Negotiated["signed"] == "no" || len(details.Obstacles) > 0 {
		t.Errorf("the link is described as %+v", details)
	}
	forged.Store(true)
	if err := run(); err == nil || !strings.Contains(err.Error(), "the signature of the card is invalid") {
		t.Errorf("a forged card is %v", err)
	}
	forged.Store(false)
	changed.Store(true)
	if err := run(); err == nil || !strings.Contains(err.Error(), "baton a2a confirm researcher") {
		t.Errorf("a card with another key is %v", err)
	}
	unpin := w.link.(bridge.Pinned).Unpin //nolint:forcetypeassert // it is one
	away.Store(true)
	unpin() // an operator confirms the second key, but the key set is away
	if err := run(); err == nil || strings.Contains(err.Error(), "baton a2a confirm") || !strings.Contains(err.Error(), "503") {
		t.Errorf("a card whose key set is away is %v", err)
	}
	away.Store(false)
	changed.Store(false)
	if err := run(); !errors.Is(err, context.Canceled) {
		t.Errorf("the first key is %v", err)
	}
	unpin() // nothing is left to confirm
	changed.Store(true)
	if err := run(); err == nil || !strings.Contains(err.Error(), "baton a2a confirm researcher") {
		t.Errorf("another key after an old confirmation is %v", err)
	}
	unpin()
	if err := run(); !errors.Is(err, context.Canceled) {
		t.Errorf("the confirmed key is %v", err)
	}
}

func TestDescribeNamesTheTasksThatNeedAnAuthorization(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	w := newWorld(t, agent.URL)
	w.run(t)
	first, second := w.offer(t, "first"), w.offer(t, "second")
	for _, d := range []federation.Delivery{first, second} {
		if err := w.link.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	obstacles := func() []string { return w.link.(bridge.Describer).Describe().Obstacles } //nolint:forcetypeassert // it is one
	agent.Task(0).Say(wire.TaskStateAuthRequired, "log in to the library")
	agent.Task(1).Say(wire.TaskStateWorking, "reading")
	w.awaitState(t, first.View.ID, federation.Assigned)
	w.awaitState(t, second.View.ID, federation.Assigned)
	want := "handoff " + first.View.ID.String() + ": the agent needs an authorization: log in to the library"
	if got := obstacles(); len(got) != 1 || got[0] != want {
		t.Errorf("the obstacles are %q, want %q", got, want)
	}
	agent.Task(0).Say(wire.TaskStateCompleted, "found")
	w.awaitState(t, first.View.ID, federation.Completed)
	for end := time.Now().Add(patience); len(obstacles()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after the end the obstacles are %q", obstacles())
		}
	}
}

func TestRunOpensTheStreamsOfResumedTasks(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	w := newWorld(t, agent.URL)
	stop := w.run(t)
	if err := w.link.Deliver(t.Context(), w.offer(t, "x")); err != nil {
		t.Fatal(err)
	}
	await := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); agent.Calls("SubscribeToTask") < n; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the task has %d streams, want %d", agent.Calls("SubscribeToTask"), n)
			}
		}
	}
	await(1)
	stop()
	w.run(t)
	await(2)
}

// The agent asks, the link goes down, and the first poll after a reconnect fails.
func TestDeliverTextWaitsUntilTheTaskIsRead(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	var broken atomic.Int32
	agent.Before = func(method string) error {
		if method == "GetTask" && broken.Add(-1) >= 0 {
			return errors.New("broken")
		}
		return nil
	}
	w := newWorld(t, agent.URL)
	stop := w.run(t)
	offer := w.offer(t, "x")
	if err := w.link.Deliver(t.Context(), offer); err != nil {
		t.Fatal(err)
	}
	agent.Task(0).Say(wire.TaskStateInputRequired, "Which topic?")
	w.awaitState(t, offer.View.ID, federation.Assigned)
	agent.Task(0).Say(wire.TaskStateWorking, "") // in response to the answer
	stop()
	broken.Store(2)
	w.run(t)
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := federation.Text{ID: id, Author: w.ada, To: agentDID, Body: "Birds", About: offer.View.ID}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := w.link.(bridge.TextLink).DeliverText(t.Context(), text) //nolint:forcetypeassert // it is one
		if err == nil {
			break
		}
		if _, away := errors.AsType[*federation.UnavailableError](err); !away || time.Now().After(end) {
			t.Fatalf("the answer is %v", err)
		}
	}
	if got := agent.Texts(agent.Task(0)); !slices.Contains(got, "Birds") {
		t.Errorf("the agent has %q", got)
	}
}

//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// approve gives the authorize page at an address a pairing code, and follows its redirect to the program
// that asked.
func approve(t *testing.T, h *house, address, code string) {
	t.Helper()
	v := newVisitor(t, h)
	page := v.ask(t, http.MethodGet, strings.TrimPrefix(address, h.url()), "", "", nil)
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if form == nil {
		t.Fatalf("the page has no form: %s", page)
	}
	var back string
	v.ask(t, http.MethodPost, "/oauth/authorize", "application/x-www-form-urlencoded", "as=code&code="+code+"&form="+form[1], &back)
	v.url = back
	v.ask(t, http.MethodGet, "", "", "", nil)
}

// scriptedModel is a server of a model, which calls tools of Baton in a fixed order.
type scriptedModel struct {
	*httptest.Server

	steps []scriptedCall

	mu      sync.Mutex
	results []string // of the calls
}

// scriptedCall is one call of a model. {id} in its arguments is the first handoff of the results.
type scriptedCall struct{ tool, arguments string }

// next returns the call after those with results, or false after the last one.
func (m *scriptedModel) next(results []string) (scriptedCall, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(results) > len(m.results) {
		m.results = results
	}
	if len(results) >= len(m.steps) {
		return scriptedCall{}, false
	}
	call := m.steps[len(results)]
	id := regexp.MustCompile("01[0-9A-Z]{24}").FindString(strings.Join(results, " "))
	call.arguments = strings.ReplaceAll(call.arguments, "{id}", id)
	return call, true
}

// readRequest reads the request of a host into v. It answers any other request, and returns false.
func readRequest(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, v) != nil {
		w.WriteHeader(http.StatusNotFound)
		return false
	}
	w.Header().Set("Content-Type", "text/event-stream")
	return true
}

// event is one event of a streamed answer. Its type is a member too.
type event struct{ name, members string }

func sendEvents(w io.Writer, events ...event) {
	for _, e := range events {
		_, _ = fmt.Fprintf(w, "event: %[1]s\ndata: {\"type\":%[1]q,%[2]s}\n\n", e.name, e.members)
	}
}

type messagesRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// resultsOf returns the results of the tools in a request.
func (r messagesRequest) resultsOf() []string {
	var all []string
	for _, message := range r.Messages {
		var blocks []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(message.Content, &blocks) != nil {
			continue // plain text
		}
		for _, block := range blocks {
			if block.Type == "tool_result" {
				all = append(all, string(block.Content))
			}
		}
	}
	return all
}

// serveMessages answers a request of the Messages API with the next call, or with text after the last one.
func (m *scriptedModel) serveMessages(w http.ResponseWriter, r *http.Request) {
	var asked messagesRequest
	if !readRequest(w, r, &asked) {
		return
	}
	results := asked.resultsOf()
	start, delta, stop := `{"type":"text","text":""}`, `{"type":"text_delta","text":"I am done."}`, "end_turn"
	call, more := m.next(results)
	for _, tool := range asked.Tools {
		if more && tool.Name == "mcp__baton__"+call.tool {
			start = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, len(results), tool.Name)
			delta, stop = fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, strconv.Quote(call.arguments)), "tool_use"
		}
	}
	sendEvents(
		w,
		event{"message_start", fmt.Sprintf(`"message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`, asked.Model)},
		event{"content_block_start", `"index":0,"content_block":` + start},
		event{"content_block_delta", `"index":0,"delta":` + delta},
		event{"content_block_stop", `"index":0`},
		event{"message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":1}`, stop)},
		event{"message_stop", `"index":0`},
	)
}

type responsesRequest struct {
	Input []struct {
		Type   string          `json:"type"`
		Output json.RawMessage `json:"output"`
	} `json:"input"`
	Tools []struct {
		Name  string `json:"name"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	} `json:"tools"`
}

// serveResponses answers a request of the Responses API with the next call, or with text after the last one.
func (m *scriptedModel) serveResponses(w http.ResponseWriter, r *http.Request) {
	var asked responsesRequest
	if !readRequest(w, r, &asked) {
		return
	}
	var results []string
	for _, item := range asked.Input {
		if item.Type == "function_call_output" {
			results = append(results, string(item.Output))
		}
	}
	item := `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I am done."}]}`
	call, more := m.next(results)
	for _, server := range asked.Tools {
		for _, tool := range server.Tools {
			if more && server.Name == "mcp__baton" && tool.Name == call.tool {
				item = fmt.Sprintf(`{"type":"function_call","id":"fc_%[1]d","call_id":"call_%[1]d","namespace":"mcp__baton","name":%[2]q,"arguments":%[3]q}`, len(results), call.tool, call.arguments)
			}
		}
	}
	sendEvents(
		w,
		event{"response.created", `"response":{"id":"resp_1"}`},
		event{"response.output_item.done", `"item":` + item},
		event{"response.completed", `"response":{"id":"resp_1","usage":{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}}`},
	)
}

// doesTheWorkOfAnIRCUser logs in a host with a pairing code from IRC. The host then finds, claims and
// completes the offer of another person on IRC. The result of logIn gives the host a prompt.
func doesTheWorkOfAnIRCUser(
	t *testing.T, api func(*scriptedModel, http.ResponseWriter, *http.Request), logIn func(s *homeServer, model, code string) func(prompt string) string,
) {
	t.Helper()
	eliza, scholar := newPerson(t), newPerson(t)
	binding := "[[bindings]]\nnetwork = \"client\"\nname = %[1]q\ndid = %[1]q\nvouch = true\n"
	s := newHomeServer(t, fmt.Sprintf(binding, eliza.did), fmt.Sprintf(binding, scholar.did), "[limits]\n"+anyAddress)
	voice, human := s.login(t, "eliza", eliza), s.login(t, "scholar", scholar)
	join(t, voice)
	join(t, human)
	model := &scriptedModel{steps: []scriptedCall{
		{"handoff_list", `{"claimable":true}`},
		{"handoff_claim", `{"id":"{id}","idempotency_key":"c"}`},
		{"handoff_progress", `{"id":"{id}","note":"two of three","idempotency_key":"p"}`},
		{"handoff_complete", `{"id":"{id}","note":"here are three","idempotency_key":"d"}`},
	}}
	model.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api(model, w, r) }))
	t.Cleanup(model.Close)
	code := regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(asksBaton(t, human, "pair"))
	prompt := logIn(s, model.URL, code)
	if told := asksBaton(t, voice, "offer anyone Cite three sources"); !strings.Contains(told, "offer: it is open now") {
		t.Fatalf("the offer is answered %q", told)
	}
	var said string
	await(t, "a call of a tool", func() bool { // a host may ask its model before it has the tools
		said = prompt("Find open work, do it and report.")
		return len(model.results) > 0
	})
	if !strings.Contains(said, "I am done.") || len(model.results) != len(model.steps) || !strings.Contains(model.results[len(model.results)-1], "completed") {
		t.Errorf("the host says %q after %s", said, model.results)
	}
	next(t, voice, "the result", func(m bridgetest.IRCMessage) bool {
		return strings.Contains(m.Params[len(m.Params)-1], "here are three")
	})
}

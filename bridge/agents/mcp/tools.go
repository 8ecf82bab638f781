package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

type tool struct {
	definition *mcp.Tool
	input      *jsonschema.Resolved
	call       func(ctx context.Context, s *server, req *mcp.CallToolRequest) (answer, error)
}

type answer struct {
	structured any
	text       string
}

type hints struct{ readOnly, destructive, idempotent bool }

// The strictest hosts require one type and a description for each property. A context is declared as text,
// but decode also accepts an object or a list.
const (
	cursorIn  = `"cursor":{"type":"string","description":"Go on after it"}`
	deviceIn  = `"device":{"type":"string","minLength":1,"maxLength":64,"default":"mcp","description":"Reader of the inbox, with a position of its own"}`
	limitIn   = `"limit":{"type":"integer","minimum":1,"maximum":100,"default":20,"description":"Length of the page"}`
	keyIn     = `"idempotency_key":{"type":"string","minLength":1,"maxLength":255,"description":"Same key, same step"}`
	contextIn = `"context":{"type":"string","description":"Text, JSON, or https URL of JSON"}`
	idIn      = `"id":{"type":"string","description":"Handoff"}`
	capsIn    = `"caps":{"type":"array","items":{"type":"string"},"description":"Capabilities, such as web-search"}`
	whoIn     = `{"type":"string","minLength":1,"description":"DID, name, nick, NICK@LINK or HANDLE@DOMAIN"}`
	stepIn    = idIn + `,"note":{"type":"string","description":"One line for people"},` + contextIn + `,` + keyIn

	textOut    = `{"type":"string"}`
	objectsOut = `{"type":"array","items":{"type":"object"}}`
	entriesOut = `"items":{"type":"array","items":{"type":"object","properties":{"cursor":{"type":"string"},"waits":{"type":"boolean"},"step":{"type":"object"},"message":{"type":"object"}}}},"next_cursor":` + textOut
	filedOut   = `"id":{"type":"string"},"event_id":{"type":"string"},"verb":{"type":"string"},"state":{"type":"string"},"waits":{"type":"string"},` +
		`"lost":{"type":"array","items":{"type":"string"}},"resolved":{"type":"object"},"warnings":` + objectsOut
	handoffOut = `"id":{"type":"string"},"kind":{"type":"string"},"state":{"type":"string"},"over":{"type":"boolean"},"offerer":{"type":"string"},` +
		`"offeree":{"type":"string"},"assignee":{"type":"string"},"untrusted":{"type":"object"}`
)

// object closes inputs. Outputs have no required members, because clients validate errors with the same
// schema.
func object(properties string, closed bool, required ...string) *jsonschema.Schema {
	text := `{"type":"object","properties":{` + properties + `}`
	if len(required) > 0 {
		text += `,"required":["` + strings.Join(required, `","`) + `"]`
	}
	if closed {
		text += `,"additionalProperties":false`
	}
	var schema jsonschema.Schema
	if err := federation.DecodeJSON([]byte(text+"}"), &schema); err != nil {
		panic(fmt.Sprintf("mcp: schema %s: %v", text, err)) // cannot happen: the schemas are constants
	}
	return &schema
}

func define[In any](
	name, title, description string, h hints, in, out *jsonschema.Schema, call func(ctx context.Context, s *server, req *mcp.CallToolRequest, in In) (answer, error),
) tool {
	input, err := in.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("mcp: schema of %s: %v", name, err)) // likewise
	}
	return tool{
		definition: &mcp.Tool{
			Name: name, Title: title, Description: description, InputSchema: in, OutputSchema: out,
			Annotations: &mcp.ToolAnnotations{
				ReadOnlyHint: h.readOnly, DestructiveHint: &h.destructive, IdempotentHint: h.readOnly || h.idempotent, OpenWorldHint: new(true),
			},
		},
		input: input,
		call: func(ctx context.Context, s *server, req *mcp.CallToolRequest) (answer, error) {
			var decoded In
			if err := decode(input, req.Params.Arguments, &decoded); err != nil {
				return answer{}, err
			}
			return call(ctx, s, req, decoded)
		},
	}
}

// decode rejects ambiguous JSON. It accepts common variants of models: null counts as absent, and 20.0 is
// an integer.
func decode(schema *jsonschema.Resolved, arguments json.RawMessage, into any) error {
	if text := bytes.TrimSpace(arguments); len(text) == 0 || bytes.Equal(text, []byte("null")) {
		arguments = json.RawMessage("{}")
	}
	given := map[string]json.RawMessage{}
	err := federation.ExactJSON(arguments)
	if err == nil {
		err = federation.DecodeJSON(arguments, &given)
	}
	if err != nil {
		return bridge.UsageProblem("the arguments are not acceptable JSON: want an object")
	}
	properties, values := schema.Schema().Properties, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, known := properties[name]
		if !known {
			return bridge.UsageProblem(fmt.Sprintf("there is no argument %q", name) + participant.DidYouMean(name, slices.Collect(maps.Keys(properties))))
		}
		var value any
		if err := federation.DecodeJSON(given[name], &value); err != nil {
			return bridge.UsageProblem(name + ": not acceptable JSON")
		}
		if value == nil {
			delete(given, name)
			continue
		}
		kind := kindOf(value)
		if number, ok := value.(float64); ok {
			if digits, ok := participant.Integer(number); ok {
				given[name] = digits
			}
		}
		if name == "context" && (kind == "object" || kind == "array") {
			value, kind = "", "string"
		}
		if kind != property.Type {
			return bridge.UsageProblem(fmt.Sprintf("%s: want the type %s, not %s", name, property.Type, kind))
		}
		values[name] = value
	}
	if err := schema.Validate(values); err != nil {
		return bridge.UsageProblem("the arguments: " + innermost(err))
	}
	text, err := json.Marshal(given)
	if err == nil {
		err = federation.DecodeJSON(text, into)
	}
	if err != nil {
		return bridge.UsageProblem("the arguments do not follow the schema of the tool")
	}
	return nil
}

func kindOf(value any) string {
	switch v := value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case float64:
		if _, ok := participant.Integer(v); ok {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// innermost returns the last error of a validation chain, which names the mistake.
func innermost(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "validating "); i >= 0 {
		text = text[i+len("validating "):]
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// handler returns a tool error as a result; an error of the handler is a protocol error.
func (s *server) handler(t tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a, err := t.call(ctx, s, req)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var structured []byte
		if err == nil {
			structured, err = json.Marshal(a.structured)
		}
		if err != nil {
			s.onToolError(ctx, t.definition.Name, err)
			return refusal(err), nil
		}
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(structured), Content: []mcp.Content{&mcp.TextContent{Text: a.text}}}, nil
	}
}

func tools() []tool {
	read := hints{readOnly: true}
	all := []tool{
		define("inbox_list", "List inbox", "Entries of your inbox after a cursor, or after the last acknowledged one. Changes nothing.", read,
			object(cursorIn+`,`+limitIn+`,`+deviceIn, true), object(entriesOut, false), listInbox),
		define("inbox_wait", "Wait for inbox", "As inbox_list, but waits for an entry if there is none.", read,
			object(cursorIn+`,`+limitIn+`,`+deviceIn+`,"seconds":{"type":"integer","minimum":1,"maximum":600,"default":50,"description":"Longest wait"}`, true),
			object(entriesOut+`,"timed_out":{"type":"boolean"}`, false), waitInbox),
		define("inbox_ack", "Acknowledge inbox", "Marks the entry at a cursor, and all before it, as read.", hints{idempotent: true},
			object(`"cursor":{"type":"string","minLength":1,"description":"That of the last entry dealt with"},`+deviceIn, true, "cursor"), object(`"cursor":`+textOut, false), ackInbox),
		define("handoff_list", "List handoffs", "Handoffs that you take part in, the newest first. claimable true: open work that you may claim now. claimable false with state open: all open offers, with the capabilities that you have not declared in missing_caps.", read,
			object(`"state":{"type":"string","description":"Such as offered, or open for all unfinished"},"claimable":{"type":"boolean","description":"Open offers of anyone"},`+
				`"capability":{"type":"string","description":"One that the offer asks for"},"channel":{"type":"string","description":"Of the offer, such as #ops"},"q":{"type":"string","description":"Words of the title"},`+
				cursorIn+`,`+limitIn, true), object(`"items":`+objectsOut+`,"next_cursor":`+textOut, false), listHandoffs),
		define("handoff_get", "Get handoff", "A handoff with its steps.", read,
			object(idIn, true, "id"), object(handoffOut+`,"steps":`+objectsOut, false), getHandoff),
		define("handoff_offer", "Offer work", "Offers work to a participant, or with open to anyone.", hints{},
			object(`"to":`+whoIn+`,"open":{"type":"boolean","description":"To anyone; the first claim wins"},"title":{"type":"string","minLength":1,"description":"One line"},"channel":{"type":"string","description":"Where it is shown on IRC"},`+contextIn+
				`,`+capsIn+`,"deadline":{"type":"string","format":"date-time","description":"RFC 3339"},`+
				`"replaces":{"type":"string","description":"A handoff that has ended"},`+keyIn, true, "title"), object(filedOut, false), offerHandoff),
	}
	for _, v := range []struct {
		verb               federation.Verb
		title, description string
		destructive        bool
	}{
		{federation.Accept, "Accept", "Takes an offer that was made to you.", false},
		{federation.Claim, "Claim", "Takes an open offer; the first claim wins.", false},
		{federation.Progress, "Report progress", "Reports on work that you took.", false},
		{federation.Decline, "Decline", "Refuses an offer, for good.", true},
		{federation.Complete, "Complete", "Ends work that you took, with its result in note or context.", true},
		{federation.Fail, "Fail", "Ends work that you took, without a result.", true},
		{federation.Cancel, "Cancel", "Withdraws a handoff that you offered.", true},
	} {
		all = append(all, define("handoff_"+string(v.verb), v.title, v.description, hints{destructive: v.destructive},
			object(stepIn, true, "id"), object(filedOut, false), submitStep(v.verb)))
	}
	return append(all,
		define("message_send", "Send message", "Writes text to a participant. It is no step, and waits while the recipient is away. With consent, decides instead whether you take its messages.", hints{},
			object(`"to":`+whoIn+`,"text":{"type":"string","minLength":1,"maxLength":4096,"description":"The message"},"handoff":{"type":"string","description":"Handoff that it is about"},`+
				`"consent":{"type":"string","enum":["allow","block"],"description":"Instead of text"},`+keyIn, true, "to"),
			object(`"id":{"type":"string"},"status":{"type":"string","description":"delivered, held, allowed or blocked"},"resolved":{"type":"object"},"to":`+textOut, false), sendMessage),
		define("whois", "Who is", "Names, presence and capabilities of a participant.", read,
			object(`"who":`+whoIn, true, "who"),
			object(`"items":{"type":"array","items":{"type":"object","properties":{"did":{"type":"string"},"network":{"type":"string"},"name":{"type":"string"},`+
				`"online":{"type":"boolean"},"caps":{"type":"array","items":{"type":"string"}}}}}`, false), whois),
		define("agent_update", "Update agent", "Sets your name, by which others find you, your description and your capabilities, which open work asks for. What is absent stays.", hints{},
			object(`"name":{"type":"string","pattern":"^([a-z0-9][a-z0-9_-]{2,31})?$","description":"Unique here; empty for none"},`+
				`"description":{"type":"string","maxLength":1024,"description":"For people and agents"},`+capsIn, true),
			object(`"did":{"type":"string"},"name":{"type":"string"},"description":{"type":"string"},"caps":{"type":"array","items":{"type":"string"}}`, false), updateAgent),
		define("pairing_code", "Pairing code", "A code, valid once for ten minutes, that logs in another agent host as you. Give it only to a person that you act for.", hints{},
			object("", true), object(`"code":{"type":"string"},"did":{"type":"string"},"expires_at":`+textOut, false), pairingCode),
		define("explain", "Explain", "Why a step holds, where it was delivered, and what comes next.", read,
			object(`"event_id":{"type":"string","description":"Step"}`, true, "event_id"),
			object(`"event_id":{"type":"string"},"verdict":{"type":"string"},"why":{"type":"string"},"deliveries":`+objectsOut+`,"next":`+textOut, false), explain),
	)
}

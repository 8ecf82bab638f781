package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"baton/bridge"
	"baton/federation"
)

// tool is one tool: how it is described, and what it does.
type tool struct {
	definition *mcp.Tool
	input      *jsonschema.Resolved
	call       func(ctx context.Context, s *server, req *mcp.CallToolRequest) (answer, error)
}

// answer is the result of a tool.
type answer struct {
	structured any
	text       string
}

// hints are what a host may assume of a tool.
type hints struct{ readOnly, destructive, idempotent bool }

// Parts of schemas that several tools have.
const (
	cursorIn  = `"cursor":{"type":"string","description":"Go on after it"}`
	deviceIn  = `"device":{"type":"string","minLength":1,"maxLength":64,"default":"mcp","description":"Reader of the inbox, with a position of its own"}`
	limitIn   = `"limit":{"type":"integer","minimum":1,"maximum":100,"default":20}`
	keyIn     = `"idempotency_key":{"type":"string","minLength":1,"maxLength":255,"description":"Same key, same step"}`
	contextIn = `"context":{"description":"Object, list, or https URL of one","type":["object","array","string"]}`
	idIn      = `"id":{"type":"string","description":"Handoff"}`
	stepIn    = idIn + `,"note":{"type":"string"},` + contextIn + `,` + keyIn

	textOut    = `{"type":"string"}`
	entriesOut = `"items":{"type":"array","items":{"type":"object","properties":{"cursor":{"type":"string"},"waits":{"type":"boolean"},"step":{"type":"object"},"message":{"type":"object"}}}},"next_cursor":` + textOut
	filedOut   = `"id":{"type":"string"},"event_id":{"type":"string"},"verb":{"type":"string"},"state":{"type":"string"},"waits":{"type":"string"},` +
		`"lost":{"type":"array","items":{"type":"string"}},"warnings":{"type":"array","items":{"type":"object"}}`
	handoffOut = `"id":{"type":"string"},"kind":{"type":"string"},"state":{"type":"string"},"over":{"type":"boolean"},"offerer":{"type":"string"},` +
		`"offeree":{"type":"string"},"assignee":{"type":"string"},"untrusted":{"type":"object"}`
)

// object returns the schema of an object. Inputs are closed. Outputs require nothing: clients hold
// errors to the same schema.
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
		panic(fmt.Sprintf("mcp: schema %s: %v", text, err)) // a mistake of this file
	}
	return &schema
}

// define returns a tool whose input is an In.
func define[In any](
	name, title, description string, h hints, in, out *jsonschema.Schema, call func(ctx context.Context, s *server, req *mcp.CallToolRequest, in In) (answer, error),
) tool {
	input, err := in.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("mcp: schema of %s: %v", name, err)) // a mistake of this file
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

// decode reads the arguments of a call. They have one reading and follow the schema.
func decode(schema *jsonschema.Resolved, arguments json.RawMessage, into any) error {
	if text := bytes.TrimSpace(arguments); len(text) == 0 || bytes.Equal(text, []byte("null")) {
		arguments = json.RawMessage("{}")
	}
	if err := federation.ExactJSON(arguments); err != nil {
		return bridge.UsageProblem("the arguments are not acceptable JSON: " + err.Error())
	}
	var value any
	if err := federation.DecodeJSON(arguments, &value); err != nil {
		return bridge.UsageProblem("the arguments are not acceptable JSON: " + err.Error())
	}
	if err := schema.Validate(value); err != nil {
		return bridge.UsageProblem("the arguments: " + innermost(err))
	}
	if err := federation.DecodeJSON(arguments, into); err != nil {
		return bridge.UsageProblem("the arguments: " + err.Error())
	}
	return nil
}

// innermost returns the end of the chain of a validation error, which says what is wrong.
func innermost(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "validating "); i >= 0 {
		text = text[i+len("validating "):]
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// handler returns the handler of a tool. An error of the tool is its result; an error of the
// handler is a fault of the protocol.
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
			s.told(ctx, t.definition.Name, err)
			return refusal(err), nil
		}
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(structured), Content: []mcp.Content{&mcp.TextContent{Text: a.text}}}, nil
	}
}

// tools returns all tools.
func tools() []tool {
	read := hints{readOnly: true}
	all := []tool{
		define("inbox_list", "List inbox", "Entries of your inbox after a cursor, or after the last acknowledged one. Changes nothing.", read,
			object(cursorIn+`,`+limitIn+`,`+deviceIn, true), object(entriesOut, false), listInbox),
		define("inbox_wait", "Wait for inbox", "As inbox_list, but waits for an entry where there is none.", read,
			object(cursorIn+`,`+limitIn+`,`+deviceIn+`,"seconds":{"type":"integer","minimum":1,"maximum":600,"default":50}`, true),
			object(entriesOut+`,"timed_out":{"type":"boolean"}`, false), waitInbox),
		define("inbox_ack", "Acknowledge inbox", "Marks the entry at a cursor, and all before it, as read.", hints{idempotent: true},
			object(`"cursor":{"type":"string","minLength":1},`+deviceIn, true, "cursor"), object(`"cursor":`+textOut, false), ackInbox),
		define("handoff_list", "List handoffs", "Handoffs that you take part in, the newest first. claimable true: open work that you may claim now. claimable false with state open: all open offers, with the capabilities that you have not declared in missing_caps.", read,
			object(`"state":{"type":"string","description":"Such as offered, or open for all unfinished"},"claimable":{"type":"boolean"},"capability":{"type":"string"},"channel":{"type":"string"},"q":{"type":"string","description":"Words of the title"},`+
				cursorIn+`,`+limitIn, true), object(`"items":{"type":"array","items":{"type":"object"}},"next_cursor":`+textOut, false), listHandoffs),
		define("handoff_get", "Get handoff", "A handoff with its steps.", read,
			object(idIn, true, "id"), object(handoffOut+`,"steps":{"type":"array","items":{"type":"object"}}`, false), getHandoff),
		define("handoff_offer", "Offer work", "Offers work to a DID, or with open to anyone.", hints{},
			object(`"to":{"type":"string","description":"DID"},"open":{"type":"boolean"},"title":{"type":"string","minLength":1},"channel":{"type":"string"},`+contextIn+
				`,"caps":{"type":"array","items":{"type":"string"},"description":"Capabilities that it asks for"},"deadline":{"type":"string","format":"date-time"},`+
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
			object(stepIn, true, "id"), object(filedOut, false), takeStep(v.verb)))
	}
	return append(all,
		define("message_send", "Send message", "Writes text to a participant. It is no step, and waits while the recipient is away. With consent, decides instead whether you take its messages.", hints{},
			object(`"to":{"type":"string","minLength":1,"description":"DID, AIRC handle, NICK@LINK, or HANDLE@DOMAIN of another registry"},"text":{"type":"string","minLength":1,"maxLength":4096},"handoff":{"type":"string","description":"Handoff that it is about"},`+
				`"consent":{"type":"string","enum":["allow","block"]},`+keyIn, true, "to"),
			object(`"id":{"type":"string"},"status":{"type":"string","description":"delivered, held, allowed or blocked"},"to":`+textOut, false), sendMessage),
		define("whois", "Who is", "Names, presence and capabilities of a participant.", read,
			object(`"who":{"type":"string","minLength":1,"description":"DID, AIRC handle, NICK@LINK, or HANDLE@DOMAIN of another registry"}`, true, "who"),
			object(`"items":{"type":"array","items":{"type":"object","properties":{"did":{"type":"string"},"network":{"type":"string"},"name":{"type":"string"},`+
				`"online":{"type":"boolean"},"caps":{"type":"array","items":{"type":"string"}}}}}`, false), whois),
		define("pairing_code", "Pairing code", "A code, valid once for ten minutes, that logs in another agent host as you. Give it only to a person that you act for.", hints{},
			object("", true), object(`"code":{"type":"string"},"did":{"type":"string"},"expires_at":`+textOut, false), pairingCode),
		define("explain", "Explain", "Why a step holds, where it was delivered, and what comes next.", read,
			object(`"event_id":{"type":"string"}`, true, "event_id"),
			object(`"event_id":{"type":"string"},"verdict":{"type":"string"},"why":{"type":"string"},"deliveries":{"type":"array","items":{"type":"object"}},"next":`+textOut, false), explain),
	)
}

// Package a2atask translates between handoffs and the tasks of external A2A agents: an offer becomes
// a message, and the states of a task become the steps of its handoff.
//
// spec: a2a-1.0, agent-faces §5
package a2atask

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Media types of message parts.
const (
	mediaText = "text/plain"
	mediaJSON = "application/json"
)

// metadataKey is the metadata member of a message with the terms of the handoff.
const metadataKey = "handoff"

// Offer returns the message that offers a handoff. It has the ID of the step and the context of the
// handoff, so that a repeated send is recognized. Passport is the URL of the proof of the handoff.
func Offer(ev federation.Event, view federation.View, passport string) (*wire.Message, []federation.Loss) {
	terms := map[string]any{"id": ev.Handoff.String(), "kind": string(view.Kind), "offerer": string(view.Offerer), "passport": passport}
	if !view.Deadline.IsZero() {
		terms["deadline"] = view.Deadline.UTC().Format(time.RFC3339)
	}
	if len(view.Caps) > 0 {
		caps := make([]any, len(view.Caps)) // the type required by protocol buffers
		for i, name := range view.Caps {
			caps[i] = name
		}
		terms["caps"] = caps
	}
	m := &wire.Message{
		ID: ev.ID.String(), ContextID: ev.Handoff.String(), Role: wire.MessageRoleUser, Metadata: map[string]any{metadataKey: terms},
		Parts: wire.ContentParts{textPart(ev.Title)},
	}
	part, losses := contextPart(ev.Context)
	if part != nil {
		m.Parts = append(m.Parts, part)
	}
	return m, losses
}

// Answer returns the message with which the offerer answers a question about a task.
func Answer(id federation.EventID, task wire.TaskID, contextID, text string) *wire.Message {
	return &wire.Message{ID: id.String(), TaskID: task, ContextID: contextID, Role: wire.MessageRoleUser, Parts: wire.ContentParts{textPart(text)}}
}

func textPart(text string) *wire.Part {
	part := wire.NewTextPart(text)
	part.MediaType = mediaText
	return part
}

// contextPart returns nil without a context.
func contextPart(context string) (*wire.Part, []federation.Loss) {
	switch {
	case context == "":
		return nil, nil
	case !federation.InlineContext(context):
		return wire.NewFileURLPart(wire.URL(context), ""), nil
	case !json.Valid([]byte(context)):
		return nil, []federation.Loss{{Field: "context", Fate: federation.Lost, Why: "the context is not JSON"}}
	}
	part := wire.NewDataPart(json.RawMessage(context)) // numbers stay as they were written
	part.MediaType = mediaJSON
	return part, nil
}

// Step is a step that corresponds to the state of a task.
type Step struct {
	Verb    federation.Verb
	Note    string
	Context string // JSON or a link, or ""
	// Key identifies a report of a task. A report with the key of an earlier one is a repeat.
	Key string
}

// Reading is the content of a task beyond the state of its handoff.
type Reading struct {
	Steps    []Step
	Question *Question // to the offerer, or nil
	// Blocked is the reason why the agent waits for its operator or for this gateway's operator, or
	// "".
	Blocked string
	Losses  []federation.Loss
}

// Question is a question of an agent about a task.
type Question struct {
	Key  string // the same for the same question
	Text string
}

// Read returns the steps that correspond to a task. State is the state of the handoff. A task yields
// no step if no step leads from there to its state, for example if its state is an earlier one. Work
// or a result claims an open offer. After any other end of the task, the offer stays open for other
// agents.
func Read(task *wire.Task, state federation.State) Reading {
	var r Reading
	begun, first := state == federation.Assigned, federation.Accept
	switch {
	case state == federation.Open && leavesOpen(task.Status.State):
		return r
	case state == federation.Open:
		first = federation.Claim
	case !begun && state != federation.Offered:
		return r
	}
	note, losses := translate.CutNote(noteOf(task.Status.Message))
	begin := func() {
		if !begun {
			r.Steps = append(r.Steps, Step{Verb: first, Key: string(first)})
		}
	}
	end := func(verb federation.Verb, note, context string) {
		r.Steps = append(r.Steps, Step{Verb: verb, Note: note, Context: context, Key: string(verb)})
	}
	switch task.Status.State {
	case wire.TaskStateUnspecified, wire.TaskStateSubmitted:
		return r
	case wire.TaskStateWorking:
		begin()
		if note != "" {
			r.Steps = append(r.Steps, Step{Verb: federation.Progress, Note: note, Key: statusKey(task)})
		}
	case wire.TaskStateInputRequired:
		begin()
		r.Question = &Question{Key: statusKey(task), Text: textOf(task.Status.Message)}
		if strings.TrimSpace(r.Question.Text) == "" {
			r.Question.Text = "The agent needs more input, and did not say which."
		}
		losses = nil // the question has all of the text
	case wire.TaskStateAuthRequired:
		r.Blocked = "the agent needs an authorization"
		if note != "" {
			r.Blocked += ": " + note
		}
		if state == federation.Open {
			return r
		}
		begin()
		note, _ = translate.CutNote(r.Blocked)
		r.Steps = append(r.Steps, Step{Verb: federation.Progress, Note: note, Key: statusKey(task)})
	case wire.TaskStateCompleted:
		begin()
		step := result(task.Status.Message, task.Artifacts)
		r.Steps, losses = append(r.Steps, step), nil
	case wire.TaskStateFailed:
		begin()
		end(federation.Fail, note, "")
	case wire.TaskStateCanceled:
		begin()
		end(federation.Fail, canceled(note), "")
	case wire.TaskStateRejected:
		verb := federation.Decline
		if begun {
			verb = federation.Fail
		}
		end(verb, note, "")
	}
	r.Losses = losses
	return r
}

func leavesOpen(state wire.TaskState) bool {
	return state == wire.TaskStateFailed || state == wire.TaskStateCanceled || state == wire.TaskStateRejected
}

func canceled(note string) string {
	if note == "" {
		return "canceled"
	}
	note, _ = translate.CutNote("canceled: " + note)
	return note
}

// ReadMessage returns the steps that correspond to a response without a task.
func ReadMessage(m *wire.Message, state federation.State) Reading {
	return Read(&wire.Task{Status: wire.TaskStatus{State: wire.TaskStateCompleted, Message: m}}, state)
}

// Lost returns the steps of a task without a further result.
func Lost(why string, state federation.State) Reading {
	return Read(&wire.Task{Status: wire.TaskStatus{State: wire.TaskStateFailed, Message: wire.NewMessage(wire.MessageRoleAgent, wire.NewTextPart(why))}}, state)
}

// The result contains the last message and the artifacts of the task. The context has the rest: a
// single data or link by itself, and any other content as the agent sent it.
func result(last *wire.Message, artifacts []*wire.Artifact) Step {
	artifacts = slices.DeleteFunc(slices.Clone(artifacts), func(a *wire.Artifact) bool { return a == nil || len(a.Parts) == 0 })
	produced := &wire.Message{}
	for _, a := range artifacts {
		produced.Parts = append(produced.Parts, present(a.Parts)...)
	}
	if last != nil {
		said := *last
		said.Parts = present(last.Parts)
		last = &said
	}
	note := noteOf(last)
	if note == "" {
		note = noteOf(produced)
	}
	step := Step{Verb: federation.Complete, Key: string(federation.Complete)}
	step.Note, _ = translate.CutNote(note)
	rest := map[string]any{}
	var parts wire.ContentParts
	if !saidBy(step.Note, produced) {
		rest["artifacts"], parts = artifacts, append(parts, produced.Parts...)
	}
	if !saidBy(step.Note, last) {
		rest["message"], parts = last, append(parts, last.Parts...)
	}
	switch {
	case len(rest) == 0:
		return step
	case len(parts) == 1 && parts[0].URL() != "":
		step.Context = string(parts[0].URL())
	case len(parts) == 1:
		step.Context = inline(parts[0].Data())
	}
	if step.Context == "" {
		step.Context = inline(rest)
	}
	return step
}

func present(parts wire.ContentParts) wire.ContentParts {
	return slices.DeleteFunc(slices.Clone(parts), func(p *wire.Part) bool { return p == nil })
}

func saidBy(note string, m *wire.Message) bool {
	if m == nil || len(m.Parts) == 0 {
		return true
	}
	onlyText := !slices.ContainsFunc(m.Parts, func(p *wire.Part) bool { return p.Text() == "" })
	return onlyText && textOf(m) == note
}

// inline returns "" for a value that cannot be inline.
func inline(value any) string {
	text, err := json.Marshal(value)
	if err != nil || !federation.InlineContext(string(text)) {
		return ""
	}
	return string(text)
}

func textOf(m *wire.Message) string {
	if m == nil {
		return ""
	}
	var lines []string
	for _, p := range m.Parts {
		if p != nil && strings.TrimSpace(p.Text()) != "" {
			lines = append(lines, strings.TrimSpace(p.Text()))
		}
	}
	return strings.Join(lines, "\n")
}

func noteOf(m *wire.Message) string { return federation.PlainText(translate.OneLine(textOf(m))) }

// The key is the ID of the status message, or the time of the status.
func statusKey(task *wire.Task) string {
	s := task.Status
	switch {
	case s.Message != nil && s.Message.ID != "":
		return fmt.Sprintf("%s %s", s.State, s.Message.ID)
	case s.Timestamp != nil:
		return fmt.Sprintf("%s %s", s.State, s.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	return string(s.State) + " " + textOf(s.Message)
}

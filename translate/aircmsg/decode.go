package aircmsg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

type data struct {
	ReplyTo   string          `json:"replyTo"`
	Ref       string          `json:"ref"` // replyTo in older acks
	RequestID string          `json:"requestId"`
	Status    string          `json:"status"`
	Message   string          `json:"message"`
	Reason    string          `json:"reason"` // message in older acks
	Error     string          `json:"error"`
	Note      string          `json:"note"`
	Result    json.RawMessage `json:"result"`
	Artifacts json.RawMessage `json:"artifacts"`
	Context   json.RawMessage `json:"context"`
	Event     federation.Verb `json:"event"`
	Handoff   struct {
		ID         string          `json:"id"`
		Event      federation.Verb `json:"event"`
		Note       string          `json:"note"`
		ContextRef string          `json:"context_ref"`
		ContextH   string          `json:"context_h"`
		Proof      *Proof          `json:"proof"`
	} `json:"handoff"`
}

// Decode reads the step requested by a payload. It returns [translate.ErrNotHandoff] for a payload
// about another subject. For an unreadable payload, it returns the readable members with a
// [*federation.RefusalError] that names the unreadable one. The registry and the home find the
// handoff of the message IDs, and check that the sender may take the step.
func Decode(payload json.RawMessage) (Step, error) {
	var e envelope
	if err := federation.DecodeJSON(payload, &e); err != nil || e.Type == "" {
		return Step{}, translate.ErrNotHandoff
	}
	if !slices.Contains([]string{typeRequest, typeResult, typeAck, typeSession, typeFlat, TypeHandoff}, e.Type) {
		return Step{}, translate.ErrNotHandoff
	}
	members := e.members(payload)
	s := Step{Explicit: e.Type == TypeHandoff}
	var d data
	err := unreadable(federation.DecodeJSON(members, &d)) // the other members are still decoded
	s.Proof = d.Handoff.Proof
	if verb := s.readVerb(e.Type, d); err == nil {
		err = verb
	}
	if id := s.readID(d); err == nil {
		err = id
	}
	if s.Verb == federation.Offer {
		if err == nil {
			err = s.readOffer(members)
		}
		return s, err
	}
	if refs := s.readRefs(d); err == nil {
		err = refs
	}
	if err != nil {
		return s, err
	}
	s.readText(d)
	s.readContext(d)
	return s, s.readHash(d.Handoff.ContextH)
}

func (s *Step) readVerb(kind string, d data) error {
	named := d.Handoff.Event
	if named == "" {
		named = d.Event
	}
	if named != "" {
		if !federation.ValidName(string(named)) || named == federation.Expire || named == federation.Confirm { // the home's own
			return &federation.RefusalError{Code: federation.UnknownVerb}
		}
		s.Verb, s.Explicit = named, true
		return nil
	}
	switch kind {
	case typeRequest, typeSession, typeFlat:
		s.Verb = federation.Offer
		return nil
	case typeAck:
		return s.readStatus(d.Status, map[string]federation.Verb{
			statusReceived: federation.Accept, statusProcessed: federation.Accept,
			statusRejected: federation.Decline, statusUnread: federation.Decline,
		})
	case typeResult:
		return s.readStatus(d.Status, map[string]federation.Verb{
			statusPartial: federation.Progress, statusCompleted: federation.Complete, statusFailed: federation.Fail,
		})
	}
	return malformed("data.handoff.event", "it is missing")
}

func (s *Step) readStatus(status string, verbs map[string]federation.Verb) error {
	verb, known := verbs[status]
	if !known {
		return malformed("data.status", fmt.Sprintf("%q is unknown for this type", status))
	}
	s.Verb = verb
	return nil
}

func (s *Step) readID(d data) error {
	if d.Handoff.ID == "" {
		return nil
	}
	id, err := federation.ParseEventID(d.Handoff.ID)
	if err != nil {
		return malformed("data.handoff.id", "want a ULID in upper case")
	}
	s.Handoff = id
	return nil
}

// Two different IDs are refused. The registry looks up the IDs of messages.
func (s *Step) readRefs(d data) error {
	for _, ref := range []string{d.ReplyTo, d.RequestID, d.Ref} {
		if ref == "" {
			continue
		}
		id, err := federation.ParseEventID(ref)
		if err != nil {
			s.Refs = append(s.Refs, ref)
			continue
		}
		if !s.Handoff.IsZero() && s.Handoff != id {
			return malformed("data", "it names two handoffs")
		}
		s.Handoff = id
	}
	return nil
}

// The first of the members with a text counts. Different text in the others is lost.
func (s *Step) readText(d data) {
	var result struct {
		Note string `json:"note"`
	}
	var text string
	if federation.DecodeJSON(d.Result, &text) != nil {
		_ = federation.DecodeJSON(d.Result, &result) // a result without a note has none
		text = result.Note
	}
	for _, note := range []string{d.Handoff.Note, text, d.Error, d.Message, d.Reason, d.Note} {
		switch {
		case note == "" || note == s.Note:
		case s.Note == "":
			s.Note = note
		default:
			s.Losses = append(s.Losses, federation.Loss{Field: "note", Fate: federation.Cut, Why: "several members contain a text, and a step has only one"})
			return
		}
	}
}

// Without a reference, the context is a JSON object with the members of the result except the note,
// the artifacts and the context.
func (s *Step) readContext(d data) {
	members := map[string]json.RawMessage{}
	var text string
	if federation.DecodeJSON(d.Result, &members) == nil {
		delete(members, "note")
	} else if there(d.Result) && federation.DecodeJSON(d.Result, &text) != nil {
		members = map[string]json.RawMessage{"result": d.Result}
	}
	if members == nil { // a null result
		members = map[string]json.RawMessage{}
	}
	if there(d.Artifacts) {
		members["artifacts"] = d.Artifacts
	}
	only := compact(d.Context)
	if len(members) == 0 && federation.InlineContext(only) {
		s.Context = only
	} else {
		if there(d.Context) {
			members["context"] = d.Context
		}
		s.Context = object(members)
	}
	if ref := d.Handoff.ContextRef; ref != "" {
		if s.Context != "" {
			s.Losses = append(s.Losses, federation.Loss{Field: "context", Fate: federation.Lost, Why: "a reference stands in its place"})
		}
		s.Context = ref
	}
}

// readHash ignores a hash without a reference.
func (s *Step) readHash(text string) error {
	if text == "" || s.Context == "" || federation.InlineContext(s.Context) {
		return nil
	}
	var ev federation.Event
	if err := translate.ReadContextHash(&ev, text); err != nil {
		return malformed("data.handoff.context_h", err.Error())
	}
	s.ContextHash = ev.ContextHash
	return nil
}

func there(member json.RawMessage) bool { return len(member) > 0 && string(member) != "null" }

func object(members map[string]json.RawMessage) string {
	if len(members) == 0 {
		return ""
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(members); err != nil {
		return ""
	}
	return compact(text.Bytes())
}

func compact(text []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return ""
	}
	return b.String()
}

// The refusal names the mistyped member of the payload. A nil error returns nil.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	if member, value := federation.MistypedMember(err); member != "" {
		return malformed("data."+member, "it is a "+value)
	}
	return malformed("payload", err.Error())
}

func malformed(what, why string) error {
	return &federation.RefusalError{Code: federation.InvalidTag, Detail: what + ", " + why}
}

// All vocabularies in use have single words.
const maxPriorityBytes = 32

type terms struct {
	Description string          `json:"description"`
	Task        json.RawMessage `json:"task"` // a text, or a [task]
	Summary     string          `json:"summary"`
	Text        string          `json:"text"`
	Priority    string          `json:"priority"`
	Deadline    json.RawMessage `json:"deadline"` // see [Step.readDeadline]
	Context     json.RawMessage `json:"context"`
	Files       json.RawMessage `json:"files"`
	Todos       json.RawMessage `json:"todos"`
	History     json.RawMessage `json:"history"`
	Handoff     struct {
		Title      string          `json:"title"`
		Caps       []string        `json:"caps"`
		Deadline   json.RawMessage `json:"deadline"`
		Channel    string          `json:"channel"`
		ContextRef string          `json:"context_ref"`
		ContextH   string          `json:"context_h"`
		Replaces   string          `json:"replaces"`
	} `json:"handoff"`
}

type task struct {
	Title    string          `json:"title"`
	Intent   json.RawMessage `json:"intent"`
	Priority string          `json:"priority"`
}

// spec: airc-shapes "A step as payload"; airc-v0.1.1 §10
func (s *Step) readOffer(members json.RawMessage) error {
	var t terms
	if err := unreadable(federation.DecodeJSON(members, &t)); err != nil {
		return err
	}
	var work task
	if there(t.Task) && federation.DecodeJSON(t.Task, &work.Title) != nil {
		if err := federation.DecodeJSON(t.Task, &work); err != nil {
			return malformed("data.task", "want a text or an object")
		}
	}
	text := first(t.Description, work.Title, t.Summary, t.Text, t.Handoff.Title)
	content := t.context(work)
	s.Title, s.Context, s.Losses = translate.FitWireTitle(text, content)
	if s.Title == "" {
		return &federation.RefusalError{Code: federation.MissingRequirement, Detail: "data.description"}
	}
	if err := s.readHash(t.Handoff.ContextH); err != nil {
		return err
	}
	if s.Context != content {
		s.ContextHash = "" // it was the hash of the original context
	}
	s.Channel = t.Handoff.Channel
	if err := s.readReplaces(t.Handoff.Replaces); err != nil {
		return err
	}
	if err := s.readPriority(first(t.Priority, work.Priority)); err != nil {
		return err
	}
	if err := s.readCaps(t.Handoff.Caps); err != nil {
		return err
	}
	if there(t.Deadline) {
		return s.readDeadline("data.deadline", t.Deadline)
	}
	return s.readDeadline("data.handoff.deadline", t.Handoff.Deadline)
}

func first(texts ...string) string {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

func (s *Step) readPriority(text string) error {
	if len(text) > maxPriorityBytes || strings.ContainsFunc(text, unicode.IsControl) {
		return malformed("data.priority", fmt.Sprintf("want at most %d bytes", maxPriorityBytes))
	}
	s.Priority = text
	return nil
}

func (s *Step) readReplaces(text string) error {
	if text == "" {
		return nil
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return malformed("data.handoff.replaces", "want a ULID in upper case")
	}
	s.Replaces = id
	return nil
}

func (s *Step) readCaps(caps []string) error {
	if len(caps) == 0 {
		return nil
	}
	var ev federation.Event
	if err := translate.ReadCaps(&ev, strings.Join(caps, ",")); err != nil {
		return malformed("data.handoff.caps", err.Error())
	}
	s.Caps = ev.Caps
	return nil
}

// A deadline is a whole number of Unix seconds, or an RFC 3339 time.
func (s *Step) readDeadline(member string, value json.RawMessage) error {
	if !there(value) {
		return nil
	}
	seconds, text := string(value), ""
	if federation.DecodeJSON(value, &text) == nil {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return malformed(member, "want unix seconds, or a time such as 2026-11-21T12:00:00Z")
		}
		seconds = strconv.FormatInt(at.Unix(), 10)
	}
	var ev federation.Event
	if err := translate.ReadDeadline(&ev, seconds); err != nil {
		return malformed(member, "want unix seconds, or a time such as 2026-11-21T12:00:00Z")
	}
	s.Deadline = ev.Deadline
	return nil
}

// The context is the reference of an offer, or JSON. The JSON is unchanged if the payload has no
// other members. Otherwise it is a member beside the members of sessions and flat payloads.
func (t terms) context(work task) string {
	if t.Handoff.ContextRef != "" {
		return t.Handoff.ContextRef
	}
	members := map[string]json.RawMessage{}
	for name, member := range map[string]json.RawMessage{
		"context": t.Context, "files": t.Files, "todos": t.Todos, "history": t.History, "intent": work.Intent,
	} {
		if there(member) {
			members[name] = member
		}
	}
	if only := string(t.Context); len(members) == 1 && federation.InlineContext(only) {
		return compact(t.Context)
	}
	return object(members)
}

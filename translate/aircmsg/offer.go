package aircmsg

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"baton/federation"
	"baton/translate"
)

// maxPriorityBytes bounds a priority: it is one word in every vocabulary in use.
const maxPriorityBytes = 32

// terms is what a payload may say of an offer, over all types that open one.
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

// task is what a flat payload says of the work.
type task struct {
	Title    string          `json:"title"`
	Intent   json.RawMessage `json:"intent"`
	Priority string          `json:"priority"`
}

// readOffer reads the terms of an offer.
//
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

// readReplaces reads the ID of the handoff to offer again.
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

// readDeadline reads a deadline: a whole number of Unix seconds, or an RFC 3339 time.
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

// context returns the reference of an offer, else its context as JSON: as it was
// sent where the payload has nothing beside it, else under its name among what
// sessions and flat payloads hold.
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

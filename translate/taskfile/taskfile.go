// Package taskfile reads and writes the records of a ".handoffs" directory: the minimal handoff
// protocol, version 0.1. It does no I/O.
//
// A record is one JSON object in its own file. Its member "status" is the state of the task. A
// [Record] keeps every member as it was read, including numbers and unknown members. [Record.Bytes]
// writes them unchanged, except the members that a step changes. A gateway adds only one member,
// "_fed" in the context.
package taskfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// MaxBytes bounds a record. The protocol has no limit.
const MaxBytes = 1 << 20

// Status is the state of a task.
type Status string

// The states.
const (
	Offered   Status = "offered"
	Accepted  Status = "accepted"
	Completed Status = "completed"
	Failed    Status = "failed"
	Rejected  Status = "rejected"
)

// Statuses returns all states.
func Statuses() []Status { return []Status{Offered, Accepted, Completed, Failed, Rejected} }

// Leads reports whether the protocol has a step from one state to another.
func (s Status) Leads(to Status) bool {
	next := map[Status][]Status{
		Offered: {Accepted, Rejected}, Accepted: {Completed, Failed}, Failed: {Offered}, Completed: nil, Rejected: nil,
	}
	return slices.Contains(next[s], to)
}

// ErrUnreadable is wrapped by the error of [Read] for a text that is not a record.
var ErrUnreadable = errors.New("taskfile: not a record")

// Record is one task.
type Record struct {
	ID          string
	From        string
	To          string // "" for any agent
	Status      Status
	Description string
	Created     time.Time
	Updated     time.Time

	members []member
}

type member struct {
	name string
	raw  json.RawMessage
}

// Read parses a record. Its error wraps [ErrUnreadable].
func Read(text []byte) (Record, error) {
	members, err := split(text)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	r := Record{members: members}
	var status, created, updated string
	for name, into := range map[string]*string{
		"task_id": &r.ID, "from_agent": &r.From, "status": &status, "description": &r.Description, "created_at": &created, "updated_at": &updated,
	} {
		if federation.DecodeJSON(r.raw(name), into) != nil || *into == "" && name != "description" {
			return Record{}, fmt.Errorf("%w: %s is not text", ErrUnreadable, name)
		}
	}
	if raw := r.raw("to_agent"); raw != nil && federation.DecodeJSON(raw, &r.To) != nil {
		return Record{}, fmt.Errorf("%w: to_agent is not text", ErrUnreadable)
	}
	if r.Status = Status(status); !slices.Contains(Statuses(), r.Status) {
		return Record{}, fmt.Errorf("%w: unknown status %q", ErrUnreadable, status)
	}
	if r.Created, err = readTime(created); err == nil {
		r.Updated, err = readTime(updated)
	}
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if _, err := r.context(); err != nil {
		return Record{}, fmt.Errorf("%w: context: %w", ErrUnreadable, err)
	}
	return r, nil
}

// split keeps members in order. It rejects repeated members at any depth.
func split(text []byte) ([]member, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	if err := federation.DecodeJSON(text, new(map[string]json.RawMessage)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var members []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		text, _ := name.(string)
		if slices.ContainsFunc(members, func(m member) bool { return m.name == text }) {
			return nil, fmt.Errorf("duplicate member %q", text)
		}
		members = append(members, member{text, raw})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return members, nil
}

// Python writes local times without a zone, which are read as UTC.
func readTime(text string) (time.Time, error) {
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + text[11:]
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not an ISO 8601 time", text)
}

func writeTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000-07:00") }

func (r Record) raw(name string) json.RawMessage {
	i := slices.IndexFunc(r.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return r.members[i].raw
}

// with adds a missing member at the end.
func (r Record) with(name string, raw json.RawMessage) Record {
	r.members = slices.Clone(r.members)
	if i := slices.IndexFunc(r.members, func(m member) bool { return m.name == name }); i >= 0 {
		r.members[i].raw = raw
	} else {
		r.members = append(r.members, member{name, raw})
	}
	return r
}

// FedMember is the gateway's member in the context.
const FedMember = "_fed"

func (r Record) context() ([]member, error) {
	raw := bytes.TrimSpace(r.raw("context"))
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	return split(raw)
}

// Context returns the context as JSON without the member of the gateway, or "" if it is empty.
func (r Record) Context() string {
	members, err := r.context()
	members = slices.DeleteFunc(members, func(m member) bool { return m.name == FedMember })
	if err != nil || len(members) == 0 {
		return ""
	}
	raw := join(members)
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil { // it was JSON when it was read
		panic("taskfile: " + err.Error())
	}
	return out.String()
}

// Terms returns the caps and the deadline in the context, or zero if absent. The members stay in
// the context. It reports unreadable members as losses, because the context has no fixed form.
func (r Record) Terms() (caps []string, deadline time.Time, losses []federation.Loss) {
	members, err := r.context()
	if err != nil {
		return nil, time.Time{}, nil
	}
	lose := func(field string, err error) {
		losses = append(losses, federation.Loss{Field: field, Fate: federation.Lost, Why: "context." + field + ": " + err.Error()})
	}
	for _, m := range members {
		switch m.name {
		case "caps":
			if caps, err = readCaps(m.raw); err != nil {
				lose(m.name, err)
			}
		case "deadline":
			if deadline, err = readDeadline(m.raw); err != nil {
				lose(m.name, err)
			}
		}
	}
	return caps, deadline, losses
}

// A command line writes only text, so the capabilities may be comma-separated.
func readCaps(raw json.RawMessage) ([]string, error) {
	var list []string
	var line string
	if federation.DecodeJSON(raw, &list) != nil {
		if federation.DecodeJSON(raw, &line) != nil {
			return nil, errors.New("want a list of texts")
		}
		for each := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(each))
		}
	}
	if list = slices.DeleteFunc(list, func(each string) bool { return each == "" }); len(list) == 0 {
		return nil, nil
	}
	var ev federation.Event
	err := translate.ReadCaps(&ev, strings.Join(list, ","))
	return ev.Caps, err
}

// A deadline is an RFC 3339 time, or Unix seconds as a number or a text. Fractions of a second, which
// Python writes, are truncated.
func readDeadline(raw json.RawMessage) (time.Time, error) {
	said := string(raw)
	if federation.DecodeJSON(raw, &said) == nil {
		if at, err := readTime(said); err == nil {
			return at.UTC().Truncate(time.Second), nil
		}
	}
	var ev federation.Event
	seconds, _, _ := strings.Cut(said, ".")
	if err := translate.ReadDeadline(&ev, seconds); err != nil {
		return time.Time{}, errors.New("want RFC 3339 or unix seconds")
	}
	return ev.Deadline, nil
}

// Fed returns the gateway's note in the record, or the zero Fed.
func (r Record) Fed() Fed {
	members, err := r.context()
	i := slices.IndexFunc(members, func(m member) bool { return m.name == FedMember })
	var fed Fed
	if err != nil || i < 0 || federation.DecodeJSON(members[i].raw, &fed) != nil || fed.Version != 1 {
		return Fed{}
	}
	return fed
}

// WithFed returns the record with a gateway's note in its context.
func (r Record) WithFed(fed Fed) (Record, error) {
	members, err := r.context()
	if err != nil {
		return r, err
	}
	raw, err := encode(fed)
	if err != nil {
		return r, err
	}
	if i := slices.IndexFunc(members, func(m member) bool { return m.name == FedMember }); i >= 0 {
		members[i].raw = raw
	} else {
		members = append(members, member{FedMember, raw})
	}
	return r.with("context", join(members)), nil
}

// Moved returns the record after a step, with another status and the time of the step.
func (r Record) Moved(to Status, now time.Time) Record {
	r.Status, r.Updated = to, now
	return r.with("status", text(string(to))).with("updated_at", text(writeTime(now)))
}

// For returns the record with another recipient.
func (r Record) For(agent string) Record {
	r.To = agent
	return r.with("to_agent", text(agent))
}

// New returns a new record. The context is a JSON object, or "".
func New(id, from, to, description, context string, now time.Time) (Record, error) {
	r := Record{ID: id, From: from, To: to, Status: Offered, Description: description, Created: now, Updated: now}
	if context == "" {
		context = "{}"
	}
	if _, err := split([]byte(context)); err != nil {
		return Record{}, fmt.Errorf("context: %w", err)
	}
	at := text(writeTime(now))
	r.members = []member{
		{"task_id", text(id)},
		{"from_agent", text(from)},
		{"to_agent", text(to)},
		{"status", text(string(Offered))},
		{"description", text(description)},
		{"context", json.RawMessage(context)},
		{"created_at", at},
		{"updated_at", at},
	}
	return r, nil
}

// Bytes returns the record in its written form: two spaces of indent and a line end.
func (r Record) Bytes() []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, join(r.members), "", "  "); err != nil { // each member was JSON when it was read
		panic("taskfile: " + err.Error())
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func join(members []member) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(text(m.name))
		out.WriteByte(':')
		out.Write(m.raw)
	}
	out.WriteByte('}')
	return out.Bytes()
}

func text(s string) json.RawMessage {
	raw, err := encode(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil { // every string has a JSON form
		panic("taskfile: " + err.Error())
	}
	return raw
}

func encode(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Members are the members of a response. Each client reads some of them.
type Members map[string]any

// PlainHandle normalizes "@", capitals and hyphens in a client's spelling of a handle. It keeps a domain,
// and letters and spaces outside ASCII.
func PlainHandle(text string) string {
	name, host, remote := strings.Cut(strings.TrimPrefix(LowerASCII(strings.Trim(text, " \t\r\n")), "@"), "@")
	name = strings.ReplaceAll(name, "-", "_")
	if remote {
		return name + "@" + host
	}
	return name
}

// First returns the first non-blank string among the named members.
func (o *Object) First(names ...string) string {
	for _, name := range names {
		var s string
		if federation.DecodeJSON(o.Members[name], &s) == nil && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// ISOTime formats a time with a fixed width, because clients compare times as text.
func ISOTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ProtocolVersion is the version of the well-known documents.
const ProtocolVersion = "0.2.0"

// Time returns a time member, in Unix seconds or as text, or the zero time if it is invalid.
func (o *Object) Time(name string) time.Time {
	var seconds int64
	if federation.DecodeJSON(o.Members[name], &seconds) == nil {
		return time.Unix(seconds, 0)
	}
	at, _ := time.Parse(time.RFC3339, o.First(name))
	return at
}

// MaxTextChars is the limit of deployed registries for the text of a message.
const MaxTextChars = 4000

// OrNull returns a JSON text, or null for none.
func OrNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}

// Cut truncates a text to maxChars characters.
func Cut(text string, maxChars int) string {
	if runes := []rune(text); len(runes) > maxChars {
		return string(runes[:maxChars])
	}
	return text
}

// JSONString encodes a text as JSON.
func JSONString(text string) json.RawMessage {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("airc: a string cannot be written as JSON: " + err.Error())
	}
	return quoted
}

// MessageIDBytes is the number of random bytes in a message id.
const MessageIDBytes = 16

// IDChars are the characters allowed in IDs of messages and keys.
const IDChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"

// NewMessageID returns a prefix followed by 128 random bits.
func NewMessageID(prefix string) string {
	random := make([]byte, MessageIDBytes)
	_, _ = rand.Read(random) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(random)
}

// Network is the label of this network, and the name of its only link.
const Network = "airc"

// ClockSkew is the tolerated difference between a message's timestamp and the local clock.
//
// spec: airc-v0.1.1 §7.3
const ClockSkew = 300 * time.Second

// Marshal is json.Marshal without HTML escapes.
func Marshal(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSpace(b.Bytes()), err
}

// Object is a JSON object with case-sensitive member names. Err is the first missing or wrong member; later
// reads are meaningless.
type Object struct {
	Members map[string]json.RawMessage
	Err     error
}

// ParseObject parses a body strictly: one object, no duplicate members.
func ParseObject(text []byte) (*Object, error) {
	unreadable := func(why string) error {
		return &ProblemError{Code: CodeBadRequest, Message: why, Unreadable: "json"}
	}
	if err := federation.ExactJSON(text); err != nil {
		return nil, unreadable("the body is not acceptable JSON: " + err.Error())
	}
	var o Object
	if err := federation.DecodeJSON(text, &o.Members); err != nil || o.Members == nil {
		return nil, unreadable("the body is not a JSON object")
	}
	return &o, nil
}

// Has reports whether a member is present and not null.
func (o *Object) Has(name string) bool {
	member, ok := o.Members[name]
	return ok && string(member) != "null"
}

// Text returns a member that must be a non-empty string.
func (o *Object) Text(name string) string {
	var s string
	if federation.DecodeJSON(o.Members[name], &s) != nil || s == "" {
		o.Fail(name + " is missing or not a string")
	}
	return s
}

// Nested returns an optional member that must be an object, unchanged.
func (o *Object) Nested(name string) json.RawMessage {
	if !o.Has(name) {
		return nil
	}
	if o.Members[name][0] != '{' {
		o.Fail(name + " is not an object")
	}
	return o.Members[name]
}

// Fail records the first reason to reject an object.
func (o *Object) Fail(why string) {
	if o.Err == nil {
		o.Err = Refuse(CodeBadRequest, why)
	}
}

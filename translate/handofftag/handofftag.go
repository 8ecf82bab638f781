// Package handofftag reads and writes the steps of a handoff as IRC message tags
// in the dialect of the handoff RFC: "+freeq.at/handoff" holds the verb and
// "+freeq.at/handoff-*" the rest.
//
// A step rides TAGMSG, or beside the text of a PRIVMSG or NOTICE. Every tag of
// the dialect is kept verbatim, known or not, because the signature covers
// whatever was there; [Codec.Decode] reads the known ones besides, strictly.
// STATUS says which sections of the sources hold.
//
// spec: freeq-handoff-rfc "The primitive"; handofftag "Tags"
package handofftag

import (
	"strings"

	"baton/federation"
	"baton/translate"
)

// Message is what an IRC message says about a handoff.
type Message struct {
	Command string            // TAGMSG, PRIVMSG or NOTICE
	Target  string            // as on the wire
	Tags    map[string]string // by full name, values unescaped
}

// Names of tags, without the vendor.
const (
	tagVerb        = "handoff"
	tagID          = "handoff-id"
	tagTo          = "handoff-to"
	tagFrom        = "handoff-from"
	tagTitle       = "handoff-task"
	tagContext     = "handoff-context"
	tagContextHash = "handoff-context-h"
	tagCaps        = "handoff-caps"
	tagDeadline    = "handoff-deadline"
	tagReplyTo     = "handoff-reply-to"
	tagNote        = "handoff-note"
	tagSource      = "handoff-src"
	tagSourceHash  = "handoff-src-h"
	tagFor         = "handoff-for"
	tagAck         = "handoff-ack"
	tagPriority    = "handoff-x-priority"
	tagEventID     = "eventid"
	tagSignature   = "sig"
)

// vendor stands before every name on the wire, and "+" before the vendor.
const vendor = "freeq.at/"

// Codec implements [translate.Codec] for this dialect. It is safe for concurrent
// use.
type Codec struct{}

var _ translate.Codec[Message] = Codec{}

// Encode writes a step that was signed in this dialect with exactly the tags
// that were signed. Nothing is lost: what does not fit a link is for the link to
// refuse.
func (Codec) Encode(s translate.Step) (Message, []translate.Loss, error) {
	ev := s.Event
	if ev.Dialect != federation.HandoffTags || len(ev.Fields) == 0 || ev.Signature.Text == "" {
		return Message{}, nil, errNotSigned
	}
	m := Message{Command: "TAGMSG", Target: ev.Venue, Tags: make(map[string]string, len(ev.Fields)+2)}
	for name, value := range ev.Fields {
		m.Tags["+"+vendor+name] = value
	}
	m.Tags["+"+vendor+tagSignature] = ev.Signature.Text
	if ev.Stamped {
		m.Tags["+"+vendor+tagEventID] = ev.ID.String()
	}
	return m, nil, nil
}

// Venue returns the place of a step as a signature covers it: a channel in lower
// case. Any other target is the second result false: a status prefix narrows a
// channel to some of its members, and a private exchange is named by DIDs.
func Venue(target string) (string, bool) {
	if !strings.HasPrefix(target, "#") || strings.ContainsAny(target, " ,\x07") {
		return "", false
	}
	return strings.ToLower(target), true
}

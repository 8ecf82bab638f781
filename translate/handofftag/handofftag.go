// Package handofftag reads and writes the steps of a handoff as IRC message tags in the dialect of
// the handoff RFC: "+freeq.at/handoff" contains the verb and "+freeq.at/handoff-*" the rest.
//
// The tags of a step are on a TAGMSG, or on a PRIVMSG or NOTICE with text. Every tag of the dialect
// is kept verbatim, known or unknown, because the signature covers all of them. [Codec.Decode] also
// reads the known ones strictly. STATUS lists the implemented sections of the sources.
//
// The RFC defines one kind of handoff. All steps of another kind name it in "+freeq.at/handoff-kind".
// A bounty is offered with "+freeq.at/handoff-bid-deadline" and awarded with
// "+freeq.at/handoff-accepts". These tags have the meaning of their namesakes in the act dialect.
//
// spec: freeq-handoff-rfc "The primitive"; handofftag "Tags"
package handofftag

import (
	"errors"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Names of tags, without the vendor.
const (
	tagVerb        = "handoff"
	tagKind        = "handoff-kind"
	tagID          = "handoff-id"
	tagTo          = "handoff-to"
	tagFrom        = "handoff-from"
	tagTitle       = "handoff-task"
	tagContext     = "handoff-context"
	tagContextHash = "handoff-context-h"
	tagCaps        = "handoff-caps"
	tagDeadline    = "handoff-deadline"
	tagBidDeadline = "handoff-bid-deadline"
	tagAccepts     = "handoff-accepts"
	tagReplaces    = "handoff-replaces"
	tagReplyTo     = "handoff-reply-to"
	tagNote        = "handoff-note"
	tagSource      = "handoff-src"
	tagSourceHash  = "handoff-src-h"
	tagFor         = "handoff-for"
	tagAck         = "handoff-ack" // not a part of a step without a verb
	tagPriority    = "handoff-x-priority"
	tagSubject     = "handoff-subject"
)

var errNotSigned = errors.New("handofftag: the step is not signed in this dialect")

// Codec implements [translate.Codec] for this dialect. It is safe for concurrent
// use.
type Codec struct{}

var _ translate.Codec[translate.Tagged] = Codec{}

// terms returns the known tags, in the order in which mistakes are reported.
func terms() []translate.Term {
	return []translate.Term{
		{Tag: tagFrom, Read: translate.ReadFrom},
		{Tag: tagTo, Read: translate.ReadTo},
		{Tag: tagFor, Read: translate.ReadFor},
		{Tag: tagTitle, Read: translate.ReadTitle},
		{Tag: tagContext, Read: translate.ReadContext},
		{Tag: tagContextHash, Read: translate.ReadContextHash},
		{Tag: tagCaps, Read: translate.ReadCaps},
		{Tag: tagDeadline, Read: translate.ReadDeadline},
		{Tag: tagBidDeadline, Read: translate.ReadBidDeadline},
		{Tag: tagAccepts, Read: translate.ReadAccepts},
		{Tag: tagReplaces, Read: translate.ReadReplaces},
		{Tag: tagReplyTo, Read: translate.ReadReplyTo},
		{Tag: tagNote, Read: translate.ReadNote},
		{Tag: tagPriority, Read: translate.ReadPriority},
	}
}

// Knows reports whether this codec interprets a tag. It carries all other tags unchanged.
func Knows(tag string) bool {
	return slices.ContainsFunc(terms(), func(t translate.Term) bool { return t.Tag == tag }) ||
		slices.Contains([]string{tagVerb, tagKind, tagID, tagAck, tagSource, tagSourceHash, tagSubject}, tag)
}

// Decode reads one message. The event has no ID if the message has none, no From if the tag is
// absent, and no Venue if it was sent to one user. Their meaning depends on the link.
func (Codec) Decode(m translate.Tagged) (federation.Event, error) {
	own, wrong := translate.OwnTags(m.Tags, federation.HandoffTags, tagAck)
	if len(own) == 0 {
		return federation.Event{}, translate.ErrNotHandoff
	}
	ev := translate.Name(own, tagID)
	if wrong != "" {
		return federation.Event{}, federation.Refuse(ev, wrong, "")
	}
	ev.Dialect, ev.Provenance = federation.HandoffTags, federation.Signed
	ev.Fields = translate.Fields(own, federation.HandoffTags)
	ev.Signature.Text = own[translate.TagSignature]
	if err := readIDs(&ev, own); err != nil {
		return federation.Event{}, err
	}
	if err := translate.ReadTarget(&ev, m.Target); err != nil {
		return federation.Event{}, err
	}
	if err := translate.ReadTerms(&ev, terms()); err != nil {
		return federation.Event{}, err
	}
	if ev.Verb == federation.Offer && ev.Title == "" {
		return federation.Event{}, translate.Missing(ev, tagTitle)
	}
	return ev, nil
}

// DecodeFromHome decodes one message as [Codec.Decode] does. It also reads the confirmed event from
// the receipt of a home.
//
// spec: handofftag "Confirm"
func (c Codec) DecodeFromHome(m translate.Tagged) (federation.Event, error) {
	ev, err := c.Decode(m)
	if err != nil || ev.Verb != federation.Confirm {
		return ev, err
	}
	text, there := ev.Fields[tagSubject]
	if !there {
		return ev, translate.Missing(ev, tagSubject)
	}
	if ev.Subject, err = federation.ParseEventID(text); err != nil {
		return ev, translate.Malformed(ev, tagSubject, "want a ULID in upper case")
	}
	return ev, nil
}

// Every later refusal can name the step.
func readIDs(ev *federation.Event, own map[string]string) error {
	if err := translate.ReadEventID(ev, own); err != nil {
		return err
	}
	if err := translate.ReadHandoff(ev, own, tagID); err != nil {
		return err
	}
	kind, there := own[tagKind]
	if !there {
		kind = string(federation.Handoff) // the RFC has no other
	}
	if err := translate.ReadKind(ev, kind); err != nil {
		return err
	}
	if err := translate.ReadVerb(ev, own, tagVerb); err != nil {
		return err
	}
	if ev.Verb == federation.Offer && ev.Stamped && ev.ID != ev.Handoff {
		return federation.Refuse(*ev, federation.InvalidEventID, "that of an offer is its handoff id")
	}
	return nil
}

// Encode writes a step signed in this dialect with exactly the signed tags. Nothing is lost, because
// a link refuses a step that does not fit.
func (Codec) Encode(s translate.Step) (translate.Tagged, []federation.Loss, error) {
	if s.Event.Dialect != federation.HandoffTags || len(s.Event.Fields) == 0 || s.Event.Signature.Text == "" {
		return translate.Tagged{}, nil, errNotSigned
	}
	return translate.Tagged{Command: "TAGMSG", Target: s.Event.Venue, Tags: translate.Wire(s.Event, nil)}, nil, nil
}

// Write returns the fields that a gateway signs for a step given only by its members, with the
// losses of [translate.Names.Fill].
func Write(ev federation.Event) (map[string]string, []federation.Loss) {
	fields := map[string]string{
		tagVerb: string(ev.Verb), tagID: ev.Handoff.String(), tagFrom: string(ev.From), tagTo: string(ev.To),
		tagFor: string(ev.For), tagTitle: ev.Title, tagCaps: strings.Join(ev.Caps, ","), tagReplyTo: ev.ReplyTo,
		tagPriority: ev.Priority, tagSubject: ev.Subject.String(),
	}
	if ev.Kind != federation.Handoff {
		fields[tagKind] = string(ev.Kind)
	}
	names := translate.Names{
		Note: tagNote, Deadline: tagDeadline, BidDeadline: tagBidDeadline, Accepts: tagAccepts, Replaces: tagReplaces,
		Source: tagSource, SourceHash: tagSourceHash,
		Context: tagContext, ContextHash: tagContextHash,
	}
	return fields, names.Fill(fields, ev)
}

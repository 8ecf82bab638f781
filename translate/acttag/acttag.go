// Package acttag reads and writes the steps of a handoff as IRC message tags in the dialect that
// freeq servers deploy. The kind is in "+freeq.at/act", the verb in "+freeq.at/act-verb", the other
// members in "+freeq.at/act-*", and the envelope in "+freeq.at/from" and "+freeq.at/eventid".
//
// The opening step has no act-id: its event ID is the ID of the handoff. Every act tag is kept
// verbatim, known or unknown, because the signature covers all of them. A step is always a TAGMSG.
// The tags for the value of a bounty ("act-price", "act-bid", "act-pay-to", "act-tx") are carried
// unread.
//
// STATUS lists the implemented sections of the sources.
//
// spec: freeq-act "Tags"; handofftag "Tags"
package acttag

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Names of tags, without the vendor.
const (
	tagKind        = "act"
	tagVerb        = "act-verb"
	tagID          = "act-id"
	tagTo          = "act-to"
	tagTitle       = "act-title"
	tagNote        = "act-note"
	tagCaps        = "act-caps"
	tagContext     = "act-ctx"
	tagContextHash = "act-ctx-h"
	tagDeadline    = "act-deadline"
	tagBidDeadline = "act-bid-deadline"
	tagAccepts     = "act-accepts"
	tagReplaces    = "act-replaces"
	tagSource      = "act-src"
	tagSourceHash  = "act-src-h"
	tagFor         = "act-for"
	tagSubject     = "act-subject"
	tagPriority    = "act-x-priority"
	tagReplyTo     = "act-x-reply-to" // ours: the dialect has none
	tagFrom        = "from"           // of the envelope
)

// This dialect allows an offer without a title.
const untitled = "untitled"

var errNotSigned = errors.New("acttag: the step is not signed in this dialect")

// Codec implements [translate.Codec] for this dialect. It is safe for concurrent
// use.
type Codec struct{}

var _ translate.Codec[translate.Tagged] = Codec{}

// terms returns the known tags, in the order in which mistakes are reported.
func terms() []translate.Term {
	return []translate.Term{
		{Tag: tagTo, Read: translate.ReadTo},
		{Tag: tagFor, Read: translate.ReadFor},
		{Tag: tagTitle, Read: translate.ReadTitle},
		{Tag: tagContext, Read: translate.ReadContext},
		{Tag: tagContextHash, Read: readContextHash},
		{Tag: tagCaps, Read: translate.ReadCaps},
		{Tag: tagDeadline, Read: translate.ReadDeadline},
		{Tag: tagBidDeadline, Read: translate.ReadBidDeadline},
		{Tag: tagAccepts, Read: translate.ReadAccepts},
		{Tag: tagReplaces, Read: translate.ReadReplaces},
		{Tag: tagNote, Read: translate.ReadNote},
		{Tag: tagPriority, Read: translate.ReadPriority},
		{Tag: tagReplyTo, Read: translate.ReadReplyTo},
	}
}

// readContextHash reads a hash unchanged, because freeq names no algorithm.
func readContextHash(ev *federation.Event, value string) error {
	ev.ContextHash = value
	return nil
}

// Knows reports whether this codec interprets a tag. It carries all other tags unchanged.
func Knows(tag string) bool {
	return slices.ContainsFunc(terms(), func(t translate.Term) bool { return t.Tag == tag }) ||
		slices.Contains([]string{tagKind, tagVerb, tagID, tagSource, tagSourceHash, tagSubject}, tag)
}

// Decode reads one message. The event has no From if the tag is absent, and no Venue if it was sent
// to one user. Their meaning depends on the link.
func (Codec) Decode(m translate.Tagged) (federation.Event, error) {
	return decode(m, readVerb)
}

func decode(m translate.Tagged, readVerb func(*federation.Event, map[string]string) error) (federation.Event, error) {
	own, wrong := translate.OwnTags(m.Tags, federation.ActTags)
	if len(own) == 0 {
		return federation.Event{}, translate.ErrNotHandoff
	}
	ev := translate.Name(own, tagID)
	if wrong != "" {
		return federation.Event{}, federation.Refuse(ev, wrong, "")
	}
	ev.Dialect, ev.Provenance = federation.ActTags, federation.Signed
	ev.Fields = translate.Fields(own, federation.ActTags)
	ev.Signature.Text = own[translate.TagSignature]
	for _, read := range []func(*federation.Event, map[string]string) error{readEventID, readKind, readVerb, readHandoff, readFrom} {
		if err := read(&ev, own); err != nil {
			return federation.Event{}, err
		}
	}
	if m.Command != "TAGMSG" {
		return federation.Event{}, federation.Refuse(ev, federation.MixedTags, "a step in these tags is a TAGMSG")
	}
	if err := translate.ReadTarget(&ev, m.Target); err != nil {
		return federation.Event{}, err
	}
	if err := translate.ReadTerms(&ev, terms()); err != nil {
		return federation.Event{}, err
	}
	if ev.Verb == federation.Offer && ev.Title == "" {
		ev.Title = untitled
	}
	return ev, nil
}

// Every later refusal can name the step. In this dialect, every step has an event ID.
func readEventID(ev *federation.Event, own map[string]string) error {
	if err := translate.ReadEventID(ev, own); err != nil || ev.Stamped {
		return err
	}
	return translate.Missing(*ev, translate.TagEventID)
}

func readKind(ev *federation.Event, own map[string]string) error {
	kind, there := own[tagKind]
	if !there {
		return translate.Missing(*ev, tagKind)
	}
	return translate.ReadKind(ev, kind)
}

func readVerb(ev *federation.Event, own map[string]string) error {
	if federation.Verb(own[tagVerb]) == federation.Confirm {
		return federation.Refuse(*ev, federation.WrongSender, "only a home confirms")
	}
	return translate.ReadVerb(ev, own, tagVerb)
}

// A handoff has the ID of its offer.
func readHandoff(ev *federation.Event, own map[string]string) error {
	if ev.Verb != federation.Offer {
		return translate.ReadHandoff(ev, own, tagID)
	}
	if _, there := own[tagID]; there {
		return federation.Refuse(*ev, federation.IllegalStep, "an offer opens, and names no other")
	}
	ev.Handoff = ev.ID
	return nil
}

func readFrom(ev *federation.Event, own map[string]string) error {
	value, there := own[tagFrom]
	if !there {
		return nil
	}
	if err := translate.ReadFrom(ev, value); err != nil {
		return translate.Malformed(*ev, tagFrom, err.Error())
	}
	return nil
}

// Encode writes a step signed in this dialect with exactly the signed tags. Nothing is lost, because
// a link refuses a step that does not fit.
func (Codec) Encode(s translate.Step) (translate.Tagged, []federation.Loss, error) {
	if s.Event.Dialect != federation.ActTags || len(s.Event.Fields) == 0 || s.Event.Signature.Text == "" {
		return translate.Tagged{}, nil, errNotSigned
	}
	tags := translate.Wire(s.Event, map[string]string{tagFrom: string(s.Event.From)})
	return translate.Tagged{Command: "TAGMSG", Target: s.Event.Venue, Tags: tags}, nil, nil
}

// Write returns the fields that a gateway signs for a step given only by its members, with the
// losses of [translate.Names.Fill].
func Write(ev federation.Event) (map[string]string, []federation.Loss) {
	fields := map[string]string{
		tagKind: string(cmp.Or(ev.Kind, federation.Handoff)), tagVerb: string(ev.Verb), tagTo: string(ev.To), tagFor: string(ev.For),
		tagTitle: ev.Title, tagCaps: strings.Join(ev.Caps, ","), tagPriority: ev.Priority,
		tagReplyTo: ev.ReplyTo, tagSubject: ev.Subject.String(),
	}
	if ev.Verb != federation.Offer {
		fields[tagID] = ev.Handoff.String()
	}
	names := translate.Names{
		Note: tagNote, Deadline: tagDeadline, BidDeadline: tagBidDeadline, Accepts: tagAccepts, Replaces: tagReplaces,
		Source: tagSource, SourceHash: tagSourceHash,
		Context: tagContext, ContextHash: tagContextHash,
	}
	return fields, names.Fill(fields, ev)
}

// DecodeFromHome is [Codec.Decode], but also reads the receipt of a home, which is not a step and can
// only be written by a home.
//
// spec: freeq-act "Receipts"
func (Codec) DecodeFromHome(m translate.Tagged) (federation.Event, error) {
	return decode(m, readAnyVerb)
}

func readAnyVerb(ev *federation.Event, own map[string]string) error {
	if federation.Verb(own[tagVerb]) != federation.Confirm {
		return readVerb(ev, own)
	}
	ev.Verb = federation.Confirm
	text, there := own[tagSubject]
	if !there {
		return translate.Missing(*ev, tagSubject)
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return translate.Malformed(*ev, tagSubject, "want a ULID in upper case")
	}
	ev.Subject = id
	return nil
}

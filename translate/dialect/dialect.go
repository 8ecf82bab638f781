// Package dialect maps the dialects of IRC tags to codecs. No other package does.
package dialect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
	"github.com/baton-gateway/baton/translate/handofftag"
)

// Decode reads a message in any dialect of tags. It returns [translate.ErrNotHandoff] for a message
// without such tags, and a [*federation.RefusalError] for a message that cannot be read as a step.
func Decode(m translate.Tagged) (federation.Event, error) {
	ev, err := handofftag.Codec{}.Decode(m)
	if errors.Is(err, translate.ErrNotHandoff) {
		return acttag.Codec{}.Decode(m)
	}
	return ev, err
}

// Encode writes a signed step in the dialect of its signature.
func Encode(s translate.Step) (translate.Tagged, error) {
	var m translate.Tagged
	var err error
	switch s.Event.Dialect {
	case federation.HandoffTags:
		m, _, err = handofftag.Codec{}.Encode(s)
	case federation.ActTags:
		m, _, err = acttag.Codec{}.Encode(s)
	default:
		err = fmt.Errorf("encode step %s: no dialect %q", s.Event.ID, s.Event.Dialect)
	}
	return m, err
}

// Rewrite returns the fields that a gateway signs for a signed step, in the dialect of the step, and
// the members that they cannot carry. It keeps tags unknown to codecs: all of them within one
// dialect, and only user tags (prefix "x-") in the other.
func Rewrite(ev federation.Event, signed federation.Dialect) (map[string]string, []federation.Loss) {
	fields, losses := Write(ev)
	for _, name := range slices.Sorted(maps.Keys(ev.Fields)) {
		if knows(signed, name) {
			continue
		}
		to, carried := name, signed == ev.Dialect
		if own, isOwn := strings.CutPrefix(name, string(signed)+"-x-"); isOwn {
			to, carried = string(ev.Dialect)+"-x-"+own, true
		}
		if carried {
			fields[to] = ev.Fields[name]
			carried = translate.TagBytes(fields) <= translate.MaxTagBytes
		}
		if !carried {
			delete(fields, to)
			losses = append(losses, federation.Loss{Field: name, Fate: federation.Lost, Why: "no tag of the other dialect is for it"})
		}
	}
	return fields, losses
}

func knows(d federation.Dialect, tag string) bool {
	if d == federation.ActTags {
		return acttag.Knows(tag)
	}
	return handofftag.Knows(tag)
}

// Write returns the fields that a gateway signs for a step given by its members, in the dialect of
// the step, with the losses.
func Write(ev federation.Event) (map[string]string, []federation.Loss) {
	if ev.Dialect == federation.ActTags {
		return acttag.Write(ev)
	}
	return handofftag.Write(ev)
}

// someNick is a placeholder for the user of a private exchange. The venue identifies the user.
const someNick = "anyone"

// FromDocument returns the step of a canonical document, in the dialect of its members. The caller
// adds its signature. The error is [translate.ErrNotHandoff] for a document without the tags of a
// step, a [*federation.RefusalError] for an unreadable step, and another error for any other text.
func FromDocument(document string) (federation.Event, error) {
	return fromDocument(document, Decode)
}

// Read is [FromDocument], but also reads the receipts of homes.
func Read(document string) (federation.Event, error) {
	return fromDocument(document, decodeFromHome)
}

func decodeFromHome(m translate.Tagged) (federation.Event, error) {
	ev, err := handofftag.Codec{}.DecodeFromHome(m)
	if errors.Is(err, translate.ErrNotHandoff) {
		return acttag.Codec{}.DecodeFromHome(m)
	}
	return ev, err
}

func fromDocument(document string, decode func(translate.Tagged) (federation.Event, error)) (federation.Event, error) {
	signed, err := translate.FromDocument(document)
	if err != nil {
		return federation.Event{}, err
	}
	m := translate.Tagged{Command: "TAGMSG", Target: signed.Venue, Tags: translate.Wire(signed, map[string]string{"from": string(signed.From)})}
	if federation.Private(signed.Venue) {
		m.Target = someNick
	}
	ev, err := decode(m)
	if err != nil {
		return federation.Event{}, err
	}
	if ev.From != "" && ev.From != signed.From {
		return federation.Event{}, federation.Refuse(ev, federation.SignatureInvalid, "it is signed for another DID")
	}
	ev.From, ev.Venue = signed.From, signed.Venue
	return ev, nil
}

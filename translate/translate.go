// Package translate contains the pure functions between wire messages and events. A translator does
// no I/O, keeps no state, and does not sign or verify.
//
// Each format has its own subfolder, with its wire types and a [Codec] over them.
package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/baton-gateway/baton/federation"
)

// ErrNotHandoff is returned by [Codec.Decode] for a well-formed message about another subject.
var ErrNotHandoff = errors.New("translate: not about a handoff")

// Step is one filed step with the additional input for a translation.
type Step struct {
	federation.Entry
	View federation.View
	// Name returns the display name of a DID.
	Name func(federation.DID) string
}

// Codec turns messages of type W into events and back.
type Codec[W any] interface {
	// Decode reads one message. It returns [ErrNotHandoff] for a message about another subject, and a
	// [*federation.RefusalError] for a message that cannot be read as a step.
	Decode(w W) (federation.Event, error)
	// Encode writes one step, and returns the losses of the format.
	Encode(s Step) (W, []federation.Loss, error)
}

// The member has the full text of a truncated title.
const titleMember = "description"

// OneLine replaces each control character and line end with a space, and trims the text.
func OneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text))
}

// FitTitle returns a text as the title of an offer: [OneLine] of at most [MaxTitleChars]. If it cuts
// the title, the context member "description" gets the full text. A context other than JSON, such as
// a reference, is unchanged.
func FitTitle(text, context string) (title, fitted string, losses []federation.Loss) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	title = OneLine(text)
	if utf8.RuneCountInString(title) <= MaxTitleChars {
		return title, context, nil
	}
	return cutTitle(text, context, string([]rune(title)[:MaxTitleChars]), fmt.Sprintf("longer than %d characters", MaxTitleChars))
}

// FitWireTitle is [FitTitle] for a wire that counts bytes: at most [MaxTitleBytes].
func FitWireTitle(text, context string) (title, fitted string, losses []federation.Loss) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	title = OneLine(text)
	if len(title) <= MaxTitleBytes {
		return title, context, nil
	}
	end := MaxTitleBytes
	for !utf8.RuneStart(title[end]) {
		end--
	}
	return cutTitle(text, context, title[:end], fmt.Sprintf("longer than %d bytes", MaxTitleBytes))
}

func cutTitle(text, context, start, why string) (title, fitted string, losses []federation.Loss) {
	title = strings.TrimSpace(start)
	if context != "" && (!federation.InlineContext(context) || !json.Valid([]byte(context))) {
		why += ", and the context is not JSON and cannot hold the full text"
		return title, context, []federation.Loss{{Field: "title", Fate: federation.Cut, Why: why}}
	}
	return title, describe(text, context), []federation.Loss{{Field: "title", Fate: federation.Cut, Why: why}}
}

// If the context is a list, or uses the member for another text, the old context becomes the member
// "context" of the new one.
func describe(text, context string) string {
	var members map[string]json.RawMessage
	if context == "" {
		context = "{}"
	}
	if federation.DecodeJSON([]byte(context), &members) == nil {
		was, used := members[titleMember]
		var said string
		switch {
		case used && federation.DecodeJSON(was, &said) == nil && said == text:
			return context
		case !used && len(members) == 0:
			return "{" + member(titleMember, text) + "}"
		case !used:
			context = strings.TrimRightFunc(context, unicode.IsSpace)
			return context[:len(context)-1] + "," + member(titleMember, text) + "}"
		}
	}
	return `{"context":` + context + "," + member(titleMember, text) + "}"
}

func member(name, text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil { // every string has a JSON form
		panic("translate: " + err.Error())
	}
	return `"` + name + `":` + strings.TrimSpace(out.String())
}

// FromDocument reads a canonical document, in either dialect, back into the signed step. A document
// with a repeated member, or a member other than a string, is an error, because two readers could
// take it for two steps.
//
// spec: handofftag "Canonical document"
func FromDocument(document string) (federation.Event, error) {
	fields, err := federation.DecodeStrings([]byte(document))
	if err != nil {
		return federation.Event{}, fmt.Errorf("read document: %w", err)
	}
	from, err := federation.ParseDID(fields["from"])
	if err != nil {
		return federation.Event{}, fmt.Errorf("read document: %w", err)
	}
	ev := federation.Event{From: from, Venue: fields["target"], Fields: fields}
	if ev.Venue == "" {
		return federation.Event{}, errors.New("read document: it names no target")
	}
	if text, stamped := fields["id"]; stamped {
		if ev.ID, err = federation.ParseEventID(text); err != nil {
			return federation.Event{}, fmt.Errorf("read document: %w", err)
		}
		ev.Stamped = true
	}
	for _, name := range []string{"from", "target", "id"} {
		delete(fields, name)
	}
	return ev, nil
}

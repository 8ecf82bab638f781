package handofftag

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"baton/federation"
	"baton/translate"
)

// MaxTagBytes is how much client tag data one IRC message carries, between "@"
// and the space.
//
// spec: message-tags "Size limit"; measured on InspIRCd 3.15
const MaxTagBytes = 4094

// signatureBytes is the length of "ed25519:<kid>:<signature>" as gateways write
// it.
const signatureBytes = len("ed25519:") + 22 + len(":") + 86

// Write returns the fields that a gateway is to sign for a step given by its
// members alone, with what they cannot carry: a note is cut to 400 characters,
// and a context that would not fit one message is left out.
func Write(ev federation.Event) (map[string]string, []translate.Loss) {
	fields := map[string]string{
		tagVerb: string(ev.Verb),
		tagID:   ev.Handoff.String(),
		tagFrom: string(ev.From),
	}
	set := func(name, value string) {
		if value != "" {
			fields[name] = value
		}
	}
	set(tagTo, string(ev.To))
	set(tagFor, string(ev.For))
	set(tagTitle, ev.Title)
	set(tagCaps, strings.Join(ev.Caps, ","))
	set(tagReplyTo, ev.ReplyTo)
	set(tagPriority, ev.Priority)
	if !ev.Deadline.IsZero() {
		set(tagDeadline, strconv.FormatInt(ev.Deadline.Unix(), 10))
	}
	if ev.Evidence != nil {
		set(tagSource, ev.Evidence.URL)
		set(tagSourceHash, "sha256:"+hex.EncodeToString(ev.Evidence.Digest[:]))
	}
	var losses []translate.Loss
	note, cut := cutChars(ev.Note, maxNoteChars)
	set(tagNote, note)
	if cut {
		losses = append(losses, translate.Loss{Field: "note", Fate: translate.Cut, Why: fmt.Sprintf("longer than %d characters", maxNoteChars)})
	}
	return writeContext(ev, fields, losses)
}

// writeContext adds the context last, because whether it fits depends on all the
// rest.
func writeContext(ev federation.Event, fields map[string]string, losses []translate.Loss) (map[string]string, []translate.Loss) {
	if ev.Context == "" {
		return fields, losses
	}
	lost := func(why string) (map[string]string, []translate.Loss) {
		delete(fields, tagContext)
		return fields, append(losses, translate.Loss{Field: "context", Fate: translate.Lost, Why: why})
	}
	if !validContext(ev.Context) {
		return lost(federation.InvalidContext.Sentence())
	}
	fields[tagContext] = ev.Context
	if tagBytes(fields) > MaxTagBytes {
		return lost(fmt.Sprintf("the tags would be longer than %d bytes", MaxTagBytes))
	}
	if ev.ContextHash != "" {
		fields[tagContextHash] = ev.ContextHash
	}
	return fields, losses
}

// tagBytes returns the length of a whole tag section with event id and
// signature.
func tagBytes(fields map[string]string) int {
	n := len(";=+"+vendor+tagEventID) + len("01ARZ3NDEKTSV4RRFFQ69G5FAV") + len(";=+"+vendor+tagSignature) + signatureBytes
	for name, value := range fields {
		n += len(";=+"+vendor) + len(name) + escapedBytes(value)
	}
	return n - 1 // no ";" before the first
}

// escapedBytes returns the length of a value with the escapes of message tags,
// which are two bytes each.
func escapedBytes(value string) int {
	n := len(value)
	for i := range len(value) {
		if strings.IndexByte("; \\\r\n", value[i]) >= 0 {
			n++
		}
	}
	return n
}

func cutChars(s string, limit int) (string, bool) {
	if utf8.RuneCountInString(s) <= limit {
		return s, false
	}
	return string([]rune(s)[:limit]), true
}

package eventform

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/baton-gateway/baton/federation"
)

// Most documents have no more fields.
const usualFields = 12

const untitled = "untitled"

// The text is a JSON object of strings in canonical form.
type object struct {
	text string
	at   int
	odd  bool
}

// Returns false at the end or if the text is not in canonical form. The strings share the memory of
// the text.
func (o *object) next() (name, value string, more bool) {
	switch {
	case o.at >= len(o.text):
		o.odd = true
		return "", "", false
	case o.text[o.at] == '}' && o.at > 0:
		o.odd = o.at+1 != len(o.text)
		return "", "", false
	case o.at == 0 && o.text[0] == '{', o.at > 0 && o.text[o.at] == ',':
		o.at++
	default:
		o.odd = true
		return "", "", false
	}
	if name = o.string(); o.odd || o.at >= len(o.text) || o.text[o.at] != ':' {
		o.odd = true
		return "", "", false
	}
	o.at++
	value = o.string()
	return name, value, !o.odd
}

func (o *object) string() string {
	if o.at >= len(o.text) || o.text[o.at] != '"' {
		o.odd = true
		return ""
	}
	begin, escaped := o.at, false
	for i := begin + 1; i < len(o.text); i++ {
		switch o.text[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			o.at = i + 1
			if !escaped {
				return o.text[begin+1 : i]
			}
			plain, err := jsontext.AppendUnquote(nil, o.text[begin:o.at])
			o.odd = o.odd || err != nil
			return string(plain)
		}
	}
	o.odd = true
	return ""
}

// Returns false for a document of another form.
func readDocument(document string) (federation.Event, bool) {
	switch {
	case document == "":
		return federation.Event{}, false
	case strings.HasPrefix(document, `{"about":`):
		return readText(document)
	}
	return readStep(document)
}

// Omits values that a codec would refuse.
//
// spec: handofftag "Tags", "Canonical document"
func readStep(document string) (federation.Event, bool) {
	ev := federation.Event{Kind: federation.Handoff, Provenance: federation.Signed, Fields: make(map[string]string, usualFields)}
	o := object{text: document}
	for {
		name, value, more := o.next()
		if !more {
			break
		}
		switch name {
		case "from":
			ev.From = federation.DID(value)
			continue
		case "target":
			ev.Venue = value
			continue
		case "id":
			ev.ID, ev.Stamped = parseID(value), true
			continue
		case "handoff":
			ev.Dialect, ev.Verb = federation.HandoffTags, federation.Verb(value)
		case "act":
			ev.Dialect, ev.Kind = federation.ActTags, federation.Kind(value)
		case "act-verb":
			ev.Verb = federation.Verb(value)
		case "handoff-kind":
			ev.Kind = federation.Kind(value)
		case "handoff-id", "act-id":
			ev.Handoff = parseID(value)
		case "handoff-to", "act-to":
			ev.To = federation.DID(value)
		case "handoff-for", "act-for":
			ev.For, ev.Provenance = federation.DID(value), federation.Vouched
		case "handoff-src", "act-src", "handoff-src-h", "act-src-h":
			ev.Provenance = federation.Vouched
		case "handoff-task", "act-title":
			ev.Title = strings.TrimSpace(value)
		case "handoff-context", "act-ctx":
			ev.Context = value
		case "handoff-context-h", "act-ctx-h":
			ev.ContextHash = value
		case "handoff-caps", "act-caps":
			ev.Caps = strings.Split(value, ",")
		case "handoff-deadline", "act-deadline":
			ev.Deadline = parseTime(value)
		case "handoff-bid-deadline", "act-bid-deadline":
			ev.BidDeadline = parseTime(value)
		case "handoff-accepts", "act-accepts":
			ev.Accepts = parseID(value)
		case "handoff-replaces", "act-replaces":
			ev.Replaces = parseID(value)
		case "handoff-reply-to", "act-x-reply-to":
			ev.ReplyTo = value
		case "handoff-note", "act-note":
			ev.Note = value
		case "handoff-x-priority", "act-x-priority":
			ev.Priority = value
		case "handoff-subject", "act-subject":
			ev.Subject = parseID(value)
		}
		ev.Fields[name] = value
	}
	if len(ev.Fields) == 0 {
		ev.Fields = nil
	}
	if ev.Verb != federation.Offer { // the tag has no meaning on other steps
		ev.To = ""
	}
	if ev.Verb != federation.Confirm {
		ev.Subject = federation.EventID{}
	}
	if ev.Dialect == federation.ActTags && ev.Verb == federation.Offer {
		ev.Handoff = ev.ID
		if ev.Title == "" {
			ev.Title = untitled
		}
	}
	return ev, !o.odd
}

// The document is from signing.SealText. The venue and the order of a private message follow from
// its two DIDs.
func readText(document string) (federation.Event, bool) {
	ev := federation.Event{Kind: federation.TextVerb, Verb: federation.TextVerb, Provenance: federation.Vouched}
	o := object{text: document}
	for {
		name, value, more := o.next()
		if !more {
			break
		}
		switch name {
		case "about":
			ev.ReplyTo = value
		case "message":
			ev.ID = parseID(value)
		case "from":
			ev.From = federation.DID(value)
		case "for":
			ev.For = federation.DID(value)
		case "to":
			ev.To = federation.DID(value)
		case "text":
			ev.Note = value
		default:
			if ev.Fields == nil {
				ev.Fields = map[string]string{}
			}
			ev.Fields[name] = value
		}
	}
	if ev.To != "" {
		ev.Venue = federation.PrivateVenue(ev.For, ev.To)
	}
	return ev, !o.odd
}

// Returns false if the handoff stays unknown.
func (b *body) complete(ev *federation.Event) bool {
	if ev.ID.IsZero() {
		ev.ID = b.ID
	}
	if b.Provenance != "" {
		ev.Provenance = b.Provenance
	}
	if ev.Verb == federation.TextVerb && ev.Dialect == "" {
		switch {
		case ev.To != "":
			ev.Handoff = federation.Conversation(ev.For, ev.To)
		default:
			ev.Venue = b.Channel
			ev.Handoff = federation.ChatOrder(b.Link, ev.Venue)
		}
	}
	return !ev.Handoff.IsZero()
}

// Ignores signature, evidence, erasure and arrival.
func same(a, b federation.Event) bool {
	return a.ID == b.ID && a.Handoff == b.Handoff && a.Kind == b.Kind && a.Verb == b.Verb && a.From == b.From && a.For == b.For && a.To == b.To &&
		a.Venue == b.Venue && a.Dialect == b.Dialect && a.Title == b.Title && a.Context == b.Context && a.ContextHash == b.ContextHash &&
		slices.Equal(a.Caps, b.Caps) && sameTime(a.Deadline, b.Deadline) && a.Note == b.Note && a.ReplyTo == b.ReplyTo && a.Priority == b.Priority &&
		a.Subject == b.Subject && sameTime(a.BidDeadline, b.BidDeadline) && a.Accepts == b.Accepts && a.Replaces == b.Replaces &&
		maps.Equal(a.Fields, b.Fields) && a.Stamped == b.Stamped && a.Provenance == b.Provenance
}

func sameTime(read, t time.Time) bool { return read.Equal(t) && inUTC(t) }

func parseID(text string) federation.EventID {
	id, _ := federation.ParseEventID(text)
	return id
}

// Returns the zero time for a text other than Unix seconds.
func parseTime(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// The result has only the address and the digest.
//
// spec: handofftag "Tags", handoff-src, -src-h
func namedEvidence(ev federation.Event) (named federation.Evidence, found bool) {
	source, hash := "handoff-src", "handoff-src-h"
	if ev.Dialect == federation.ActTags {
		source, hash = "act-src", "act-src-h"
	}
	digits, found := strings.CutPrefix(ev.Fields[hash], "sha256:")
	if !found || len(digits) != hex.EncodedLen(len(named.Digest)) {
		return federation.Evidence{}, false
	}
	if _, err := hex.Decode(named.Digest[:], []byte(digits)); err != nil {
		return federation.Evidence{}, false
	}
	named.URL = ev.Fields[source]
	return named, true
}

// spec: handofftag "Tags", sig
func signatureText(keyID string, signature []byte) string {
	text := make([]byte, 0, len("ed25519:")+len(keyID)+1+base64.RawURLEncoding.EncodedLen(len(signature)))
	text = append(append(append(text, "ed25519:"...), keyID...), ':')
	return string(base64.RawURLEncoding.AppendEncode(text, signature))
}

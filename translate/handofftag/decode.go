package handofftag

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"baton/federation"
	"baton/translate"
)

// Bounds of what a tag may hold.
//
// spec: handofftag "Tags"
const (
	maxTitleBytes   = 300
	maxNoteChars    = 400
	maxContextBytes = 4096 // of inline JSON, unescaped
	maxCaps         = 16
	maxCapBytes     = 64
	maxRefBytes     = 256             // of a message id in reply-to: the longest that IRC servers make, with room
	maxUnixSeconds  = 253_402_300_799 // the end of year 9999, the last that RFC 3339 can write
)

var errNotSigned = errors.New("handofftag: the step is not signed in this dialect")

// Decode reads one message. The event has no ID where the message gave none, and
// no From where the tag is absent: what that means depends on the link.
func (Codec) Decode(m Message) (federation.Event, error) {
	names, err := ownTags(m.Tags)
	if err != nil {
		return federation.Event{}, err
	}
	if names == nil {
		return federation.Event{}, translate.ErrNotHandoff
	}
	ev := federation.Event{
		Kind: federation.Handoff, Dialect: federation.HandoffTags, Provenance: federation.Signed,
		Fields: make(map[string]string, len(names)),
	}
	for name, value := range names {
		if name == tagVerb || strings.HasPrefix(name, tagVerb+"-") {
			ev.Fields[name] = value
		}
	}
	ev.Signature.Text = names[tagSignature]
	if err := readIDs(&ev, names); err != nil {
		return federation.Event{}, err
	}
	venue, ok := Venue(m.Target)
	if !ok {
		return federation.Event{}, federation.Refuse(ev, federation.InvalidTarget, "send it to a channel of this federation")
	}
	ev.Venue = venue
	for _, f := range fieldReaders {
		value, there := ev.Fields[f.name]
		if !there {
			continue
		}
		if err := f.read(&ev, value); err != nil {
			return federation.Event{}, err
		}
	}
	return ev, requireTitle(ev)
}

// ownTags returns the tags that concern handoffs by bare name: nil when the
// message is about something else.
func ownTags(tags map[string]string) (map[string]string, error) {
	own := make(map[string]string, len(tags))
	var handoff, act, step, doubled bool
	for full, value := range tags {
		name, ours := strings.CutPrefix(strings.TrimPrefix(full, "+"), vendor)
		if !ours {
			continue
		}
		_, twice := own[name]
		doubled = doubled || twice
		own[name] = value
		isHandoff := name == tagVerb || strings.HasPrefix(name, tagVerb+"-")
		handoff = handoff || isHandoff
		step = step || isHandoff && name != tagAck
		act = act || name == "act" || strings.HasPrefix(name, "act-")
	}
	switch {
	case !step:
		return nil, nil // also a bare acknowledgement, which is no step
	case doubled:
		return nil, &federation.RefusalError{Code: federation.DuplicateTag}
	case act && handoff:
		return nil, &federation.RefusalError{Code: federation.MixedTags}
	}
	return own, nil
}

// readIDs reads what names the step first, so that every later refusal can.
func readIDs(ev *federation.Event, names map[string]string) error {
	if text, there := names[tagEventID]; there {
		id, err := federation.ParseEventID(text)
		if err != nil {
			return federation.Refuse(*ev, federation.InvalidEventID, "want a ULID in upper case")
		}
		ev.ID, ev.Stamped = id, true
	}
	text, there := names[tagID]
	if !there {
		return missing(*ev, tagID)
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return malformed(*ev, tagID, "want a ULID in upper case")
	}
	ev.Handoff = id
	verb, there := names[tagVerb]
	if !there {
		return missing(*ev, tagVerb)
	}
	ev.Verb = federation.Verb(verb)
	if !slices.Contains(verbs(), ev.Verb) {
		return federation.Refuse(*ev, federation.UnknownVerb, "")
	}
	if ev.Verb == federation.Offer && ev.Stamped && ev.ID != ev.Handoff {
		return federation.Refuse(*ev, federation.InvalidEventID, "that of an offer is its handoff id")
	}
	return nil
}

// verbs returns the steps of this dialect.
func verbs() []federation.Verb {
	return []federation.Verb{
		federation.Offer, federation.Accept, federation.Decline, federation.Claim, federation.Progress,
		federation.Complete, federation.Fail, federation.Cancel, federation.Expire,
	}
}

func requireTitle(ev federation.Event) error {
	if ev.Verb != federation.Offer || ev.Title != "" {
		return nil
	}
	return missing(ev, tagTitle)
}

type fieldReader struct {
	name string
	read func(ev *federation.Event, value string) error
}

// fieldReaders are the known tags, in the order in which mistakes are told.
var fieldReaders = []fieldReader{ //nolint:gochecknoglobals // a table that nothing writes to
	{tagFrom, func(ev *federation.Event, value string) error { return readDID(*ev, tagFrom, value, &ev.From) }},
	{tagTo, readTo},
	{tagFor, func(ev *federation.Event, value string) error { return readDID(*ev, tagFor, value, &ev.For) }},
	{tagTitle, readTitle},
	{tagContext, readContext},
	{tagContextHash, readContextHash},
	{tagCaps, readCaps},
	{tagDeadline, readDeadline},
	{tagReplyTo, readReplyTo},
	{tagNote, readNote},
	{tagPriority, func(ev *federation.Event, value string) error { ev.Priority = value; return nil }},
}

func readDID(ev federation.Event, tag, value string, into *federation.DID) error {
	did, err := federation.ParseDID(value)
	if err != nil {
		return malformed(ev, tag, "want a DID")
	}
	*into = did
	return nil
}

// readTo reads the recipient of an offer; on other steps the tag is carried and
// means nothing.
func readTo(ev *federation.Event, value string) error {
	if ev.Verb != federation.Offer {
		return nil
	}
	return readDID(*ev, tagTo, value, &ev.To)
}

func readTitle(ev *federation.Event, value string) error {
	title := strings.TrimSpace(value)
	if len(title) > maxTitleBytes || strings.ContainsFunc(title, unicode.IsControl) {
		return malformed(*ev, tagTitle, "want 1 to 300 bytes without control characters")
	}
	ev.Title = title
	return nil
}

func readContext(ev *federation.Event, value string) error {
	if !validContext(value) {
		return federation.Refuse(*ev, federation.InvalidContext, "")
	}
	ev.Context = value
	return nil
}

// InlineContext reports whether a context is JSON itself and no reference to it.
func InlineContext(context string) bool {
	return strings.HasPrefix(context, "{") || strings.HasPrefix(context, "[")
}

func validContext(value string) bool {
	if InlineContext(value) {
		return len(value) <= maxContextBytes && json.Valid([]byte(value))
	}
	u, err := url.Parse(value)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "at") &&
		(strings.HasPrefix(value, "https://") || strings.HasPrefix(value, "at://"))
}

func readContextHash(ev *federation.Event, value string) error {
	digest, ok := strings.CutPrefix(value, "sha256:")
	raw, err := hex.DecodeString(digest)
	if !ok || err != nil || len(raw) != 32 || digest != strings.ToLower(digest) {
		return malformed(*ev, tagContextHash, "want sha256: and 64 hex characters")
	}
	ev.ContextHash = value
	return nil
}

func readCaps(ev *federation.Event, value string) error {
	caps := strings.Split(value, ",")
	if len(caps) > maxCaps || !slices.ContainsFunc(caps, func(c string) bool { return c != "" }) {
		return malformed(*ev, tagCaps, "want 1 to 16 capabilities")
	}
	for _, c := range caps {
		if c == "" || len(c) > maxCapBytes || strings.ContainsFunc(c, notInCap) {
			return malformed(*ev, tagCaps, "a capability is 1 to 64 letters, digits and . _ / -")
		}
	}
	ev.Caps = caps
	return nil
}

func notInCap(r rune) bool {
	return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._/-", r)
}

func readDeadline(ev *federation.Event, value string) error {
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err != nil || seconds > maxUnixSeconds || seconds == 0 {
		return malformed(*ev, tagDeadline, "want unix seconds")
	}
	ev.Deadline = time.Unix(int64(seconds), 0).UTC()
	return nil
}

func readReplyTo(ev *federation.Event, value string) error {
	if value == "" || len(value) > maxRefBytes || strings.ContainsFunc(value, unicode.IsControl) {
		return malformed(*ev, tagReplyTo, "want a message id or an event id")
	}
	ev.ReplyTo = value
	return nil
}

func readNote(ev *federation.Event, value string) error {
	if utf8.RuneCountInString(value) > maxNoteChars {
		return malformed(*ev, tagNote, "want at most 400 characters")
	}
	ev.Note = value
	return nil
}

func missing(ev federation.Event, tag string) error {
	return federation.Refuse(ev, federation.MissingRequirement, "+"+vendor+tag)
}

func malformed(ev federation.Event, tag, want string) error {
	return federation.Refuse(ev, federation.InvalidTag, "+"+vendor+tag+", "+want)
}

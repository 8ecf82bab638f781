package translate

import (
	"slices"
	"strings"

	"baton/federation"
)

// Tagged is what an IRC message says about a handoff, in any dialect of tags.
type Tagged struct {
	Command string            // TAGMSG, PRIVMSG or NOTICE
	Target  string            // as on the wire
	Tags    map[string]string // by full name, values unescaped
}

// The tags that both dialects have, without the vendor.
const (
	TagEventID   = "eventid"
	TagSignature = "sig"
)

// vendor stands before every name on the wire, and "+" before the vendor.
const vendor = "freeq.at/"

// MaxTagBytes is how much client tag data one IRC message carries, between "@"
// and the space.
//
// spec: message-tags "Size limit"; measured on InspIRCd 3.15
const MaxTagBytes = 4094

// signatureBytes is the length of "ed25519:<kid>:<signature>" as gateways write
// it.
const signatureBytes = len("ed25519:") + 22 + len(":") + 86

// InDialect reports whether a tag, by bare name, is one of a dialect.
func InDialect(name string, d federation.Dialect) bool {
	return name == string(d) || strings.HasPrefix(name, string(d)+"-")
}

// OwnTags returns the tags of the vendor by bare name when one of them is a tag of the
// dialect and not in noStep, and nil for a message about another subject. The code names a
// defect of the whole set: one tag in two spellings, or tags of two dialects. It is empty
// without a defect.
func OwnTags(tags map[string]string, d federation.Dialect, noStep ...string) (map[string]string, federation.RefusalCode) {
	own := make(map[string]string, len(tags))
	var step, other, doubled bool
	for full, value := range tags {
		name, ours := strings.CutPrefix(strings.TrimPrefix(full, "+"), vendor)
		if !ours {
			continue
		}
		_, twice := own[name]
		doubled = doubled || twice
		own[name] = value
		step = step || InDialect(name, d) && !slices.Contains(noStep, name)
		other = other || !InDialect(name, d) && (InDialect(name, federation.HandoffTags) || InDialect(name, federation.ActTags))
	}
	switch {
	case !step:
		return map[string]string{}, ""
	case doubled:
		return own, federation.DuplicateTag
	case other:
		return own, federation.MixedTags
	}
	return own, ""
}

// Name reads what names a step, as far as it can be read, so that every refusal of
// it can say which it is.
func Name(own map[string]string, handoff string) federation.Event {
	id, _ := federation.ParseEventID(own[TagEventID]) // zero where it is none
	of, _ := federation.ParseEventID(own[handoff])
	return federation.Event{ID: id, Handoff: of}
}

// ReadEventID reads the id of a step that has one.
func ReadEventID(ev *federation.Event, own map[string]string) error {
	text, there := own[TagEventID]
	if !there {
		return nil
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.Refuse(*ev, federation.InvalidEventID, "want a ULID in upper case")
	}
	ev.ID, ev.Stamped = id, true
	return nil
}

// ReadHandoff reads which handoff a step names, in the tag that its dialect has for
// that.
func ReadHandoff(ev *federation.Event, own map[string]string, tag string) error {
	text, there := own[tag]
	if !there {
		return Missing(*ev, tag)
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return Malformed(*ev, tag, "want a ULID in upper case")
	}
	ev.Handoff = id
	return nil
}

// ReadVerb reads the verb, in the tag that the dialect has for it.
func ReadVerb(ev *federation.Event, own map[string]string, tag string) error {
	verb, there := own[tag]
	if !there {
		return Missing(*ev, tag)
	}
	ev.Verb = federation.Verb(verb)
	if !federation.ValidName(verb) {
		return federation.Refuse(*ev, federation.UnknownVerb, "")
	}
	return nil
}

// ReadKind reads the kind of a handoff. Which kinds there are, and their verbs, is
// for the home to know.
func ReadKind(ev *federation.Event, kind string) error {
	if !federation.ValidName(kind) {
		return federation.Refuse(*ev, federation.UnknownKind, "")
	}
	ev.Kind = federation.Kind(kind)
	return nil
}

// Fields returns the tags that a signature in a dialect covers.
func Fields(own map[string]string, d federation.Dialect) map[string]string {
	fields := make(map[string]string, len(own))
	for name, value := range own {
		if InDialect(name, d) {
			fields[name] = value
		}
	}
	return fields
}

// Wire returns the tags of a signed step by full name, exactly as they were signed, and the
// tags of the envelope.
func Wire(ev federation.Event, beside map[string]string) map[string]string {
	tags := make(map[string]string, len(ev.Fields)+len(beside)+2)
	for _, names := range []map[string]string{ev.Fields, beside} {
		for name, value := range names {
			tags["+"+vendor+name] = value
		}
	}
	tags["+"+vendor+TagSignature] = ev.Signature.Text
	if ev.Stamped {
		tags["+"+vendor+TagEventID] = ev.ID.String()
	}
	return tags
}

// ReadTarget reads where a step was sent. A channel is the venue, in lower case;
// a private exchange has none until the link knows the two DIDs. A status prefix,
// which narrows a channel to some of its members, is refused.
func ReadTarget(ev *federation.Event, target string) error {
	if venue, ok := Channel(target); ok {
		ev.Venue = venue
		return nil
	}
	if target == "" || strings.ContainsAny(target, "#$@+%&~!* ,") {
		return federation.Refuse(*ev, federation.InvalidTarget, "send it to a channel of this federation, or to one user")
	}
	return nil
}

// Channel returns a channel as venues spell it, and whether the target is one.
func Channel(target string) (string, bool) {
	if !strings.HasPrefix(target, "#") || strings.ContainsAny(target, " ,\x07") {
		return "", false
	}
	return strings.ToLower(target), true
}

// TagBytes returns the length of a whole tag section of fields that are to be
// signed, with event id and signature.
func TagBytes(fields map[string]string) int {
	n := len(";=+"+vendor+TagEventID) + len("01ARZ3NDEKTSV4RRFFQ69G5FAV") + len(";=+"+vendor+TagSignature) + signatureBytes
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

// Missing refuses a step without a tag.
func Missing(ev federation.Event, tag string) error {
	return federation.Refuse(ev, federation.MissingRequirement, "+"+vendor+tag)
}

// Malformed refuses a step for the value of a tag.
func Malformed(ev federation.Event, tag, want string) error {
	return federation.Refuse(ev, federation.InvalidTag, "+"+vendor+tag+", "+want)
}

package translate

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/baton-gateway/baton/federation"
)

// Tagged is the part of an IRC message about a handoff, in any dialect of tags.
type Tagged struct {
	Command string            // TAGMSG, PRIVMSG or NOTICE
	Target  string            // as on the wire
	Tags    map[string]string // by full name, values unescaped
}

// Tags in both dialects, without the vendor.
const (
	TagEventID   = "eventid"
	TagSignature = "sig"
)

// On the wire, "+" precedes the vendor.
const vendor = "freeq.at/"

// MaxTagBytes bounds the client tag data of one IRC message, between "@" and the space.
//
// spec: message-tags "Size limit"; measured on InspIRCd 3.15
const MaxTagBytes = 4094

// Gateways write "ed25519:<kid>:<signature>".
const signatureBytes = len("ed25519:") + 22 + len(":") + 86

// InDialect reports whether a dialect has a tag with a bare name.
func InDialect(name string, d federation.Dialect) bool {
	return name == string(d) || strings.HasPrefix(name, string(d)+"-")
}

// OwnTags returns the vendor's tags by bare name if one of them is a tag of the dialect and not in
// noStep. It returns nil for a message about another subject. The code, if not empty, names a
// defect of the whole set: one tag in two spellings, or tags of two dialects.
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

// Name reads the identifying fields of a step, as far as possible, so that every refusal can name
// it.
func Name(own map[string]string, handoff string) federation.Event {
	id, _ := federation.ParseEventID(own[TagEventID]) // zero if invalid
	of, _ := federation.ParseEventID(own[handoff])
	return federation.Event{ID: id, Handoff: of}
}

// ReadEventID reads the ID of a step, if any.
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

// ReadHandoff reads the handoff of a step from its tag in the dialect.
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

// ReadVerb reads the verb from its tag in the dialect.
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

// ReadKind reads the kind of a handoff. Only the home checks whether the kind exists.
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

// Wire returns the tags of a signed step by full name, exactly as signed, and the tags of the
// envelope.
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

// ReadTarget reads the destination of a step. A channel is the venue, in lower case. A private
// exchange has no venue until the link knows the two DIDs. A status prefix is refused, because it
// narrows a channel to some of its members.
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

// Channel returns a channel in the spelling of venues, and whether the target is a channel.
func Channel(target string) (string, bool) {
	if !strings.HasPrefix(target, "#") || strings.ContainsAny(target, " ,\x07") {
		return "", false
	}
	return strings.ToLower(target), true
}

// TagBytes returns the length of the whole tag section of fields to be signed, with event ID and
// signature.
func TagBytes(fields map[string]string) int {
	n := len(";=+"+vendor+TagEventID) + len("01ARZ3NDEKTSV4RRFFQ69G5FAV") + len(";=+"+vendor+TagSignature) + signatureBytes
	for name, value := range fields {
		n += len(";=+"+vendor) + len(name) + escapedBytes(value)
	}
	return n - 1 // no ";" before the first
}

// An escape of message tags is two bytes.
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

// Malformed refuses a step because of the value of a tag.
func Malformed(ev federation.Event, tag, want string) error {
	return federation.Refuse(ev, federation.InvalidTag, "+"+vendor+tag+", "+want)
}

// spec: handofftag "Tags"
const (
	MaxTitleChars   = 300
	MaxTitleBytes   = 300 // on narrower wires: IRC tags, AIRC, MACP and files
	MaxNoteChars    = 400
	MaxContextBytes = 4096 // inline JSON, unescaped
	maxCaps         = 16
	maxCapBytes     = 64
	maxRefBytes     = 256             // message ID in reply-to: the longest that IRC servers make, with room
	maxUnixSeconds  = 253_402_300_799 // end of year 9999, the last year in RFC 3339
)

// Contexts have an error code of their own.
var errContext = errors.New("no context")

// Term is one tag known to a codec, with the function that reads its value into an event. The error
// lists the valid values.
type Term struct {
	Tag  string
	Read func(ev *federation.Event, value string) error
}

// ReadTerms reads the known tags of an event's fields, in the order of the terms. It returns a
// [*federation.RefusalError] that names the first malformed one.
func ReadTerms(ev *federation.Event, terms []Term) error {
	for _, term := range terms {
		value, there := ev.Fields[term.Tag]
		if !there {
			continue
		}
		switch err := term.Read(ev, value); {
		case errors.Is(err, errContext):
			return federation.Refuse(*ev, federation.InvalidContext, "")
		case err != nil:
			return Malformed(*ev, term.Tag, err.Error())
		}
	}
	return nil
}

// ReadFrom reads the signer.
func ReadFrom(ev *federation.Event, value string) error { return readDID(value, &ev.From) }

// ReadFor reads the DID that a vouched step acts for.
func ReadFor(ev *federation.Event, value string) error { return readDID(value, &ev.For) }

// ReadTo reads the recipient of an offer. On other steps, the tag has no meaning.
func ReadTo(ev *federation.Event, value string) error {
	if ev.Verb != federation.Offer {
		return nil
	}
	return readDID(value, &ev.To)
}

func readDID(value string, into *federation.DID) error {
	did, err := federation.ParseDID(value)
	if err != nil {
		return errors.New("want a DID")
	}
	*into = did
	return nil
}

// ReadTitle reads the title of an offer.
func ReadTitle(ev *federation.Event, value string) error {
	title := strings.TrimSpace(value)
	if utf8.RuneCountInString(title) > MaxTitleChars || strings.ContainsFunc(title, unicode.IsControl) {
		return fmt.Errorf("want 1 to %d characters without control characters", MaxTitleChars)
	}
	ev.Title = title
	return nil
}

// ReadContext reads a context: inline JSON, or a reference.
func ReadContext(ev *federation.Event, value string) error {
	if !ValidContext(value) {
		return errContext
	}
	ev.Context = value
	return nil
}

// ValidContext reports whether a text can be a context. A blob address needs no TLS, for gateways
// on private networks: the hash proves the content.
func ValidContext(value string) bool {
	if federation.InlineContext(value) {
		return len(value) <= MaxContextBytes && json.Valid([]byte(value))
	}
	if record, ok := strings.CutPrefix(value, "at://"); ok {
		return validRecordURI(record)
	}
	if !strings.HasPrefix(value, "https://") {
		return strings.HasPrefix(value, "http://") && federation.CapabilityIn(value) != ""
	}
	u, err := url.Parse(value)
	return err == nil && u.Host != ""
}

// The authority after at:// is a handle or a DID, whose colons a URL parser would read as a port.
//
// spec: atproto at-uri-scheme
func validRecordURI(record string) bool {
	authority, path, _ := strings.Cut(record, "/")
	if strings.HasPrefix(authority, "did:") {
		if _, err := federation.ParseDID(authority); err != nil {
			return false
		}
		authority = "did"
	}
	u, err := url.Parse("//" + authority + "/" + path)
	return err == nil && u.Host != ""
}

// ReadContextHash reads the hash of a referenced context.
func ReadContextHash(ev *federation.Event, value string) error {
	digest, ok := strings.CutPrefix(value, "sha256:")
	raw, err := hex.DecodeString(digest)
	if !ok || err != nil || len(raw) != 32 || digest != strings.ToLower(digest) {
		return errors.New("want sha256: and 64 hex characters")
	}
	ev.ContextHash = value
	return nil
}

// ReadCaps reads the required capabilities of an offer.
func ReadCaps(ev *federation.Event, value string) error {
	caps := strings.Split(value, ",")
	if len(caps) > maxCaps {
		return fmt.Errorf("want at most %d capabilities", maxCaps)
	}
	if slices.ContainsFunc(caps, func(c string) bool { return !validCap(c) }) {
		return fmt.Errorf("a capability is 1 to %d letters, digits and . _ / -", maxCapBytes)
	}
	ev.Caps = caps
	return nil
}

func validCap(c string) bool {
	odd := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._/-", r)
	}
	return c != "" && len(c) <= maxCapBytes && !strings.ContainsFunc(c, odd)
}

// ReadDeadline reads a deadline in unix seconds.
func ReadDeadline(ev *federation.Event, value string) error { return readTime(value, &ev.Deadline) }

// ReadBidDeadline reads the end of the bids for an offer, in unix seconds.
func ReadBidDeadline(ev *federation.Event, value string) error {
	return readTime(value, &ev.BidDeadline)
}

func readTime(value string, into *time.Time) error {
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err != nil || seconds > maxUnixSeconds || seconds == 0 {
		return errors.New("want unix seconds")
	}
	*into = time.Unix(int64(seconds), 0).UTC()
	return nil
}

// ReadAccepts reads the step that an award accepts.
func ReadAccepts(ev *federation.Event, value string) error { return readID(value, &ev.Accepts) }

// ReadReplaces reads the handoff that an offer revives.
func ReadReplaces(ev *federation.Event, value string) error { return readID(value, &ev.Replaces) }

func readID(value string, into *federation.EventID) error {
	id, err := federation.ParseEventID(value)
	if err != nil {
		return errors.New("want a ULID in upper case")
	}
	*into = id
	return nil
}

// ReadReplyTo reads the message or event that a step answers.
func ReadReplyTo(ev *federation.Event, value string) error {
	if value == "" || len(value) > maxRefBytes || strings.ContainsFunc(value, unicode.IsControl) {
		return errors.New("want a message id or an event id")
	}
	ev.ReplyTo = value
	return nil
}

// ReadNote reads the text of a step.
func ReadNote(ev *federation.Event, value string) error {
	if utf8.RuneCountInString(value) > MaxNoteChars {
		return fmt.Errorf("want at most %d characters", MaxNoteChars)
	}
	ev.Note = value
	return nil
}

// ReadPriority reads the priority of an offer in the spelling of its network.
func ReadPriority(ev *federation.Event, value string) error {
	ev.Priority = value
	return nil
}

// CutNote returns a note short enough for a step, and the loss if it was cut.
func CutNote(note string) (string, []federation.Loss) {
	if utf8.RuneCountInString(note) <= MaxNoteChars {
		return note, nil
	}
	why := fmt.Sprintf("longer than %d characters", MaxNoteChars)
	return string([]rune(note)[:MaxNoteChars]), []federation.Loss{{Field: "note", Fate: federation.Cut, Why: why}}
}

// Names are one dialect's tags for the fields written by [Names.Fill].
type Names struct {
	Note, Deadline, BidDeadline, Accepts, Replaces, Source, SourceHash, Context, ContextHash string
}

// Fill adds the fields common to both dialects to the fields that a gateway signs, and removes the
// empty ones. It cuts a note to 400 characters, and omits a context that would not fit one message.
// It returns these losses.
func (n Names) Fill(fields map[string]string, ev federation.Event) []federation.Loss {
	var losses []federation.Loss
	fields[n.Note], losses = CutNote(ev.Note)
	for tag, at := range map[string]time.Time{n.Deadline: ev.Deadline, n.BidDeadline: ev.BidDeadline} {
		if !at.IsZero() {
			fields[tag] = strconv.FormatInt(at.Unix(), 10)
		}
	}
	fields[n.Accepts], fields[n.Replaces] = ev.Accepts.String(), ev.Replaces.String()
	if ev.Evidence != nil {
		fields[n.Source] = ev.Evidence.URL
		fields[n.SourceHash] = "sha256:" + hex.EncodeToString(ev.Evidence.Digest[:])
	}
	maps.DeleteFunc(fields, func(_, value string) bool { return value == "" })
	return append(losses, addContext(fields, ev, n.Context, n.ContextHash)...)
}

// addContext omits a context that does not fit one message.
func addContext(fields map[string]string, ev federation.Event, tag, hashTag string) []federation.Loss {
	if ev.Context == "" {
		return nil
	}
	lost := func(why string) []federation.Loss {
		return []federation.Loss{{Field: "context", Fate: federation.Lost, Why: why}}
	}
	if !ValidContext(ev.Context) {
		return lost("the text is not a context")
	}
	fields[tag] = ev.Context
	if ev.ContextHash != "" {
		fields[hashTag] = ev.ContextHash
	}
	if TagBytes(fields) > MaxTagBytes {
		delete(fields, tag)
		delete(fields, hashTag)
		return lost(fmt.Sprintf("the tags would be longer than %d bytes: shorten the context, the title, the note or the caps", MaxTagBytes))
	}
	return nil
}

package federation

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"time"
)

// Text is a private message to a DID, or a line of a channel. It is not a step, and is in no log or
// passport.
type Text struct {
	ID     EventID
	Order  HandoffID // see [Conversation] and [ChatOrder]
	From   DID       // signing key, which a home keeps for the author
	Author DID
	To     DID    // of a private message; "" in a channel
	Venue  string // channel, or pair of DIDs of a private message
	Body   string
	About  HandoffID
	Fields map[string]string

	// Answers is the ID of the answered message on the link of a delivery, otherwise "".
	Answers string

	Signature Signature
	Evidence  *Evidence // the text as the author wrote it
	Erased    *Erasure  // nil unless the content was erased

	Arrival Arrival
}

// InChannel reports whether a text is a line of a channel.
func (t Text) InChannel() bool { return t.To == "" }

// Refuse returns the refusal of a text.
func (t Text) Refuse(code RefusalCode, detail string) *RefusalError {
	return &RefusalError{Code: code, Event: t.ID, Detail: detail}
}

// TextVerb is the verb of text in metrics, records and APIs.
const TextVerb = "message"

// Row returns the text as an event with the verb [TextVerb], for lists and logs that mix text and
// steps.
func (t Text) Row() Event {
	return Event{
		ID: t.ID, Handoff: t.Order, Kind: TextVerb, Verb: TextVerb, From: t.From, For: t.Author, To: t.To, Venue: t.Venue, Note: t.Body,
		ReplyTo: t.About.String(), Fields: t.Fields, Provenance: Vouched, Signature: t.Signature, Evidence: t.Evidence, Erased: t.Erased, Arrival: t.Arrival,
	}
}

// TextOf is the inverse of [Text.Row].
func TextOf(row Event) *Text {
	about, _ := ParseEventID(row.ReplyTo)
	return &Text{
		ID: row.ID, Order: row.Handoff, From: row.From, Author: row.For, To: row.To, Venue: row.Venue, Body: row.Note,
		About: about, Fields: row.Fields, Signature: row.Signature, Evidence: row.Evidence, Erased: row.Erased, Arrival: row.Arrival,
	}
}

// Manner is the field for the kind of channel text.
const Manner = "manner"

// The values of [Manner].
const (
	Action     = "action" // as in "/me waves"
	NoticeText = "notice"
	React      = "react"   // the body is an emoji for the message in [Reply]
	Unreact    = "unreact" // removes a reaction
)

// Holder is the field with the key of a recipient without a DID: the current user of a nick. Later
// users of the nick cannot receive the message.
const Holder = "holder"

// Formatted is the field with the body in IRC formatting codes.
const Formatted = "formatted"

// Reply is the field with the ID of the answered message, in a channel its [ChatID].
const Reply = "reply"

// Away is the field with the author's away message, in a channel.
const Away = "away"

// Unkept is the field of text that must not be stored in the history (history = false).
const Unkept = "unkept"

// MaxChatBytes bounds one line of channel text, with space for the author's name.
const MaxChatBytes = 320

// MaxMessageChars bounds the text of one message: about ten lines of IRC.
const MaxMessageChars = 4096

// Introduces is the field of a sender's first message to a person. The first link then explains how to
// allow or block the sender.
const Introduces = "introduces"

// ChatID returns the ID of channel text from its message ID on a network. All gateways compute the same
// ID, and so detect lines that come back.
func ChatID(messageID string) EventID {
	if id, err := ParseEventID(messageID); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte("chat " + messageID))
	var id EventID
	copy(id[:], sum[:])
	return id
}

// ChatOrder returns the order key for text in a channel.
func ChatOrder(link, venue string) HandoffID {
	return Conversation(DID("link "+link), DID("channel "+venue))
}

// Conversation returns the order key for messages from one DID to another.
func Conversation(from, to DID) HandoffID {
	sum := sha256.Sum256([]byte("conversation " + string(from) + " " + string(to)))
	var id HandoffID
	copy(id[:], sum[:])
	return id
}

// TextFiling is one text with all changes of its filing.
type TextFiling struct {
	Fanout

	Text     Text
	Inboxes  []DID
	Filed    time.Time
	Newcomer DID     // author new to the record, or ""
	Contact  Contact // zero for no change
}

// MaxContacts bounds the senders allowed or blocked by one participant, and the undecided ones.
const MaxContacts = 10_000

// ErrTooManyContacts is returned beyond [MaxContacts].
var ErrTooManyContacts = errors.New("federation: too many contacts")

// ContactState is a participant's decision about a sender.
type ContactState string

// The contact states.
const (
	ContactUnknown    ContactState = ""
	ContactIntroduced ContactState = "introduced" // the recipient was informed how to decide
	ContactAllowed    ContactState = "allowed"
	ContactBlocked    ContactState = "blocked" // messages are refused on every network
)

// Contact is a participant's decision about a sender.
type Contact struct {
	Person, Sender DID
	Name           string // "" if its DID suffices
	State          ContactState
	Since          time.Time
}

// Position is a position in the history of one place. The zero Position is the start.
type Position struct {
	At time.Time // see [Event.ShownAt]
	N  uint64    // distinguishes steps with the same time; 0 precedes them
}

// Compare orders positions by At, then by N.
func (m Position) Compare(other Position) int {
	return cmp.Or(m.At.Compare(other.At), cmp.Compare(m.N, other.N))
}

// TimelineEntry is a filed step with its position.
type TimelineEntry struct {
	Entry    Entry
	View     View
	Position Position
}

// TimelineQuery selects a part of the history of a place, excluding both ends.
type TimelineQuery struct {
	// Place ignores the link of a private venue.
	Place  ChannelRef
	After  Position
	Before Position
	Newest bool // prefer the newest steps at the limit
	// TextOnly omits other lines, see [Line.IsText].
	TextOnly bool
}

// Line is one message in the history of the listener for IRC clients.
type Line struct {
	Position Position
	ID       string
	Place    ChannelRef
	Author   DID
	To       DID

	Command string // PRIVMSG, NOTICE, TAGMSG or TOPIC
	Source  string // nick!user@host
	Text    string
	Account string
	Proved  string            // DID proved on another network, or ""
	Tags    map[string]string // client-only tags with full names
}

// IsText reports whether a line is text. Other lines are only for event playback.
func (l Line) IsText() bool { return l.Command == "PRIVMSG" || l.Command == "NOTICE" }

// MaxMarkers bounds the read markers of a user.
const MaxMarkers = 256

// ShownAt returns the displayed time of a step: its first arrival, otherwise the time of its ID.
func (e Event) ShownAt() time.Time {
	if e.Verb == Confirm || e.Arrival.Received.IsZero() {
		return e.Time()
	}
	return e.Arrival.Received
}

// Place returns the place of a handoff. A private exchange has no link.
func (v View) Place() ChannelRef {
	if Private(v.Venue) {
		return ChannelRef{Venue: v.Venue}
	}
	return ChannelRef{Link: v.Link, Venue: v.Venue}
}

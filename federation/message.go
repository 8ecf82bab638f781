package federation

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"time"
)

// Text is a private message to a DID, or a line of a channel. It is not a step: it is in no log or
// passport, and does not change a handoff.
type Text struct {
	ID     EventID
	Order  HandoffID // [Conversation] or [ChatOrder]
	From   DID       // DID of the signing key, which a home keeps for the author
	Author DID
	To     DID    // of a private message; "" for a line of a channel
	Venue  string // a channel, or the pair of DIDs of a private message
	Body   string
	About  HandoffID
	// Fields are the other signed fields, such as [Manner] and [Introduces].
	Fields map[string]string

	// Answers is the ID of the answered message on the link of a delivery, or "" outside
	// deliveries.
	Answers string

	Signature Signature
	Evidence  *Evidence // the text as its author wrote it
	Erased    *Erasure  // nil while the record has the content of the text

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

// Row returns the text as an event with the verb [TextVerb]. Use it only for tables, lists and logs
// with both text and steps.
func (t Text) Row() Event {
	return Event{
		ID: t.ID, Handoff: t.Order, Kind: TextVerb, Verb: TextVerb, From: t.From, For: t.Author, To: t.To, Venue: t.Venue, Note: t.Body,
		ReplyTo: t.About.String(), Fields: t.Fields, Provenance: Vouched, Signature: t.Signature, Evidence: t.Evidence, Erased: t.Erased, Arrival: t.Arrival,
	}
}

// TextOf returns the text of a [Text.Row].
func TextOf(row Event) *Text {
	about, _ := ParseEventID(row.ReplyTo)
	return &Text{
		ID: row.ID, Order: row.Handoff, From: row.From, Author: row.For, To: row.To, Venue: row.Venue, Body: row.Note,
		About: about, Fields: row.Fields, Signature: row.Signature, Evidence: row.Evidence, Erased: row.Erased, Arrival: row.Arrival,
	}
}

// Manner is the field of channel text other than plain lines.
const Manner = "manner"

// The values of [Manner].
const (
	Action     = "action"  // as in "/me waves"
	NoticeText = "notice"  // needs no reply
	React      = "react"   // the body is an emoji for the message in [Reply]
	Unreact    = "unreact" // removes such an emoji
)

// Holder is the field with the key of a recipient without a DID: the user with the nick at that
// time. The message is for that user under any nick, and for no later user of the nick.
const Holder = "holder"

// Formatted is the field with the body in IRC formatting codes. A network without them shows the
// plain body.
const Formatted = "formatted"

// Reply is the field with the ID of the answered message. In a channel this is its [ChatID].
const Reply = "reply"

// Away is the field with the away message of the author of channel text.
const Away = "away"

// Unkept is the field of text from a link with history = false, which is not stored in the history.
const Unkept = "unkept"

// MaxChatBytes bounds one line of channel text, to leave space for the author's name.
const MaxChatBytes = 320

// MaxMessageChars bounds the text of one message: about ten lines of IRC.
const MaxMessageChars = 4096

// Introduces is the field of a sender's first message to a person. It makes the first link explain
// how to allow or block the sender.
const Introduces = "introduces"

// ChatID returns the ID of channel text with a message ID of a network. It is the same at each
// gateway, so that a returning line is recognized.
func ChatID(messageID string) EventID {
	if id, err := ParseEventID(messageID); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte("chat " + messageID))
	var id EventID
	copy(id[:], sum[:])
	return id
}

// ChatOrder returns the order key for the text of a channel on a link.
func ChatOrder(link, venue string) HandoffID {
	return Conversation(DID("link "+link), DID("channel "+venue))
}

// Conversation returns the order key for the messages of one DID to another.
func Conversation(from, to DID) HandoffID {
	sum := sha256.Sum256([]byte("conversation " + string(from) + " " + string(to)))
	var id HandoffID
	copy(id[:], sum[:])
	return id
}

// TextFiling is one text with all changes of its filing, written in one transaction.
type TextFiling struct {
	Fanout

	Text     Text
	Inboxes  []DID
	Filed    time.Time
	Newcomer DID     // first seen with the text, or ""
	Contact  Contact // zero if nothing changes
}

// MaxContacts bounds the senders allowed or blocked by one participant, and its undecided
// strangers.
const MaxContacts = 10_000

// ErrTooManyContacts is returned for a decision beyond [MaxContacts] senders.
var ErrTooManyContacts = errors.New("federation: too many contacts")

// ContactState is a participant's decision about a sender.
type ContactState string

// The states of a sender.
const (
	ContactUnknown    ContactState = ""           // no message received yet
	ContactIntroduced ContactState = "introduced" // the recipient was informed how to allow and block it
	ContactAllowed    ContactState = "allowed"
	ContactBlocked    ContactState = "blocked" // its messages are refused, on every network
)

// Contact is a participant's decision about a sender of messages.
type Contact struct {
	Person, Sender DID
	Name           string // "" if the name of its DID suffices
	State          ContactState
	Since          time.Time
}

// Position is a position at or between steps of one place. The zero Position is before all steps.
type Position struct {
	At time.Time // see [Event.ShownAt]
	N  uint64    // distinguishes steps of one moment; 0 is before them
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
	// Place is the place of the handoffs. The link of a private venue is ignored.
	Place  ChannelRef
	After  Position // zero for the start
	Before Position // zero for the end
	Newest bool     // return the newest steps if there are too many
	// TextOnly omits lines without text, see [Line.IsText].
	TextOnly bool
}

// Line is one message in the history of the listener for IRC clients.
type Line struct {
	Position Position
	ID       string
	Place    ChannelRef
	Author   DID
	To       DID // of a private line; "" in a channel

	Command string // PRIVMSG, NOTICE, TAGMSG or TOPIC
	Source  string // nick!user@host
	Text    string
	Account string            // of the author, or ""
	Proved  string            // proved by the author on another network, or ""
	Tags    map[string]string // client-only tags, by full name
}

// IsText reports whether a line is text. Other lines are for clients with event playback.
func (l Line) IsText() bool { return l.Command == "PRIVMSG" || l.Command == "NOTICE" }

// MaxMarkers bounds the read markers of a user of the listener for IRC clients.
const MaxMarkers = 256

// ShownAt returns the time shown in messages with the step: its first arrival, otherwise the time
// of its ID.
func (e Event) ShownAt() time.Time {
	if e.Verb == Confirm || e.Arrival.Received.IsZero() {
		return e.Time()
	}
	return e.Arrival.Received
}

// Place returns the place of a handoff's steps. A private exchange has no link.
func (v View) Place() ChannelRef {
	if Private(v.Venue) {
		return ChannelRef{Venue: v.Venue}
	}
	return ChannelRef{Link: v.Link, Venue: v.Venue}
}

package federation

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"time"
)

// Text is a private message to a DID, or a line of a channel. It is not a step: it is not in logs
// or passports, and does not change a handoff. Inboxes, outboxes, notices and webhooks carry steps
// and text.
type Text struct {
	ID     EventID
	Order  HandoffID // [Conversation] or [ChatOrder]; texts with the same Order are delivered in order
	From   DID       // DID of the signing key, which a home keeps for the author
	Author DID
	To     DID    // of a private message; "" for a line of a channel
	Venue  string // a channel, or the pair of DIDs of a private message
	Body   string
	About  HandoffID // related handoff, or zero
	// Fields are the other signed fields, such as [Manner] and [Introduces].
	Fields map[string]string

	// Answers is the ID of the answered message on the link of a delivery, or "". It is set only in
	// a delivery.
	Answers string

	Signature Signature
	Evidence  *Evidence // the text as its author wrote it
	Erased    *Erasure  // nil while the record has the content of the text

	Arrival Arrival
}

// InChannel reports whether a text is a line of a channel. Other links show it in the channel of
// the same name.
func (t Text) InChannel() bool { return t.To == "" }

// Refuse returns the refusal of a text.
func (t Text) Refuse(code RefusalCode, detail string) *RefusalError {
	return &RefusalError{Code: code, Event: t.ID, Detail: detail}
}

// TextVerb is the verb of text in metrics, records and APIs.
const TextVerb = "message"

// Row returns the form in which records and APIs keep text: an event with the verb [TextVerb]. Use
// it only for tables, lists and logs with both text and steps.
func (t Text) Row() Event {
	return Event{
		ID: t.ID, Handoff: t.Order, Kind: TextVerb, Verb: TextVerb, From: t.From, For: t.Author, To: t.To, Venue: t.Venue, Note: t.Body,
		ReplyTo: t.About.String(), Fields: t.Fields, Provenance: Vouched, Signature: t.Signature, Evidence: t.Evidence, Erased: t.Erased, Arrival: t.Arrival,
	}
}

// TextOf returns the text of a [Text.Row].
func TextOf(row Event) *Text {
	about, _ := ParseEventID(row.ReplyTo) // zero for none
	return &Text{
		ID: row.ID, Order: row.Handoff, From: row.From, Author: row.For, To: row.To, Venue: row.Venue, Body: row.Note,
		About: about, Fields: row.Fields, Signature: row.Signature, Evidence: row.Evidence, Erased: row.Erased, Arrival: row.Arrival,
	}
}

// Manner is the field of channel text other than plain lines.
const Manner = "manner"

// The values of [Manner].
const (
	Action     = "action"  // the author's action, as in "/me waves"
	NoticeText = "notice"  // needs no reply
	React      = "react"   // the body is an emoji for the message in [Reply]
	Unreact    = "unreact" // removes such an emoji
)

// Holder is the field of a message to a connected recipient without a DID: the key, on its link, of
// the user with the nick at that time. The message is for that user under any nick, and for no
// later user of the nick.
const Holder = "holder"

// Formatted is the field of text with colours or other formatting: the body with the formatting
// codes of IRC. A network without these codes shows the body.
const Formatted = "formatted"

// Reply is the field with the ID of the answered message. In a channel this is its [ChatID].
const Reply = "reply"

// Away is the field with the away message of the author of channel text.
const Away = "away"

// Unkept is the field of text that is not stored in the history, because its link has history =
// false.
const Unkept = "unkept"

// MaxChatBytes bounds one line of channel text, so that networks have space for the author's name.
const MaxChatBytes = 320

// MaxMessageChars bounds the text of one message: about ten lines of IRC.
const MaxMessageChars = 4096

// Introduces is the field of a sender's first message to a person. The first link that shows it
// explains how to allow or block the sender.
const Introduces = "introduces"

// ChatID returns the ID of channel text with a message ID of a network. It is the same at each
// gateway, so that a line is recognized if it returns through another gateway.
func ChatID(messageID string) EventID {
	if id, err := ParseEventID(messageID); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte("chat " + messageID))
	var id EventID
	copy(id[:], sum[:])
	return id
}

// ChatOrder returns the ID that orders the text of a channel on a link: texts with the same ID are
// delivered in order.
func ChatOrder(link, venue string) HandoffID {
	return Conversation(DID("link "+link), DID("channel "+venue))
}

// Conversation returns the ID that orders the messages of one DID to another: messages with the
// same ID are delivered in order.
func Conversation(from, to DID) HandoffID {
	sum := sha256.Sum256([]byte("conversation " + string(from) + " " + string(to)))
	var id HandoffID
	copy(id[:], sum[:])
	return id
}

// TextFiling is one text with all changes of its filing. The record writes it in one transaction or
// not at all.
type TextFiling struct {
	Fanout

	Text     Text
	Inboxes  []DID
	Filed    time.Time
	Newcomer DID     // a DID first seen with the text, or ""
	Contact  Contact // stored with the text; zero if nothing changes
}

// MaxContacts bounds the senders that one participant allows or blocks, and the undecided strangers
// that write to it.
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
	Name           string // name of the sender on its network; "" if the name of its DID suffices
	State          ContactState
	Since          time.Time
}

// Position is a position among the steps at one place: at a step, or between two. The zero Position
// is before all steps.
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
	// Place is the place of the handoffs. The link of a private venue is ignored: the exchange is
	// the same on every link.
	Place  ChannelRef
	After  Position // zero for the start
	Before Position // zero for the end
	Newest bool     // return the newest steps if there are more than requested
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

	Command string            // PRIVMSG, NOTICE, TAGMSG or TOPIC
	Source  string            // nick!user@host
	Text    string            // with its formatting
	Account string            // the author's account, or ""
	Proved  string            // DID proved by the author on another network, or ""
	Tags    map[string]string // client-only tags, by full name
}

// IsText reports whether a line is text. Other lines are for clients with event playback.
func (l Line) IsText() bool { return l.Command == "PRIVMSG" || l.Command == "NOTICE" }

// MaxMarkers bounds the read markers of a user of the listener for IRC clients.
const MaxMarkers = 256

// ShownAt returns the time shown in all messages with a step: the time of its first arrival,
// otherwise the time of its ID.
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

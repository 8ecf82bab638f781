package federation

import (
	"crypto/sha256"
	"strings"
	"unicode/utf8"
)

// Message is the verb of private text from one DID to another. A message is not a step: it is
// in no log, moves no handoff and is in no passport. The record keeps it beside the steps, so
// that inboxes, outboxes and notices treat both alike.
const Message Verb = "message"

// MessageState is the state of a message in the record, in the place of that of a handoff.
const MessageState State = "said"

// Manner is the field of channel text that was no plain line. Its values are [Action] and
// [NoticeText].
const Manner = "manner"

// The manners of channel text.
const (
	Action     = "action" // what the author does, as in "/me waves"
	NoticeText = "notice" // text that asks for no answer
)

// MaxChatBytes bounds one line of channel text: a network that shows it beside the name of its
// author has space for both.
const MaxChatBytes = 320

// MaxMessageChars bounds the text of one message: about ten lines of IRC.
const MaxMessageChars = 4096

// Introduces is the field of a message that is the first one of its sender to a person. The
// link that shows such a message says first how to allow or to block the sender.
const Introduces = "introduces"

// Text returns the text of a message.
func (e Event) Text() string { return e.Note }

// IsMessage reports whether an event is private text, and no step.
func (e Event) IsMessage() bool { return e.Verb == Message }

// IsChat reports whether an event is text in a channel. Such a message has no recipient, and
// other links show it in the channel of the same name.
func (e Event) IsChat() bool { return e.IsMessage() && e.To == "" }

// ChatID returns the ID of channel text with a message ID of a network. Each gateway computes
// the same ID, so that a line which returns over another gateway is a known line.
func ChatID(messageID string) EventID {
	if id, err := ParseEventID(messageID); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte("chat " + messageID))
	var id EventID
	copy(id[:], sum[:])
	return id
}

// ChatOrder returns the ID under which the text of a channel on a link is kept. Text with one
// such ID is delivered in order.
func ChatOrder(link, venue string) HandoffID {
	return Conversation(DID("link "+link), DID("channel "+venue))
}

// About returns the handoff that a message names, the zero ID for none.
func (e Event) About() HandoffID {
	id, err := ParseEventID(e.ReplyTo)
	if err != nil {
		return HandoffID{}
	}
	return id
}

// Conversation returns the ID under which the messages of one DID to another are kept. Messages
// with one such ID are delivered in order.
func Conversation(from, to DID) HandoffID {
	sum := sha256.Sum256([]byte("conversation " + string(from) + " " + string(to)))
	var id HandoffID
	copy(id[:], sum[:])
	return id
}

// MessageView returns what stands in the place of the view of a handoff where a message is
// delivered. Its Version is 0.
func MessageView(ev Event) View {
	return View{ID: ev.Handoff, Kind: ev.Kind, State: MessageState, Venue: ev.Venue, Link: ev.Arrival.Place.Link, Offerer: ev.Actor(), Offeree: ev.To}
}

// SplitText returns a text in parts of at most so many bytes, for networks whose lines are
// short. A line of the text begins a new part, empty lines are left out, and no character is
// cut. A part ends at a space where one is in its second half.
func SplitText(text string, maxBytes int) []string {
	var parts []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for len(line) > maxBytes {
			end := maxBytes
			for end > 1 && !utf8.RuneStart(line[end]) {
				end--
			}
			if space := strings.LastIndexByte(line[:end], ' '); space >= end/2 {
				end = space + 1
			}
			parts = append(parts, strings.TrimRight(line[:end], " "))
			line = line[end:]
		}
		if strings.TrimSpace(line) != "" {
			parts = append(parts, line)
		}
	}
	return parts
}

// MessageFiling is one message with all that its filing changes. The record writes it in one
// transaction or not at all. Its View is that of [MessageView].
type MessageFiling struct {
	Filing

	Contact Contact // from now on; the zero Contact where nothing changes
}

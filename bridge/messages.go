package bridge

import (
	"context"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// Messages carries private text between participants, and text between channels. A message is not a step. Its methods
// block on the record; their other errors wrap [*federation.UnavailableError].
type Messages interface {
	// Say files a message. When Say returns nil the message is on disk. A repeated message,
	// with the ID of an earlier one, is answered as that and changes nothing. The error is a
	// [*federation.RefusalError] for a message that is refused, and wraps
	// [federation.ErrNotFound] where no link reaches the recipient.
	Say(ctx context.Context, m Message) (Said, error)
	// Relay files a line of a channel for the other links that relay the channel. When Relay
	// returns nil the line is on disk. A line with the ID of an earlier one changes nothing, so
	// that text that returns over another gateway ends there. The error is a
	// [*federation.RefusalError] for a line that is refused, and for the first of the lines that
	// a link has no space for: all other links have that line.
	Relay(ctx context.Context, c Chat) error
	// Addressee returns the recipient that NICK@LINK names. It returns [federation.ErrNotFound]
	// where there is no such link, or no user of it can have the nick.
	Addressee(ctx context.Context, address string) (Recipient, error)
	// Introduce returns the DID of a participant of a peer of a link, such as HANDLE@DOMAIN of
	// another registry that the operator named, and files a participant that was not known. It
	// blocks on the peer. It returns [federation.ErrNotFound] where no such peer knows the name, and
	// wraps [*federation.UnavailableError] where the peer cannot be asked now.
	Introduce(ctx context.Context, address string) (federation.DID, error)
	// Guest returns the DID that the gateway keeps for a user of a link without a DID of its
	// own: the same DID for a nick in any case. It does not block.
	Guest(link, nick string) federation.DID
	// Decide notes whether a participant takes messages of a sender. The decision holds on every
	// network. Decide returns [federation.ErrTooManyContacts] for one sender too many.
	Decide(ctx context.Context, person, sender federation.DID, allow bool) error
	// Contacts returns up to limit senders that wrote to a participant or that it allowed or
	// blocked, from after a cursor on, and the cursor to go on from: "" after the last.
	Contacts(ctx context.Context, person federation.DID, after string, limit int) (found []federation.Contact, next string, err error)
	// Back makes the pending messages and steps for a DID due now, because the DID came to a link;
	// "" means all of the link.
	Back(ctx context.Context, link string, did federation.DID) error
	// Answered returns the handoff that a message is about which has an ID on its network: that
	// of the step that it brought, or the one that it names. It returns
	// [federation.ErrNotFound] where there is none.
	Answered(ctx context.Context, messageID string) (federation.HandoffID, error)
	// About returns the messages that name a handoff, oldest first.
	About(ctx context.Context, id federation.HandoffID) ([]federation.Entry, error)
}

// Recipient is where a message goes.
type Recipient struct {
	DID federation.DID
	// Place names the link and the nick of a user without a DID of its own; zero for a DID,
	// which the gateway looks up.
	Place federation.Place
}

// Message is private text on its way in.
type Message struct {
	ID       federation.EventID // the same one each time a sender repeats it; zero for a new one
	From     federation.DID
	To       Recipient
	Text     string
	About    federation.HandoffID // the handoff that it names; zero for none
	Arrival  federation.Arrival
	Original signing.Original // as the sender wrote it
}

// Chat is one line of a channel on its way in.
type Chat struct {
	ID      federation.EventID // of [federation.ChatID]
	From    federation.DID
	Venue   string // the channel, as this federation calls it
	Text    string
	Manner  string // [federation.Action], [federation.NoticeText], or "" for a plain line
	About   federation.HandoffID
	Arrival federation.Arrival

	Original signing.Original // as the author wrote it
}

// Said is the answer to a message.
type Said struct {
	Entry federation.Entry
	Known bool // it was on file before
	Away  bool // the recipient is not connected: the message waits
}

// Messenger is a [Link] to users that take private text. It delivers a message as [Link.Deliver]
// does a step: as lines from the sender's nick.
type Messenger interface {
	Link
	// Addressee returns the DID of the user that has a nick now, "" for none, and whether a user
	// can have that nick.
	Addressee(ctx context.Context, nick string) (did federation.DID, valid bool)
	// Here reports whether a message can be shown now, to the DID or to the nick in place of a
	// DID.
	Here(ctx context.Context, to Recipient) bool
}

// Consenter is a [Link] to agents whose network has rules of consent of its own. It keeps what
// they decide about the senders of messages, and its Effects judge the messages to them. Its
// methods block on the record, and return its errors.
type Consenter interface {
	Link
	// Consents reports whether the network keeps the decisions of a DID about a sender.
	Consents(ctx context.Context, person, sender federation.DID) (bool, error)
	// Decide notes what such a DID decided about a sender.
	Decide(ctx context.Context, c federation.Contact, now time.Time) error
	// Answer notes that such a DID wrote to another one, whose messages it takes from now on
	// unless it blocked that one.
	Answer(ctx context.Context, person, to federation.DID, now time.Time) error
	// Contacts returns the senders that such a DID knows, as [Messages.Contacts] does.
	Contacts(ctx context.Context, person federation.DID, after string, limit int) (found []federation.Contact, next string, err error)
}

// Relayer is a [Link] that relays the text of channels. It delivers a line that
// [federation.Event.IsChat] as [Link.Deliver] does a step.
type Relayer interface {
	Link
	// Relays returns the channels whose text the link exchanges with other links, as venues of
	// this federation. It does not block.
	Relays() []string
}

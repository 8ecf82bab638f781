package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// Messages stores private text between participants, and text between channels. A message is not a
// step. The methods block on the record; errors not listed below wrap
// [*federation.UnavailableError].
type Messages interface {
	// Say stores a message. The caller sets ID (zero for a new one), Author, To, Body, About,
	// Fields and Arrival. The field [federation.Reply] is the message ID in the author's network.
	// The Place of the Arrival is that of a [Recipient]. After a nil error, the message is on
	// disk. A message with the ID of an earlier one returns the earlier result and changes
	// nothing. The error is a [*federation.RefusalError] for a refused message, and wraps
	// [federation.ErrNotFound] if no link reaches the recipient.
	Say(ctx context.Context, t federation.Text, original signing.Original) (TextResult, error)
	// Relay files a line of a channel for the other links that relay the channel. The caller sets
	// ID(from [federation.ChatID]), Author, Venue, Body, About, Fields and Arrival. After a nil
	// error, the line is on disk. A repeated ID changes nothing, which stops loops over other
	// gateways. The error is a [*federation.RefusalError] for a refused line. The first line that
	// finds the queue of a link full gets this error too, but all other links get that line.
	Relay(ctx context.Context, line federation.Text, original signing.Original) error
	// Addressee returns the recipient for NICK@LINK, or [federation.ErrNotFound] for an unknown
	// link or an invalid nick.
	Addressee(ctx context.Context, address string) (Recipient, error)
	// Introduce returns the DID of a participant of a peer of a link, such as HANDLE@DOMAIN of a
	// configured registry, and files a new participant. It blocks on the peer. It returns
	// [federation.ErrNotFound] if no peer has the name, and wraps [*federation.UnavailableError] if
	// the peer is unreachable.
	Introduce(ctx context.Context, address string) (federation.DID, error)
	// Guest returns the gateway's DID for a user of a link without its own DID. It ignores the case
	// of the nick, and does not block.
	Guest(link, nick string) federation.DID
	// Decide records whether a participant accepts messages of a sender. The decision applies on
	// every network. Decide returns [federation.ErrTooManyContacts] if the limit on senders is
	// reached.
	Decide(ctx context.Context, person, sender federation.DID, allow bool) error
	// Contacts returns, after a cursor, up to limit senders that wrote to a participant or were
	// allowed or blocked. It also returns the next cursor, or "" after the last.
	Contacts(ctx context.Context, person federation.DID, after string, limit int) (found []federation.Contact, next string, err error)
	// Back makes the pending messages and steps for a DID due now, because the DID connected to a
	// link. An empty DID means all deliveries of the link.
	Back(ctx context.Context, link string, did federation.DID) error
	// Answered returns the handoff of the message with the given ID on its network: that of its
	// step, or the one it names. It returns [federation.ErrNotFound] if there is none.
	Answered(ctx context.Context, messageID string) (federation.HandoffID, error)
	// ShownAs returns the message ID on a link of the text named by a field [federation.Reply]. It
	// returns [federation.ErrNotFound] if no such text is on record.
	ShownAs(ctx context.Context, link, id string) (messageID string, err error)
	// About returns the text that refers to a handoff, oldest first.
	About(ctx context.Context, id federation.HandoffID) ([]federation.Text, error)
}

// Recipient is the destination of a message.
type Recipient struct {
	DID federation.DID
	// Place has the link and the nick of a user without a DID of its own. It is zero for a DID,
	// which the gateway looks up.
	Place federation.ChannelRef
}

// TextResult is the result of a message.
type TextResult struct {
	Text  federation.Text // on file
	Known bool            // already on file
	Away  bool            // the message waits: the recipient is not connected, or another home must accept it
	// Forwarded is true if another home or registry must accept the message. This gateway does not
	// know whether the recipient is connected there.
	Forwarded bool
	// ToNick is true if the recipient is a guest, which has no DID. The next user with its nick
	// gets the waiting message.
	ToNick bool
}

// ToNickNote is the notice to a sender for [TextResult.ToNick].
const ToNickNote = "the recipient is not connected and has no account: the next user with that nick will read the message"

// TextLink is a [Link] that delivers text.
type TextLink interface {
	Link
	// DeliverText delivers text. It has the contract and the errors of [Link.Deliver].
	DeliverText(ctx context.Context, t federation.Text) error
}

// Messenger is a [TextLink] to users that receive private text, as lines from the sender's nick.
type Messenger interface {
	TextLink
	// Addressee returns the DID of the current user with the given nick, or "" for none. It
	// returns [federation.ErrNotFound] for an invalid nick, and the errors of the record.
	Addressee(ctx context.Context, nick string) (federation.DID, error)
	// Here reports whether a message can be shown now to a DID, or to a nick if there is no DID.
	// For a nick it also returns its [federation.Holder].
	Here(ctx context.Context, to Recipient) (holder string, here bool)
}

// Consenter is a [Link] to agents whose network has its own rules of consent. It stores their
// decisions about senders of messages, and its Effects judge the messages to them. Its methods
// block on the record, and return its errors.
type Consenter interface {
	Link
	// Consents reports whether the network stores the decisions of a DID about a sender.
	Consents(ctx context.Context, person, sender federation.DID) (bool, error)
	// Decide stores the decision of such a DID about a sender.
	Decide(ctx context.Context, c federation.Contact, now time.Time) error
	// Answer records that such a DID wrote to another DID. This allows messages of the other DID
	// unless it is blocked.
	Answer(ctx context.Context, person, to federation.DID, now time.Time) error
	// Contacts returns the known senders of such a DID, like [Messages.Contacts].
	Contacts(ctx context.Context, person federation.DID, after string, limit int) (found []federation.Contact, next string, err error)
}

// Relayer is a [TextLink] that relays the text of channels.
type Relayer interface {
	TextLink
	// Relays returns the channels whose text the link exchanges with other links, as venues of this
	// federation.
	Relays() []string
}

// IdentityClaim is a gateway's claim about the identity of a person.
//
// spec: freeq identity-claims
type IdentityClaim string

// The claims, from the strongest to none.
const (
	Anchored   IdentityClaim = "atProtocol" // a DID with a document of its own: its owner can change keys and keep the name
	SelfIssued IdentityClaim = "selfIssued" // a did:key: its owner holds the key, and no document confirms it
	Relayed    IdentityClaim = "relayed"    // another server names the account, and this gateway did not check it
	Guest      IdentityClaim = "guest"      // a nick without an account
	LookingUp  IdentityClaim = "lookingUp"  // the answer is pending: state nothing yet
	Unknown    IdentityClaim = "unknown"    // nothing is known; the person may still have an account
)

// stamped returns the time since which servers mark each message with the account of its sender.
// The sender of an older, unmarked message may have an account.
//
// spec: freeq identity-claims "stamping_epoch"
func stamped() time.Time { return time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC) }

// Lookup is the state of the lookup of the account of a name.
type Lookup string

// The states. The zero Lookup means that no lookup was made.
const (
	InFlight   Lookup = "inFlight"
	NoAccount  Lookup = "noAccount"  // the user is a guest
	NoSuchName Lookup = "noSuchNick" // the answer: no user has that name
	TimedOut   Lookup = "timedOut"
)

// Seen has the evidence about the sender of one message.
type Seen struct {
	Account federation.DID // account tag; empty for none
	Origin  string         // the server that relayed it; empty for our own
	Present bool
	Live    federation.DID // current DID of the sender, or the result of the lookup
	At      time.Time      // zero if unknown
}

// ClaimOfMessage returns the claim about the sender of a message. The mark of the message takes
// precedence over the current user of the name. The DID is empty if none is known.
func ClaimOfMessage(s Seen) (IdentityClaim, federation.DID) {
	switch {
	case s.Origin != "":
		return relayed(s.Account != ""), s.Account
	case s.Account != "":
		return claimOf(s.Account), s.Account
	case s.Present && s.Live != "":
		return claimOf(s.Live), s.Live
	case s.Present, !s.At.IsZero() && !s.At.Before(stamped()):
		return Guest, ""
	}
	return Unknown, ""
}

// ClaimOfPerson returns the claim about a named person without evidence in a message. It uses the
// DID bound to the name here, or otherwise the peer's statement, which may be an account.
func ClaimOfPerson(bound federation.DID, byPeer, account bool, asked Lookup) (IdentityClaim, federation.DID) {
	switch {
	case bound != "":
		return claimOf(bound), bound
	case byPeer:
		return relayed(account), ""
	}
	return answered(asked), ""
}

func claimOf(did federation.DID) IdentityClaim {
	if did.Method() == "key" {
		return SelfIssued
	}
	return Anchored
}

func relayed(account bool) IdentityClaim {
	if account {
		return Relayed
	}
	return Guest
}

func answered(asked Lookup) IdentityClaim {
	switch asked {
	case InFlight:
		return LookingUp
	case NoAccount:
		return Guest
	case NoSuchName, TimedOut:
	}
	return Unknown
}

// ErrAddress is returned by [Webhooks.Register] for a forbidden address.
var ErrAddress = errors.New("nothing is posted to this address")

// ErrBroken is wrapped by an error of [Poster.Posts] for a push that can never be made.
var ErrBroken = errors.New("this push cannot be delivered")

// Webhooks registers the webhooks of participants, to which the gateway posts their notifications.
type Webhooks interface {
	// Check returns the error that Register would return for an address. It blocks on the network.
	Check(ctx context.Context, address string) error
	// Register stores a webhook of a DID, or of the participant with a handle, created in a
	// session: see [federation.Webhook.In]. Its error wraps [ErrAddress],
	// [federation.ErrTooManyWebhooks] or [federation.ErrTaken] (the DID already has a webhook with
	// that address). It is a [*federation.UnavailableError] if the address cannot be checked now.
	// Register blocks on the network and the record.
	Register(ctx context.Context, h federation.Webhook, now time.Time) (Registered, error)
	// Follow stores a webhook that follows a handoff, with the owner, handoff, label, address and
	// sealed content of h. It returns the errors of Register. The limit on a DID's webhooks
	// applies to each followed handoff separately.
	Follow(ctx context.Context, h federation.Webhook, now time.Time) (federation.Webhook, error)
	// Enable enables a disabled webhook with a valid address, for the session in h. It returns the
	// errors of Check, or wraps [federation.ErrNotFound] for a removed webhook.
	Enable(ctx context.Context, h federation.Webhook) error
	// PublicKey returns the public key of a webhook, as shown to its owner.
	PublicKey(id federation.WebhookID) (string, error)
}

// Registered is a new webhook, with the values shown to its owner only once.
type Registered struct {
	federation.Webhook

	Secret    string // "whsec_": the key of the signature on each post
	PublicKey string // "whpk_": the key of the other signature, for receivers without a secret
}

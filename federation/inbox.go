package federation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrLeaseLost is returned for a lease that ended, or was taken over by another device.
var ErrLeaseLost = errors.New("federation: lease lost")

// ErrTooManyDevices is returned beyond [MaxDevices].
var ErrTooManyDevices = errors.New("federation: too many devices")

// MaxDevices bounds the devices of one DID.
const MaxDevices = 16

// CursorError is an [ErrUnknownCursor]. The caller can continue from the zero Cursor, to read the whole
// inbox again, or from Newest, to read only later entries.
type CursorError struct {
	Newest Cursor
}

// Error implements error.
func (e *CursorError) Error() string {
	return ErrUnknownCursor.Error() + ": read on from the start, or only what comes from now on"
}

// Unwrap returns [ErrUnknownCursor].
func (e *CursorError) Unwrap() error { return ErrUnknownCursor }

// Undelivered is a pending inbox entry.
type Undelivered struct {
	To    DID
	Entry Entry
	View  View
}

// LeaseToken names one lease of one inbox entry.
type LeaseToken struct {
	Cursor   Cursor
	Device   string
	Delivery int // number of leases so far
}

// Lease is an inbox entry leased to one device.
type Lease struct {
	LeaseToken

	Entry Entry
	Until time.Time
}

// Device is a reader of an inbox with its own read position.
type Device struct {
	Name   string
	Cursor Cursor // zero if it has read nothing
	Since  time.Time
	Seen   time.Time // last move of Cursor
}

// InboxLimits bounds one inbox, or one list of first contacts. Zero means no limit.
type InboxLimits struct {
	Events          int
	Bytes           int64
	EventsPerSender int
	BytesPerSender  int64
}

// InboxUse is the use of one inbox, in total and by one sender.
type InboxUse struct {
	Entries, SenderEntries int
	Bytes, SenderBytes     int64
}

// Plus returns the sum of two uses of the same inbox and sender.
func (u InboxUse) Plus(v InboxUse) InboxUse {
	return InboxUse{
		Entries: u.Entries + v.Entries, SenderEntries: u.SenderEntries + v.SenderEntries,
		Bytes: u.Bytes + v.Bytes, SenderBytes: u.SenderBytes + v.SenderBytes,
	}
}

// Remaining is the free space for one sender in an inbox.
type Remaining struct {
	Entries int
	Bytes   int64
}

// Admits reports whether one more entry of the given size fits within the limits of the sender and the
// inbox.
func (l InboxLimits) Admits(u InboxUse, size int64) bool {
	whole, share := l.Remaining(u)
	return whole.Admits(size) && share.Admits(size)
}

// Admits reports whether one more entry of the given size fits.
func (f Remaining) Admits(size int64) bool { return f.Entries > 0 && f.Bytes >= size }

// Less returns the space after one more entry of the given size.
func (f Remaining) Less(size int64) Remaining {
	return Remaining{Entries: f.Entries - 1, Bytes: f.Bytes - size}
}

// Remaining returns the free space of an inbox, and the share of the sender.
//
// The share shrinks as the inbox fills, because a full inbox would lock out each new sender. It is whole
// while other senders use at most half of the inbox, and then falls with the square of the remaining
// space. The first entry of a sender needs no share.
func (l InboxLimits) Remaining(u InboxUse) (whole, share Remaining) {
	whole = Remaining{Entries: math.MaxInt, Bytes: math.MaxInt64}
	if l.Events > 0 {
		whole.Entries = l.Events - u.Entries
	}
	if l.Bytes > 0 {
		whole.Bytes = l.Bytes - u.Bytes
	}
	share = Remaining{Entries: math.MaxInt, Bytes: math.MaxInt64}
	if l.EventsPerSender > 0 {
		others := int64(u.Entries - u.SenderEntries)
		share.Entries = int(shareOf(int64(l.EventsPerSender), int64(l.Events), others)) - u.SenderEntries
	}
	if l.BytesPerSender > 0 && u.SenderEntries > 0 {
		share.Bytes = shareOf(l.BytesPerSender, l.Bytes, u.Bytes-u.SenderBytes) - u.SenderBytes
	}
	return whole, share
}

// CheckFirstContact refuses a message from an unknown sender if the recipient's list or the sender's
// share is full. If yields is set, a full list accepts it, because another entry is displaced.
func (l InboxLimits) CheckFirstContact(held InboxUse, yields bool) error {
	whole, share := l.Remaining(held)
	switch {
	case !whole.Admits(0) && !yields:
		return &RefusalError{Code: InboxFull, Detail: "its list of unanswered first messages is full"}
	case !share.Admits(0):
		return &RefusalError{Code: InboxFull, Detail: "it has not consented to you yet, and no more of your messages are held"}
	}
	return nil
}

// Heaviest returns the source with the largest share, and whether other displaces one of its entries.
// Other must stay below that share, so that two sources never displace each other in turn.
func Heaviest(shares map[string]int, other string) (source string, yields bool) {
	largest := 0
	for each, n := range shares {
		if n > largest || n == largest && each > source {
			source, largest = each, n
		}
	}
	return source, shares[other]+1 < largest
}

// The result is at least 1.
func shareOf(share, size, others int64) int64 {
	if size <= 0 || others <= size/2 {
		return share
	}
	free := 2 * float64(size-others) / float64(size)
	return max(1, int64(math.Ceil(float64(share)*free*free)))
}

// NoticeKind is the subject of a notice.
type NoticeKind string

// The kinds of notices.
const (
	NoticeRefused       NoticeKind = "refused"       // by its home, or without a possible ruling
	NoticeDelayed       NoticeKind = "delayed"       // retries continue
	NoticeDelivered     NoticeKind = "delivered"     // after a delay notice
	NoticeUndeliverable NoticeKind = "undeliverable" // delivery abandoned
	NoticeDisabled      NoticeKind = "disabled"
)

// DelayNotice is the age at which a pending delivery is reported to the signer.
const DelayNotice = 5 * time.Minute

// Notice reports the outcome of a step to its signer, or a disabled webhook to its owner. It is never
// answered.
type Notice struct {
	Cursor Cursor     `json:"-"` // zero before filing
	Kind   NoticeKind `json:"kind"`
	Event  Event      `json:"event,omitzero"`
	// Text is the subject instead of a step, or nil.
	Text *Text `json:"-"`
	// Webhook is the subject of a [NoticeDisabled]. Its owner is notified on its participant link,
	// otherwise on the [InboxLink].
	Webhook Webhook `json:"webhook,omitzero"`
	// To is the link, peer or DID of the delivery, or "" for the whole step.
	To   string    `json:"to,omitempty"`
	Code string    `json:"code,omitempty"` // of a refusal, or a [DeadReason]
	Why  string    `json:"why,omitempty"`  // for people; no private data
	At   time.Time `json:"at"`
}

// Row returns the step, or the [Text.Row] of text.
func (n Notice) Row() Event { return rowOf(n.Event, n.Text) }

// MarshalJSON implements [json.Marshaler]: the member "event" has the Row.
func (n Notice) MarshalJSON() ([]byte, error) {
	type plain Notice
	n.Event = n.Row()
	return json.Marshal(plain(n))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Notice) UnmarshalJSON(text []byte) error {
	type plain Notice
	err := DecodeJSON(text, (*plain)(n))
	n.Event, n.Text = splitRow(n.Event)
	return err
}

// Reader returns the recipient of the notice.
func (n Notice) Reader() DID {
	if n.Kind == NoticeDisabled {
		return n.Webhook.DID
	}
	return n.Row().Actor()
}

// Link returns the link of the step, or [InboxLink] if the signer reads its notices from the record.
func (n Notice) Link() string {
	from := n.Row().Arrival
	if from.ReadsInbox {
		return InboxLink
	}
	return from.Link
}

// About returns the ID of the step, the text or the webhook.
func (n Notice) About() EventID {
	if n.Kind == NoticeDisabled {
		return n.Webhook.ID
	}
	return n.Row().ID
}

// Ref identifies a notice for its reader.
func (n Notice) Ref() string { return n.About().String() + "/" + string(n.Kind) }

// Sentence returns the text for the signer, without the final period.
func (n Notice) Sentence() string {
	if n.Kind == NoticeDisabled {
		return "your webhook " + n.Webhook.URL + " is disabled: " + n.Why
	}
	text := fmt.Sprintf("your %s of handoff %s ", n.Event.Verb, n.Event.Handoff.Short())
	if n.Text != nil {
		text = fmt.Sprintf("your message %s ", n.Text.ID.Short())
	}
	to := n.To
	switch did, err := ParseDID(to); {
	case to == "" || to == UnroutedLink:
		to = "its recipient"
	case err == nil:
		to = did.Short()
	}
	switch n.Kind {
	case NoticeDelayed:
		text += "has not reached " + to + " yet and is tried on"
	case NoticeDelivered:
		text += "has reached " + to
	case NoticeUndeliverable:
		text += "cannot be delivered to " + to
	case NoticeRefused:
		text += "was refused"
	case NoticeDisabled:
	}
	switch {
	case n.Why != "":
		text += ": " + n.Why
	case n.To == UnroutedLink && n.Kind == NoticeDelayed:
		text += ": no home is known to have its mailbox"
	}
	return text
}

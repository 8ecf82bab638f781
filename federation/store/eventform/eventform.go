// Package eventform writes an event as the columns of its row, and reads the event from them. Its
// functions are pure.
//
// The signed document is stored once, verbatim. The body is compact JSON with the members that the
// document and the other columns do not give. An unsigned or erased step has no document.
package eventform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Columns are the columns of a row that contain its event.
type Columns struct {
	Document []byte    // signed; nil for an unsigned or erased step
	Body     []byte    // JSON
	Message  string    // of the message that carried the step, or ""
	Said     time.Time // see [federation.Event.ShownAt]
}

// SQL reads the members party and erased.
type body struct {
	arrival

	MessageID *string    `json:"message_id,omitempty"` // if the column differs
	Received  *time.Time `json:"received,omitempty"`   // if it is not the time in the column said

	ID         federation.EventID    `json:"id,omitzero"`          // if the document has none
	Channel    string                `json:"channel,omitempty"`    // of a line, whose document has no venue
	Provenance federation.Provenance `json:"provenance,omitempty"` // if different from the document's
	Key        []byte                `json:"key,omitempty"`        // as in Signature
	Sig        []byte                `json:"sig,omitempty"`        // if its text has the usual form with the ID of Key
	Signature  *signature            `json:"signature,omitempty"`  // any other form
	Source     []byte                `json:"source,omitempty"`     // of evidence named by the document
	Evidence   *evidence             `json:"evidence,omitempty"`   // not named by the document
	Erased     *erasure              `json:"erased,omitempty"`
	Step       *step                 `json:"step,omitempty"`       // members missing in the document
	OwnFields  bool                  `json:"own_fields,omitempty"` // the fields of Step replace the fields of the document
}

// Other members are in columns or elsewhere in the body.
type arrival struct {
	Network      string                `json:"network,omitempty"`
	Link         string                `json:"link,omitempty"`
	Home         federation.HomeID     `json:"home,omitempty"`
	Path         []federation.HomeID   `json:"path,omitempty"`
	RemoteVenue  bool                  `json:"abroad,omitempty"`
	ReadsInbox   bool                  `json:"reads_inbox,omitempty"`
	Name         string                `json:"name,omitempty"`
	User         string                `json:"-"`
	MessageID    string                `json:"-"`
	Received     time.Time             `json:"-"`
	Address      string                `json:"-"`
	ActingFor    federation.DID        `json:"party,omitempty"`
	Recipient    federation.DID        `json:"recipient,omitempty"`
	ViaCommand   bool                  `json:"command,omitempty"`
	Orphaned     bool                  `json:"orphaned,omitempty"`
	Voucher      *federation.Voucher   `json:"voucher,omitempty"`
	AcceptedFrom federation.DID        `json:"accepted,omitempty"`
	Place        federation.ChannelRef `json:"place,omitzero"`
}

type step struct {
	ID          federation.EventID    `json:"id,omitzero"`
	Handoff     federation.HandoffID  `json:"handoff,omitzero"`
	Kind        federation.Kind       `json:"kind,omitempty"`
	Verb        federation.Verb       `json:"verb,omitempty"`
	From        federation.DID        `json:"from,omitempty"`
	For         federation.DID        `json:"for,omitempty"`
	To          federation.DID        `json:"to,omitempty"`
	Venue       string                `json:"venue,omitempty"`
	Dialect     federation.Dialect    `json:"dialect,omitempty"`
	Title       string                `json:"title,omitempty"`
	Context     string                `json:"context,omitempty"`
	ContextHash string                `json:"context_hash,omitempty"`
	Caps        []string              `json:"caps,omitempty"`
	Deadline    time.Time             `json:"deadline,omitzero"`
	Note        string                `json:"note,omitempty"`
	ReplyTo     string                `json:"reply_to,omitempty"`
	Priority    string                `json:"priority,omitempty"`
	Subject     federation.EventID    `json:"subject,omitzero"`
	BidDeadline time.Time             `json:"bid_deadline,omitzero"`
	Accepts     federation.EventID    `json:"accepts,omitzero"`
	Replaces    federation.HandoffID  `json:"replaces,omitzero"`
	Fields      map[string]string     `json:"fields,omitempty"`
	Stamped     bool                  `json:"stamped,omitempty"`
	Provenance  federation.Provenance `json:"provenance,omitempty"`
	Signature   federation.Signature  `json:"-"`
	Evidence    *federation.Evidence  `json:"-"`
	Erased      *federation.Erasure   `json:"-"`
	Arrival     federation.Arrival    `json:"-"`
}

type signature struct {
	KeyID    string `json:"key_id,omitempty"`
	Bytes    []byte `json:"bytes,omitempty"`
	Text     string `json:"text,omitempty"`
	Document string `json:"-"`
	Key      []byte `json:"-"`
}

type evidence struct {
	URL    string `json:"url,omitempty"`
	Digest []byte `json:"digest"`
	Source []byte `json:"source"`
}

type erasure struct {
	At       time.Time `json:"at"`
	Document []byte    `json:"document"`
	Digest   []byte    `json:"digest"`
}

// Encode returns the document and the body of an event, for a row with the given message ID and
// time in the column said.
func Encode(ev federation.Event, message string, said time.Time) (Columns, error) {
	c := Columns{Message: message, Said: said}
	if ev.Signature.Document != "" {
		c.Document = []byte(ev.Signature.Document)
	}
	b := body{arrival: arrival(ev.Arrival), Key: ev.Signature.Key}
	if ev.Arrival.MessageID != message {
		b.MessageID = &ev.Arrival.MessageID
	}
	if received := ev.Arrival.Received; !received.Equal(said) || !inUTC(received) {
		b.Received = &received
	}
	b.sign(ev.Signature)
	if ev.Erased != nil {
		b.Erased = &erasure{At: ev.Erased.At, Document: ev.Erased.Document[:], Digest: ev.Erased.Digest[:]}
	}
	read, readable := readDocument(ev.Signature.Document)
	b.prove(ev.Evidence, read)
	if readable {
		b.supply(ev, read)
	}
	if readable = readable && b.complete(&read); !readable || !same(read, ev) {
		b.ID, b.Channel, b.Provenance = federation.EventID{}, "", ""
		members := step(ev)
		if b.OwnFields = !maps.Equal(members.Fields, read.Fields); !b.OwnFields {
			members.Fields = nil
		}
		b.Step = &members
	}
	var err error
	c.Body, err = encodeJSON(b)
	return c, err
}

func encodeJSON(b body) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(b); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func inUTC(t time.Time) bool {
	_, offset := t.Zone()
	return offset == 0
}

// Only the bytes are stored if these and the key determine the rest.
func (b *body) sign(s federation.Signature) {
	switch {
	case len(s.Bytes) > 0 && len(s.Key) > 0 && s.KeyID == federation.KeyID(s.Key) && s.Text == signatureText(s.KeyID, s.Bytes):
		b.Sig = s.Bytes
	case s.KeyID != "" || s.Text != "" || len(s.Bytes) > 0:
		other := signature(s)
		b.Signature = &other
	}
}

// Only the source is stored if the document names the other members.
func (b *body) prove(e *federation.Evidence, read federation.Event) {
	if e == nil {
		return
	}
	if named, found := namedEvidence(read); found && named.URL == e.URL && named.Digest == e.Digest {
		b.Source = e.Source[:]
		return
	}
	b.Evidence = &evidence{URL: e.URL, Digest: e.Digest[:], Source: e.Source[:]}
}

func (b *body) supply(ev, read federation.Event) {
	if read.ID.IsZero() {
		b.ID = ev.ID
	}
	if read.Venue == "" {
		b.Channel = ev.Venue
	}
	if read.Provenance != ev.Provenance {
		b.Provenance = ev.Provenance
	}
}

// Decode returns the event of a row.
func Decode(c Columns) (federation.Event, error) {
	var b body
	if err := federation.DecodeStrictJSON(c.Body, &b); err != nil {
		return federation.Event{}, fmt.Errorf("decode event: %w", err)
	}
	document := string(c.Document)
	ev, readable := readDocument(document)
	named, _ := namedEvidence(ev)
	switch {
	case b.Step != nil:
		fields := ev.Fields
		if ev = federation.Event(*b.Step); !b.OwnFields {
			ev.Fields = fields
		}
	case !readable || !b.complete(&ev):
		return federation.Event{}, errors.New("decode event: its document cannot be read")
	}
	ev.Signature = federation.Signature{Bytes: b.Sig, Document: document, Key: b.Key}
	if b.Signature != nil {
		ev.Signature.KeyID, ev.Signature.Bytes, ev.Signature.Text = b.Signature.KeyID, b.Signature.Bytes, b.Signature.Text
	} else if b.Sig != nil {
		ev.Signature.KeyID = federation.KeyID(b.Key)
		ev.Signature.Text = signatureText(ev.Signature.KeyID, b.Sig)
	}
	var err error
	switch {
	case b.Evidence != nil:
		ev.Evidence = &federation.Evidence{URL: b.Evidence.URL}
		err = errors.Join(copyDigest(&ev.Evidence.Digest, b.Evidence.Digest), copyDigest(&ev.Evidence.Source, b.Evidence.Source))
	case b.Source != nil:
		ev.Evidence = &named
		err = copyDigest(&ev.Evidence.Source, b.Source)
	}
	if b.Erased != nil {
		ev.Erased = &federation.Erasure{At: b.Erased.At}
		err = errors.Join(err, copyDigest(&ev.Erased.Document, b.Erased.Document), copyDigest(&ev.Erased.Digest, b.Erased.Digest))
	}
	if err != nil {
		return federation.Event{}, err
	}
	b.arrive(&ev, c)
	return ev, nil
}

func (b *body) arrive(ev *federation.Event, c Columns) {
	ev.Arrival = federation.Arrival(b.arrival)
	ev.Arrival.MessageID, ev.Arrival.Received = c.Message, c.Said
	if b.MessageID != nil {
		ev.Arrival.MessageID = *b.MessageID
	}
	if b.Received != nil {
		ev.Arrival.Received = *b.Received
	}
}

func copyDigest(into *[32]byte, digest []byte) error {
	if len(digest) != len(into) {
		return fmt.Errorf("decode event: a digest of %d bytes", len(digest))
	}
	copy(into[:], digest)
	return nil
}

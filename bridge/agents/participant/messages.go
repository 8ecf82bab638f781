package participant

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// MessageRequest is a request to write to another participant.
type MessageRequest struct {
	// The handoff that the message refers to.
	Handoff string `json:"handoff,omitempty,omitzero"`
	Text    string `json:"text" minLength:"1" maxLength:"4096"`
	// A DID, the name or handle of an agent, a nick, NICK@LINK, or HANDLE@DOMAIN of a registry in
	// the configuration.
	To string `json:"to" minLength:"1" maxLength:"512"`
}

// Sent is the answer to a message on disk.
type Sent struct {
	ID string `json:"id"`
	// `delivered`, or `held` while the recipient is offline or another home or registry has not
	// accepted it
	Status string `json:"status"`
	// DID of the recipient.
	To string `json:"to"`
	// The possible reader of a held message, if it may not be the recipient: a user of a link
	// without an account is known only by its nick.
	Note string `json:"note,omitempty"`
	// The participant for a name in the request.
	Resolved *Resolved `json:"resolved,omitzero"`

	// Replayed reports that an earlier request filed the message.
	Replayed bool `json:"-"`
}

// AnswerStatus returns the HTTP status of the answer.
func (s Sent) AnswerStatus() int {
	if s.Status == StatusHeld {
		return http.StatusAccepted
	}
	return http.StatusCreated
}

// AnswerHeader sets the headers of the answer.
func (s Sent) AnswerHeader(h http.Header) { markReplayed(h, s.Replayed) }

// The states of a sent message.
const (
	StatusSent = "delivered" // in the recipient's inbox, or in flight
	StatusHeld = "held"      // queued
)

// Say sends a message. After a nil error, it is on disk. Requests with the same key send one message.
func (a *Service) Say(ctx context.Context, who Caller, m MessageRequest, key string) (Sent, error) {
	from, err := who.Person()
	if err != nil {
		return Sent{}, err
	}
	if a.deps.Messages == nil {
		return Sent{}, errUnreached(m.To)
	}
	if who.Bound {
		if err := a.Builder().CheckVouched(ctx, from); err != nil {
			return Sent{}, err
		}
	}
	said := federation.Text{
		Author: from, Body: m.Text,
		Arrival: federation.Arrival{Network: a.network, Link: a.network, ReadsInbox: true, Name: a.nameIn(ctx, from), Received: time.Now()},
	}
	if m.Handoff != "" {
		if said.About, err = federation.ParseEventID(m.Handoff); err != nil {
			return Sent{}, bridge.UsageProblem("handoff: " + err.Error())
		}
	}
	if key != "" {
		sum := sha256.Sum256([]byte("message " + string(from) + " " + key))
		copy(said.ID[:], sum[:])
	}
	to, resolved, err := a.Recipient(ctx, m.To)
	if err != nil {
		return Sent{}, err
	}
	said.To, said.Arrival.Place = to.DID, to.Place
	text, err := json.Marshal(struct {
		DID     federation.DID `json:"did"`
		Request string         `json:"request"`
		Body    MessageRequest `json:"body"`
	}{from, http.MethodPost + " " + Path + "messages", m})
	if err != nil {
		return Sent{}, err
	}
	done, err := a.deps.Messages.Say(ctx, said, signing.Original{Network: a.network, Received: said.Arrival.Received, Document: string(text)})
	if errors.Is(err, federation.ErrNotFound) {
		return Sent{}, errUnreached(m.To)
	}
	if err != nil {
		return Sent{}, err
	}
	sent := Sent{ID: done.Text.ID.String(), Status: StatusSent, To: string(done.Text.To), Resolved: resolved, Replayed: done.Known}
	if done.Away {
		sent.Status = StatusHeld
		if done.ToNick {
			sent.Note = bridge.ToNickNote
		}
	}
	return sent, nil
}

// nameIn returns "" for a DID seen on a link.
func (a *Service) nameIn(ctx context.Context, did federation.DID) string {
	if _, err := a.deps.Bindings.Seen(ctx, did); !errors.Is(err, federation.ErrNotFound) {
		return ""
	}
	return a.Name(ctx, did)
}

func errUnreached(to string) error {
	return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "no link of this gateway reaches " + to}
}

// Say writes to another participant, like [Service.Say].
func (a Account) Say(ctx context.Context, m MessageRequest, key string) (Sent, error) {
	return a.Access.Say(ctx, a.Caller, m, key)
}

// Say is [Account.Say].
func (r Remote) Say(ctx context.Context, m MessageRequest, key string) (Sent, error) {
	return invoke[Sent](ctx, r, "say", sayCall{m, key})
}

// Start returns the requested cursor, or else the position of the device, initially the beginning.
func (a *Service) Start(ctx context.Context, did federation.DID, cursor federation.Cursor, device string) (federation.Cursor, error) {
	if cursor != "" || device == "" {
		return cursor, nil
	}
	devices, err := a.deps.Inbox.Devices(ctx, did)
	if err != nil {
		return "", fmt.Errorf("look up devices: %w", err)
	}
	if i := slices.IndexFunc(devices, func(d federation.Device) bool { return d.Name == device }); i >= 0 {
		return devices[i].Cursor, nil
	}
	return "", nil
}

// Entries returns up to limit inbox entries after a cursor, oldest first. The error is a
// [*federation.CursorError] for a cursor that this inbox never issued.
func (a *Service) Entries(ctx context.Context, did federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	return a.deps.Inbox.Replay(ctx, did, after, limit)
}

// Acknowledge acknowledges all entries up to a cursor, and stores the device's position.
func (a *Service) Acknowledge(ctx context.Context, did federation.DID, device string, upTo federation.Cursor) error {
	return a.deps.Inbox.Advance(ctx, did, device, upTo, time.Now())
}

// Named is a step of a log, or a step or text of an inbox, with the name of its author.
type Named struct {
	Entry  federation.Entry  `json:"entry"`
	Name   string            `json:"name"`
	Cursor federation.Cursor `json:"cursor,omitempty"` // in an inbox
	Waits  bool              `json:"waits,omitempty"`  // not acknowledged
	Now    federation.State  `json:"now,omitempty"`    // of the handoff; inbox only
}

func (a *Service) named(ctx context.Context, e federation.Entry) Named {
	return Named{Entry: e, Name: a.Name(ctx, e.Row().Actor()), Cursor: e.Cursor, Waits: e.Waits, Now: e.Now}
}

type place struct {
	after federation.Cursor
	limit int
}

type page struct {
	began time.Time
	items []Named
}

// Read implements [Page].
func (p *page) Read() time.Time { return p.began }

// Empty implements [Page].
func (p *page) Empty() bool { return len(p.items) == 0 }

// Size implements [Page].
func (p *page) Size() (total int) {
	for _, item := range p.items {
		ev := item.Entry.Row()
		total += len(ev.Title) + len(ev.Note) + len(ev.Context) + len(ev.Signature.Document)
	}
	return total
}

func (a *Service) readPage(ctx context.Context, did federation.DID, at place) (*page, error) {
	p := &page{began: time.Now()}
	entries, err := a.Entries(ctx, did, at.after, at.limit)
	for _, e := range entries {
		p.items = append(p.items, a.named(ctx, e))
	}
	return p, err
}

func errTooManyStreams(limit int) error {
	return &bridge.ProblemError{
		Status: http.StatusServiceUnavailable, Code: bridge.CodeUnavailable, RetryAfter: int(pollInterval.Seconds()),
		Detail: fmt.Sprintf("%d inboxes are watched, the maximum: list without waiting, or try again later", limit),
	}
}

// poll blocks until there is an entry, the time is over or ctx ends; the latter two are not errors.
// Requests share reads.
func (a *Service) poll(ctx context.Context, did federation.DID, at place, within time.Duration) (*page, error) {
	limit := a.deps.HTTP.MaxStreams
	if !a.deps.Streams.Take(limit) {
		return nil, errTooManyStreams(limit)
	}
	defer a.deps.Streams.Leave()
	w := a.topics.Await(did, within)
	defer w.Leave()
	p, err := w.Poll(ctx, at, nil)
	if err != nil && ctx.Err() != nil {
		return &page{}, nil
	}
	return p, err
}

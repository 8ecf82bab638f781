package participant

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
)

// MessageRequest is a request to write to another participant.
type MessageRequest struct {
	// The handoff that it is about.
	Handoff string `json:"handoff,omitempty,omitzero"`
	Text    string `json:"text" minLength:"1" maxLength:"4096"`
	// A DID, the handle of an agent, NICK@LINK, or HANDLE@DOMAIN of a registry that the operator named.
	To string `json:"to" minLength:"1" maxLength:"512"`
}

// Sent is the answer to a message that is on disk.
type Sent struct {
	ID string `json:"id"`
	// `delivered`, or `held` while the recipient is away or another home or registry has not taken it
	Status string `json:"status"`
	// DID of the recipient.
	To string `json:"to"`

	// Replayed says that the message was filed by an earlier request.
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

// What became of a message so far.
const (
	StatusSent = "delivered" // it is in the recipient's inbox, or on its way to a link where the recipient is
	StatusHeld = "held"      // the recipient is away, and the message waits
)

// Say writes to another participant. When Say returns nil the message is on disk. A request with
// the key of an earlier one is the same message.
func (a *Access) Say(ctx context.Context, who Caller, m MessageRequest, key string) (Sent, error) {
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
	said := bridge.Message{
		From: from, Text: m.Text,
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
	if said.To, err = a.recipient(ctx, m.To); err != nil {
		return Sent{}, err
	}
	text, err := json.Marshal(struct {
		DID     federation.DID `json:"did"`
		Request string         `json:"request"`
		Body    MessageRequest `json:"body"`
	}{from, http.MethodPost + " " + Path + "messages", m})
	if err != nil {
		return Sent{}, err
	}
	said.Original = signing.Original{Network: a.network, Received: said.Arrival.Received, Document: string(text)}
	done, err := a.deps.Messages.Say(ctx, said)
	if errors.Is(err, federation.ErrNotFound) {
		return Sent{}, errUnreached(m.To)
	}
	if err != nil {
		return Sent{}, err
	}
	sent := Sent{ID: done.Entry.Event.ID.String(), Status: StatusSent, To: string(done.Entry.Event.To), Replayed: done.Known}
	if done.Away {
		sent.Status = StatusHeld
	}
	return sent, nil
}

// nameIn returns the name under which the record keeps a DID that is known by its requests alone:
// "" for a DID that was seen on a link.
func (a *Access) nameIn(ctx context.Context, did federation.DID) string {
	if _, err := a.deps.Bindings.Seen(ctx, did); !errors.Is(err, federation.ErrNotFound) {
		return ""
	}
	return a.Name(ctx, did)
}

// errUnreached is the problem of a recipient that is not known here.
func errUnreached(to string) error {
	return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "no link of this gateway reaches " + to}
}

// recipient returns where a message to a DID, a handle, NICK@LINK or HANDLE@DOMAIN goes.
func (a *Access) recipient(ctx context.Context, to string) (bridge.Recipient, error) {
	to = strings.TrimPrefix(to, "@")
	if strings.HasPrefix(to, "did:") {
		did, err := federation.ParseDID(to)
		if err != nil {
			return bridge.Recipient{}, bridge.UsageProblem("to: " + err.Error())
		}
		return bridge.Recipient{DID: did}, nil
	}
	user, err := a.deps.Messages.Addressee(ctx, to)
	if !errors.Is(err, federation.ErrNotFound) {
		return user, err
	}
	did, err := a.didOf(ctx, to)
	if errors.Is(err, federation.ErrNotFound) {
		err = errUnreached(to)
	}
	return bridge.Recipient{DID: did}, err
}

// Say writes to another participant, as [Access.Say] does.
func (a Account) Say(ctx context.Context, m MessageRequest, key string) (Sent, error) {
	return a.Access.Say(ctx, a.Caller, m, key)
}

// Say is [Account.Say].
func (r Remote) Say(ctx context.Context, m MessageRequest, key string) (Sent, error) {
	return invoke[Sent](ctx, r, "say", sayCall{m, key})
}

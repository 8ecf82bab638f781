package participant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// Account is one caller at its gateway, for networks that add no rules of their own.
type Account struct {
	Access *Service
	Caller Caller
}

// InboxQuery selects entries of an inbox.
type InboxQuery struct {
	Cursor federation.Cursor `json:"cursor,omitempty"` // "" for the position of the device
	Device string            `json:"device,omitempty"`
	Limit  int               `json:"limit"`
	// Wait is the maximum time to wait for an entry; 0 for no wait.
	Wait time.Duration `json:"wait,omitempty"`
}

// InboxPage is a page of an inbox.
type InboxPage struct {
	Items []Named           `json:"items"`
	Next  federation.Cursor `json:"next_cursor"`
}

// Inbox returns entries of the caller's inbox. With Wait, it blocks until there is an entry, the time is
// over or ctx ends; an empty result is not an error.
func (a Account) Inbox(ctx context.Context, q InboxQuery) (InboxPage, error) {
	did, err := a.Caller.Person()
	if err != nil {
		return InboxPage{}, err
	}
	after, err := a.Access.Start(ctx, did, q.Cursor, q.Device)
	if err != nil {
		return InboxPage{}, err
	}
	read := a.Access.readPage
	if q.Wait > 0 {
		read = func(ctx context.Context, did federation.DID, at place) (*page, error) {
			return a.Access.poll(ctx, did, at, q.Wait)
		}
	}
	found, err := read(ctx, did, place{after, q.Limit})
	if err != nil {
		return InboxPage{}, err
	}
	answer := InboxPage{Items: found.items, Next: after}
	if n := len(found.items); n > 0 {
		answer.Next = found.items[n-1].Cursor
	}
	return answer, nil
}

// Acknowledge marks an inbox entry and all earlier ones as read.
func (a Account) Acknowledge(ctx context.Context, device string, upTo federation.Cursor) error {
	did, err := a.Caller.Person()
	if err != nil {
		return err
	}
	return a.Access.Acknowledge(ctx, did, device, upTo)
}

// HandoffPage is a list of handoffs.
type HandoffPage struct {
	Items []Listed          `json:"items"`
	Next  federation.Cursor `json:"next_cursor"` // "" after the last page
}

// Handoffs returns up to limit matching visible handoffs.
func (a Account) Handoffs(ctx context.Context, q Query, after federation.Cursor, limit int) (HandoffPage, error) {
	items, next, err := a.Access.List(ctx, a.Caller, q, after, limit)
	return HandoffPage{items, next}, err
}

// HandoffLog is a handoff with its steps.
type HandoffLog struct {
	Listed

	Steps []Named `json:"steps"`
}

// A longer log is truncated at the end.
const maxSteps = 500

// Handoff returns a visible handoff with its first [maxSteps] steps.
func (a Account) Handoff(ctx context.Context, id string) (HandoffLog, error) {
	view, err := a.Access.Find(ctx, a.Caller, id)
	if err != nil {
		return HandoffLog{}, err
	}
	listed, err := a.Access.Listed(ctx, a.Caller, view)
	if err != nil {
		return HandoffLog{}, err
	}
	answer := HandoffLog{Listed: listed}
	for entry, err := range a.Access.Log(ctx, view.ID, 0) {
		if err != nil {
			return HandoffLog{}, fmt.Errorf("read log: %w", err)
		}
		if len(answer.Steps) == maxSteps {
			break
		}
		answer.Steps = append(answer.Steps, a.Access.named(ctx, entry))
	}
	return answer, nil
}

// CheckStep returns the handoff of a step, unless it is hidden from the caller.
func (a Account) CheckStep(ctx context.Context, id string, verb federation.Verb) (federation.View, error) {
	return a.Access.findFor(ctx, a.Caller, id, verb)
}

// OfferVenue is the venue of an offer.
type OfferVenue struct {
	Venue   string             `json:"venue"`
	Dialect federation.Dialect `json:"dialect"`
}

// Place returns the venue of an offer; to is "" for anyone.
func (a Account) Place(ctx context.Context, to, channel string) (OfferVenue, error) {
	from, err := a.Caller.Person()
	if err != nil {
		return OfferVenue{}, err
	}
	var did federation.DID
	if to != "" {
		if did, _, err = a.Access.Resolve(ctx, to); err != nil {
			return OfferVenue{}, err
		}
	}
	place, tags, err := a.Access.Builder().Place(ctx, from, did, channel)
	return OfferVenue{cmp.Or(place.Venue, a.Access.Builder().Pair(from, did)), tags}, err
}

// Stored is a context stored at the gateway.
type Stored struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
}

// Store stores a context for steps of the caller.
func (a Account) Store(ctx context.Context, content []byte) (Stored, error) {
	owner, err := a.Caller.Person()
	if err != nil {
		return Stored{}, err
	}
	blob, err := a.Access.deps.Evidence.Store(ctx, owner, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		return Stored{}, bridge.UsageProblem("context: it is too large")
	case errors.Is(err, federation.ErrBlobQuota):
		return Stored{}, &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "too much is stored for " + string(owner)}
	case err != nil:
		return Stored{}, err
	}
	return Stored{blob.URL(a.Access.deps.PublicURL), blob.Hash()}, nil
}

// Pair is [Service.Pair] for the caller.
func (a Account) Pair(ctx context.Context) (Pairing, error) {
	return a.Access.Pair(ctx, a.Caller, time.Now())
}

// Moved returns the version of a visible handoff. It blocks until the version differs from known, the time
// is over or ctx ends; the latter two are not errors.
func (a Account) Moved(ctx context.Context, id string, known federation.Version, within time.Duration) (federation.Version, error) {
	view, err := a.Access.Find(ctx, a.Caller, id)
	if err != nil {
		return 0, err
	}
	limit := a.Access.deps.HTTP.MaxStreams
	if !a.Access.deps.Streams.Take(limit) {
		return 0, errTooManyStreams(limit)
	}
	defer a.Access.deps.Streams.Leave()
	wake, stop := a.Access.deps.PubSub.Subscribe(bridge.HandoffTopic(view.ID))
	defer stop()
	over := time.NewTimer(within)
	defer over.Stop()
	again := time.NewTicker(pollInterval) // a wake-up may be lost
	defer again.Stop()
	for {
		view, err = a.Access.Find(ctx, a.Caller, id)
		switch {
		case ctx.Err() != nil:
			return known, nil
		case err != nil:
			return 0, err
		case view.Version != known:
			return view.Version, nil
		}
		select {
		case <-wake:
		case <-again.C:
		case <-over.C:
			return known, nil
		case <-ctx.Done():
			return known, nil
		}
	}
}

// Offer opens a handoff, like [Service.Offer].
func (a Account) Offer(ctx context.Context, o Offer, key string) (Filed, error) {
	return a.Access.Offer(ctx, a.Caller, o, Request{Key: key})
}

// Take is [Service.Take] for the caller.
func (a Account) Take(ctx context.Context, id string, verb federation.Verb, s StepRequest, key string) (Filed, error) {
	return a.Access.Take(ctx, a.Caller, id, verb, s, Request{Key: key})
}

// Reserve is [Service.Reserve] for the caller.
func (a Account) Reserve(ctx context.Context, u Unsigned) (Reservation, error) {
	return a.Access.Reserve(ctx, a.Caller, u)
}

// Resolution is the DID of the named recipient of an offer.
type Resolution struct {
	DID      federation.DID `json:"did"`
	Resolved *Resolved      `json:"resolved,omitempty"` // nil for a DID
}

// Resolve is [Service.Resolve] for the caller.
func (a Account) Resolve(ctx context.Context, to string) (Resolution, error) {
	did, resolved, err := a.Access.Resolve(ctx, to)
	return Resolution{did, resolved}, err
}

// Declare is [Service.Declare] for the caller.
func (a Account) Declare(ctx context.Context, u AgentUpdate) (Agent, error) {
	return a.Access.Declare(ctx, a.Caller, a.Caller.DID, u, time.Now())
}

// Whois is [Service.Whois] for the caller.
func (a Account) Whois(ctx context.Context, who string) ([]Person, error) {
	return a.Access.Whois(ctx, who)
}

// Explain is [Service.Explain] for the caller.
func (a Account) Explain(ctx context.Context, event string) (Explanation, error) {
	return a.Access.Explain(ctx, a.Caller, event)
}

// Passport returns the passport of a visible handoff.
func (a Account) Passport(ctx context.Context, id string) (bridge.Document, error) {
	return a.Access.Passport(ctx, a.Caller, id)
}

// CheckSession returns [credential.ErrSession] if the caller's session has ended.
func (a *Service) CheckSession(ctx context.Context, who Caller) error {
	if who.Session.ID == "" {
		return nil
	}
	_, err := a.deps.Record.Session(ctx, who.Session.ID, time.Now())
	if errors.Is(err, federation.ErrNotFound) || errors.Is(err, federation.ErrSessionEnded) {
		return credential.ErrSession
	}
	return err
}

// Attend returns a context for a blocking caller. It ends with ctx or, with cause
// [credential.ErrSession], when the caller's session ends here or at another replica. A wake-up may be
// lost, so call [Service.CheckSession] before returning data. The caller must call leave.
func (a *Service) Attend(ctx context.Context, who Caller) (attended context.Context, leave func()) {
	attended, cancel := context.WithCancelCause(ctx)
	if who.Session.ID == "" {
		return attended, func() { cancel(nil) }
	}
	wake, stop := a.deps.PubSub.Subscribe(bridge.SessionsTopic(who.Session.Participant))
	watch := &fault.Group{Caught: cancel}
	watch.Go(func() {
		defer stop()
		for {
			if err := a.CheckSession(attended, who); errors.Is(err, credential.ErrSession) {
				cancel(err)
				return
			}
			select {
			case <-wake:
			case <-attended.Done():
				return
			}
		}
	})
	return attended, func() { cancel(nil) }
}

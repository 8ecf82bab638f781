package relay

import (
	"context"
	"log/slog"
	"time"

	"baton/federation"
)

// Network is the label in metrics, logs and arrivals of what comes from other homes.
const Network = "home"

// Record is the part of the record that goes between homes.
type Record interface {
	federation.Store
	federation.Guests
	federation.Homes
}

// Gateway is what judges steps.
type Gateway interface {
	// Submit judges a step in a handoff of this home.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// Ruled files a step that its home has ruled on. Beside refusals and outages its
	// errors are [*federation.GapError] and [*federation.ForkError].
	Ruled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error)
	// GiveUp ends the wait of a step for a home that refused it, and has its sender told.
	GiveUp(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error
}

// Signer signs for this home, and judges what others sign.
type Signer interface {
	// Sign returns the signature of a message as it stands beside it.
	Sign(ctx context.Context, message []byte) (string, error)
	// Verify judges the signature of a home, by the keys that it had at a time. The error
	// is nil for [federation.Valid] alone.
	Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error)
}

// Poster is the HTTPS client for homes that the operator named.
type Poster interface {
	// Post sends an envelope and returns the answer. The error wraps
	// [*federation.UnavailableError] where nobody knows whether it arrived, and a
	// status other than 200 is an error.
	Post(ctx context.Context, address string, l Envelope) (Envelope, error)
	// Get fetches an envelope, with the errors of Post.
	Get(ctx context.Context, address string) (Envelope, error)
}

// Wakes wakes those who wait inside this gateway; see [Relay].
type Wakes interface {
	Subscribe(topic string) (wake <-chan struct{}, stop func())
}

// Deps is what the exchange with other homes is wired to.
type Deps struct {
	Home    federation.HomeID
	Record  Record
	Gateway Gateway
	Signer  Signer
	Poster  Poster
	Hub     *Hub // nil where none is configured
	Wakes   Wakes
	Log     *slog.Logger
	// Read returns the step that a canonical document says.
	Read func(document string) (federation.Event, error)
	// Topic is the topic of steps that wait for the ruling of a home.
	Topic func(home federation.HomeID) string
	// Resides reports whether this gateway takes the word of a home on who a DID is: it
	// has its mailbox there, and not here.
	Resides func(ctx context.Context, did federation.DID, home federation.HomeID) bool
	// Here reports whether a DID has its mailbox here.
	Here func(ctx context.Context, did federation.DID) (bool, error)
	// MovedFrom reports whether the mailbox of a DID was at a home until it was moved here.
	MovedFrom func(ctx context.Context, did federation.DID, home federation.HomeID) bool
	// TakeOver makes this home the one with the mailbox of a DID, which was at another home
	// until now. Why is why it does not, for people; "" where it does.
	TakeOver func(ctx context.Context, did federation.DID, from federation.HomeID) (why string, err error)
	// Moved returns the parties of a handoff whose mailboxes were here until they moved.
	Moved func(ctx context.Context, v federation.View) []Removal
	// Learn notes that a home moved the mailbox of a DID.
	Learn func(ctx context.Context, gone Removal, from federation.HomeID) error
	// MaxHops returns through how many homes a step may come; 0 for any number.
	MaxHops func() int
	// Place returns where a new offer is written on IRC here.
	Place func(ctx context.Context, ev federation.Event) (federation.Place, error)
	// Now is asked for the time of what is sent and received.
	Now func() time.Time
}

package delivery

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
)

// Rows holds the pending deliveries of destinations in lanes. The deliveries of a lane keep their
// order. The methods may be called concurrently and block on the disk. Each returns an error that
// wraps [*federation.UnavailableError] when the disk cannot be read or written now.
type Rows interface {
	// Turn returns the next sender after another one, in a circle of the senders with a due delivery,
	// with up to limit of its due lanes in order.
	Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (Turn, error)
	// PendingOf returns up to limit deliveries of one lane in order. Deliveries that wait for a party
	// and were not hurried come last. For a delivery that cannot be decoded, Broken has the reason.
	PendingOf(ctx context.Context, to, lane string, limit int) ([]federation.Delivery, error)
	// Failed notes that an attempt on a delivery failed, and when the next attempt is.
	Failed(ctx context.Context, to string, row int64, f federation.Failure) error
	// Settle ends deliveries: delivered, refused, or given up.
	Settle(ctx context.Context, to string, rows []int64, s federation.Settlement) error
}

// Turn is the turn of one sender at a destination.
type Turn struct {
	Sender federation.DID // or the handle of an agent
	Lanes  []string       // with due deliveries of the sender, the next one first; none if nothing is due
}

// Outbox is the Rows of destinations with a connection.
type Outbox interface {
	Rows
	// Held reports whether an operator holds the deliveries of a destination, and since when.
	Held(ctx context.Context, to string) (federation.Withheld, bool, error)
	// Heads returns up to limit lanes whose first delivery is due now, by ascending
	// [federation.Rank], and the oldest first within a rank. It returns none of a destination whose
	// deliveries an operator holds.
	Heads(ctx context.Context, to string, now time.Time, limit int) ([]string, error)
	// Stuck returns the first lane whose first delivery is due after now: a lane of the handoffs
	// of a DID if there is one, else of any handoff. It returns [federation.ErrNotFound] where
	// no lane waits.
	Stuck(ctx context.Context, to string, did federation.DID, now time.Time) (string, error)
	// Attempt counts one more attempt on deliveries, before the destination is called.
	Attempt(ctx context.Context, to string, rows []int64) error
	// Hurry makes every lane of a destination due now.
	Hurry(ctx context.Context, to string) error
}

// Steps are the pending steps and texts of links in the record.
type Steps interface {
	Held(ctx context.Context, link string) (federation.Withheld, bool, error)
	Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error)
	Turn(ctx context.Context, link string, after federation.DID, now time.Time, limit int) (federation.Turn, error)
	PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error)
	Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (federation.HandoffID, error)
	Attempt(ctx context.Context, link string, rows []int64) error
	Failed(ctx context.Context, link string, row int64, f federation.Failure) error
	Hurry(ctx context.Context, link string) error
	Settle(ctx context.Context, link string, rows []int64, s federation.Settlement) error
}

// StepRows returns the outbox of links. The lane of a delivery is its handoff or conversation.
func StepRows(s Steps) Outbox { return steps{s} } //nolint:ireturn // the engine has many outboxes

type steps struct{ Steps }

func (s steps) Heads(ctx context.Context, to string, now time.Time, limit int) ([]string, error) {
	due, err := s.Steps.Heads(ctx, to, now, limit)
	return texts(due), err
}

func (s steps) Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (Turn, error) {
	turn, err := s.Steps.Turn(ctx, to, after, now, limit)
	return Turn{turn.Sender, texts(turn.Lanes)}, err
}

func (s steps) PendingOf(ctx context.Context, to, lane string, limit int) ([]federation.Delivery, error) {
	var id federation.HandoffID
	if err := id.UnmarshalText([]byte(lane)); err != nil {
		return nil, fmt.Errorf("read lane %q: %w", lane, err)
	}
	found, err := s.Steps.PendingOf(ctx, to, id, limit)
	for i := range found {
		found[i].Queued = found[i].Entry.Filed
	}
	return found, err
}

func (s steps) Stuck(ctx context.Context, to string, did federation.DID, now time.Time) (string, error) {
	id, err := s.Steps.Stuck(ctx, to, did, now)
	return id.String(), err
}

func texts(ids []federation.HandoffID) []string {
	lanes := make([]string, len(ids))
	for i, id := range ids {
		lanes[i] = id.String()
	}
	return lanes
}

package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"baton/federation"
	"baton/federation/store/registry"
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

// Source is the Rows of destinations without a connection, which replicas take in turns.
type Source interface {
	Rows
	// Take leases up to room destinations with a due delivery to the caller, longest waiting first. No
	// other caller gets them until LetGo or the time until.
	Take(ctx context.Context, now, until time.Time, room int) ([]Due, error)
	// LetGo ends the lease. What waits for the destination is not due before at.
	LetGo(ctx context.Context, to string, at time.Time) error
	// NextDue returns when the next delivery to any destination is due, after a time; zero for none.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
}

// Due is a destination with a due delivery.
type Due struct {
	Name string
	Away int // how often in a row it did not answer
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

// Notices are the pending notices of links in the record.
type Notices interface {
	Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error)
	Told(ctx context.Context, n federation.Notice) error
	TellLater(ctx context.Context, n federation.Notice, next time.Time) error
}

// Record has the pending deliveries of links.
type Record interface {
	Steps
	Notices
}

// noticePage bounds how many notices of one link are read at once.
const noticePage = 64

// NoticeRows returns the notices of links. A notice is a lane: none waits for another one.
func NoticeRows(record Notices) Rows {
	return &notices{record: record, read: map[string]federation.Notice{}}
} //nolint:ireturn // the engine has many outboxes

type notices struct {
	record Notices

	mu   sync.Mutex
	read map[string]federation.Notice // of the last turn, by lane
	rows []string                     // lanes by row
}

// Turn implements [Rows]. The turn is that of a reader.
func (n *notices) Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (Turn, error) {
	due, err := n.record.Untold(ctx, to, now, noticePage)
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.read)
	n.rows = n.rows[:0]
	var lanes []waiting
	for _, each := range due {
		lane := string(each.Reader()) + " " + each.Ref()
		n.read[lane] = each
		n.rows = append(n.rows, lane)
		lanes = append(lanes, waiting{string(each.Reader()), lane})
	}
	return turn(lanes, after, limit), err
}

// PendingOf implements [Rows].
func (n *notices) PendingOf(_ context.Context, _, lane string, _ int) ([]federation.Delivery, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	notice := n.read[lane]
	return []federation.Delivery{{Row: int64(slices.Index(n.rows, lane)), Notice: &notice, Queued: notice.At}}, nil
}

func (n *notices) of(row int64) federation.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.read[n.rows[row]]
}

// Failed implements [Rows].
func (n *notices) Failed(ctx context.Context, _ string, row int64, f federation.Failure) error {
	return n.record.TellLater(ctx, n.of(row), f.Next)
}

// Settle implements [Rows].
func (n *notices) Settle(ctx context.Context, _ string, rows []int64, _ federation.Settlement) error {
	for _, row := range rows {
		if err := n.record.Told(ctx, n.of(row)); err != nil {
			return err
		}
	}
	return nil
}

// duePage bounds the due deliveries of a webhook that are read at once, at some 100 bytes each. It exceeds
// the default limit of an inbox, so that no sender is outside of it.
const duePage = 1 << 14

// WebhookRows returns the deliveries to webhooks. A delivery is a lane: the record returns the first
// one of each handoff or conversation.
func WebhookRows(record *registry.Record) Source { return pushes{record} } //nolint:ireturn // the engine has many sources

type pushes struct{ record *registry.Record }

func (p pushes) Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (Turn, error) {
	id, err := webhookID(to)
	if err != nil {
		return Turn{}, err
	}
	due, err := p.record.DuePushes(ctx, id, now, duePage)
	waiting := make([]waiting, len(due))
	for i, d := range due {
		waiting[i].sender, waiting[i].lane = d.Sender, strconv.FormatInt(d.Item, 10)
	}
	return turn(waiting, after, limit), err
}

func (p pushes) PendingOf(ctx context.Context, to, lane string, _ int) ([]federation.Delivery, error) {
	id, err := webhookID(to)
	if err != nil {
		return nil, err
	}
	item, err := strconv.ParseInt(lane, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read lane %q: %w", lane, err)
	}
	push, err := p.record.DuePush(ctx, id, item, time.Now())
	if errors.Is(err, federation.ErrNotFound) {
		return nil, nil // no longer due
	}
	d := federation.Delivery{Row: item, Push: &push, Queued: push.Queued, Attempt: push.Attempt, Next: push.Next, Reason: push.Reason, Broken: push.Broken}
	return []federation.Delivery{d}, err
}

func (p pushes) Failed(ctx context.Context, to string, row int64, f federation.Failure) error {
	id, err := webhookID(to)
	if err != nil {
		return err
	}
	return p.record.PushFailed(ctx, id, row, f)
}

func (p pushes) Settle(ctx context.Context, to string, rows []int64, how federation.Settlement) error {
	id, err := webhookID(to)
	for _, row := range rows {
		if err == nil {
			err = p.record.PushEnded(ctx, id, row, how)
		}
	}
	return err
}

func (p pushes) Take(ctx context.Context, now, until time.Time, room int) ([]Due, error) {
	hooks, err := p.record.TakeWebhooks(ctx, now, until, room)
	due := make([]Due, len(hooks))
	for i, hook := range hooks {
		due[i].Name = federation.WebhookName(hook.ID)
	}
	return due, err
}

func (p pushes) LetGo(ctx context.Context, to string, at time.Time) error {
	id, err := webhookID(to)
	if err != nil {
		return err
	}
	return p.record.LetGo(ctx, id, at)
}

func (p pushes) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	return p.record.NextDue(ctx, after)
}

func webhookID(to string) (id federation.WebhookID, err error) {
	if err := id.UnmarshalText([]byte(strings.TrimPrefix(to, federation.WebhookLink+"/"))); err != nil {
		return id, fmt.Errorf("read name of webhook %q: %w", to, err)
	}
	return id, nil
}

// waiting is a lane whose first delivery is due.
type waiting struct{ sender, lane string }

// turn returns the turn of the next sender after another one, in a circle by name.
func turn(due []waiting, after federation.DID, limit int) Turn {
	var next, first string
	hasNext := false
	for i, d := range due {
		if i == 0 || d.sender < first {
			first = d.sender
		}
		if d.sender > string(after) && (!hasNext || d.sender < next) {
			next, hasNext = d.sender, true
		}
	}
	if !hasNext {
		next = first
	}
	t := Turn{Sender: federation.DID(next)}
	for _, d := range due {
		if d.sender == next && len(t.Lanes) < limit {
			t.Lanes = append(t.Lanes, d.lane)
		}
	}
	return t
}

// registryPage is how many documents are read at once for one registry.
const registryPage = 200

// RegistryRows are the deliveries to other registries. The lane of a document is its order key. Leases
// are in memory: one replica at a time has the registries.
type RegistryRows struct {
	record *registry.Record

	mu     sync.Mutex
	taken  map[string]bool
	until  map[string]time.Time // not due before
	probed map[string]bool      // due in spite of a pause
	paused map[string]bool
	next   time.Time // when the next one is due
}

// NewRegistryRows returns the deliveries to other registries.
func NewRegistryRows(record *registry.Record) *RegistryRows {
	return &RegistryRows{record: record, taken: map[string]bool{}, until: map[string]time.Time{}, probed: map[string]bool{}, paused: map[string]bool{}}
}

// heads returns the first row of each lane of a registry.
func (r *RegistryRows) heads(ctx context.Context, to string) ([]federation.PeerDelivery, error) {
	var heads []federation.PeerDelivery
	lanes := map[string]bool{}
	for after := int64(0); ; {
		rows, err := r.record.PeerQueue(ctx, to, after, registryPage)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if after = row.Row; !lanes[row.OrderKey] {
				lanes[row.OrderKey] = true
				heads = append(heads, row)
			}
		}
		if len(rows) < registryPage {
			return heads, nil
		}
	}
}

// Turn implements [Rows].
func (r *RegistryRows) Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (Turn, error) {
	heads, err := r.heads(ctx, to)
	var due []waiting
	for _, row := range heads {
		if !row.Next.After(now) {
			due = append(due, waiting{row.Sender, strconv.FormatInt(row.Row, 10)})
		}
	}
	return turn(due, after, limit), err
}

// PendingOf implements [Rows].
func (r *RegistryRows) PendingOf(ctx context.Context, to, lane string, _ int) ([]federation.Delivery, error) {
	n, err := strconv.ParseInt(lane, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read lane %q: %w", lane, err)
	}
	rows, err := r.record.PeerDeliveries(ctx, to, n-1, 1)
	if err != nil || len(rows) == 0 || rows[0].Row != n {
		return nil, err
	}
	row := rows[0]
	return []federation.Delivery{{Row: row.Row, Document: &row, Queued: row.Queued, Attempt: row.Attempt, Next: row.Next, Reason: row.Reason}}, nil
}

// Failed implements [Rows].
func (r *RegistryRows) Failed(ctx context.Context, _ string, row int64, f federation.Failure) error {
	return r.record.Postpone(ctx, row, f.Reason, f.Unsure, f.At, f.Next)
}

// Settle implements [Rows].
func (r *RegistryRows) Settle(ctx context.Context, _ string, rows []int64, how federation.Settlement) error {
	for _, row := range rows {
		var err error
		if how.Outcome() == federation.DeliveryDelivered {
			err = r.record.PeerTook(ctx, row, how.At)
		} else {
			err = r.record.Bury(ctx, row, how.Dead, how.Why, how.At)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Take implements [Source].
func (r *RegistryRows) Take(ctx context.Context, now, _ time.Time, room int) ([]Due, error) {
	peers, err := r.record.PeerOutboxes(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = time.Time{}
	clear(r.paused)
	var due []Due
	for _, p := range peers {
		_, held, err := r.record.Held(ctx, p.Name)
		if err != nil {
			return due, err
		}
		if held || r.taken[p.Name] {
			continue
		}
		r.paused[p.Name] = p.Next.After(now)
		at := p.Next
		if r.probed[p.Name] {
			at = time.Time{}
		} else if until := r.until[p.Name]; until.After(at) {
			at = until
		}
		if !at.After(now) {
			heads, err := r.heads(ctx, p.Name)
			if err != nil {
				return due, err
			}
			if len(heads) > 0 {
				at = slices.MinFunc(heads, func(a, b federation.PeerDelivery) int { return a.Next.Compare(b.Next) }).Next
			}
		}
		switch {
		case at.After(now):
			if r.next.IsZero() || at.Before(r.next) {
				r.next = at
			}
		case len(due) < room:
			r.taken[p.Name] = true
			delete(r.probed, p.Name)
			due = append(due, Due{Name: p.Name, Away: p.Failures})
		}
	}
	return due, nil
}

// LetGo implements [Source].
func (r *RegistryRows) LetGo(_ context.Context, to string, at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taken, to)
	if r.until[to] = at; len(r.until) > maxKept {
		clear(r.until)
	}
	return nil
}

// NextDue implements [Source].
func (r *RegistryRows) NextDue(context.Context, time.Time) (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, nil
}

// Hurry makes a registry that is not called now due for one turn, and reports whether it was paused. It
// does not block on the record.
func (r *RegistryRows) Hurry(to string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.paused[to] || r.probed[to] {
		return false
	}
	r.probed[to] = true
	return true
}

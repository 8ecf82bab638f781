package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

const leaseSeconds = 60

// listInbox writes an encoded page, because requests may share it.
func (l *Link) listInbox(ctx context.Context, w http.ResponseWriter, req contract.InboxQuery) error {
	did, err := person(ctx)
	if err != nil {
		return err
	}
	after, err := l.start(ctx, did, req.Cursor, req.Device)
	if err != nil {
		return err
	}
	length, err := l.waitOf(req.Wait)
	if err != nil {
		return err
	}
	at := place{seen: seen{entries: after.entries}, limit: req.Limit}
	var found *page
	if length == 0 {
		found, err = l.read(ctx, did, at)
	} else {
		attended, leave := l.access.Attend(ctx, callerOf(ctx).Caller)
		defer leave()
		found, err = l.poll(attended, did, at, length)
		switch {
		case ctx.Err() != nil: // the client has left
			return nil
		case attended.Err() != nil:
			return context.Cause(attended)
		}
	}
	if err != nil {
		return err
	}
	text, err := found.list(at.entries)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, err = w.Write(text)
	return err
}

func (l *Link) shapeEntry(ctx context.Context, e federation.Entry) contract.Entry {
	shown := contract.Entry{Cursor: string(e.Cursor), Waits: e.Waits, Type: typeOf(e), StateNow: string(e.Now)}
	if e.Text != nil {
		shown.Message = l.shapeMessage(ctx, *e.Text, e.Filed)
	} else {
		shown.Step = l.shapeStep(ctx, e)
	}
	return shown
}

// start prefers the cursor or event ID to the device. An unknown device starts at the beginning.
func (l *Link) start(ctx context.Context, did federation.DID, cursor, device string) (seen, error) {
	from := parseSeen(cursor)
	var err error
	from.entries, err = l.access.Start(ctx, did, from.entries, device)
	return from, err
}

// waitOf applies the configured maximum.
func (l *Link) waitOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		return 0, usage("wait: want a time such as 50s")
	}
	return min(length, l.cfg.MaxWait), nil
}

func (l *Link) leaseInbox(ctx context.Context, req contract.LeaseWait) (contract.Leases, error) {
	did, err := person(ctx)
	if err != nil {
		return contract.Leases{}, err
	}
	body, err := req.Body.Read()
	if err != nil {
		return contract.Leases{}, err
	}
	return l.lease(ctx, did, body, req.Wait)
}

// lease blocks until an entry arrives or the wait is over.
func (l *Link) lease(ctx context.Context, did federation.DID, b contract.LeaseRequest, wait string) (contract.Leases, error) {
	length, err := l.waitOf(wait)
	if err != nil {
		return contract.Leases{}, err
	}
	leases, err := l.leaseWithin(ctx, did, b, length)
	if err != nil {
		return contract.Leases{}, err
	}
	answer := contract.Leases{Items: make([]contract.Lease, len(leases))}
	for i, lease := range leases {
		e := l.shapeEntry(ctx, lease.Entry)
		answer.Items[i] = contract.Lease{
			Cursor: string(lease.Cursor), Device: lease.Device, DeliveryCount: lease.Delivery, Until: participant.Timestamp(lease.Until), StateNow: e.StateNow,
			Type: e.Type, Step: e.Step, Message: e.Message,
		}
	}
	return answer, nil
}

func (l *Link) leaseWithin(ctx context.Context, did federation.DID, b contract.LeaseRequest, within time.Duration) ([]federation.Lease, error) {
	take := func() ([]federation.Lease, error) {
		now := time.Now()
		until := now.Add(time.Duration(cmp.Or(b.Seconds, leaseSeconds)) * time.Second)
		session := callerOf(ctx).Session
		if !session.Ends.IsZero() && session.Ends.Before(until) {
			until = session.Ends
		}
		return l.deps.Record.Lease(ctx, did, b.Device, session.ID, now, until, cmp.Or(b.Limit, 1))
	}
	if within == 0 {
		return take()
	}
	w := l.await(ctx, did, within)
	defer w.Leave()
	attended, leave := l.access.Attend(ctx, callerOf(ctx).Caller)
	defer leave()
	for {
		if err := l.access.CheckSession(ctx, callerOf(ctx).Caller); err != nil {
			return nil, err
		}
		leases, err := take()
		if err != nil || len(leases) > 0 || !w.Wait(attended, l.Ended()) && attended.Err() == nil {
			return leases, err
		}
	}
}

func (l *Link) ackInbox(ctx context.Context, b contract.Ack) error {
	did, err := person(ctx)
	if err != nil {
		return err
	}
	if b.DeliveryCount == 0 {
		err = l.access.Acknowledge(ctx, did, b.Device, parseSeen(b.Cursor).entries)
	} else {
		err = l.deps.Record.Ack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), time.Now())
	}
	return lost(err)
}

func (l *Link) nackInbox(ctx context.Context, b contract.Nack) error {
	did, err := person(ctx)
	if err != nil {
		return err
	}
	again := time.Now().Add(time.Duration(b.DelaySeconds) * time.Second)
	err = l.deps.Record.Nack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), again)
	return lost(err)
}

func (l *Link) extendInbox(ctx context.Context, b contract.Extend) error {
	did, err := person(ctx)
	if err != nil {
		return err
	}
	until := time.Now().Add(time.Duration(b.Seconds) * time.Second)
	err = l.deps.Record.Extend(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), until)
	return lost(err)
}

func holdOf(cursor, device string, delivery int) federation.LeaseToken {
	return federation.LeaseToken{Cursor: federation.Cursor(cursor), Device: device, Delivery: delivery}
}

// lost reports a missing lease as a lost lease, because clients handle both alike.
func lost(err error) error {
	if errors.Is(err, federation.ErrNotFound) {
		return federation.ErrLeaseLost
	}
	return err
}

const answerTime = time.Minute

// await extends the deadlines of the connection, because the listener sets shorter ones. The caller must
// call Leave.
func (l *Link) await(ctx context.Context, did federation.DID, within time.Duration) *participant.Waiter[place, *page] {
	control, until := callerOf(ctx).control, time.Now().Add(within)
	_ = control.SetReadDeadline(until.Add(answerTime)) // a connection without deadlines needs no other
	_ = control.SetWriteDeadline(until.Add(answerTime))
	return l.topics.Await(did, within)
}

// poll blocks until there is an entry, the time is over or the gateway stops.
func (l *Link) poll(ctx context.Context, did federation.DID, at place, within time.Duration) (*page, error) {
	w := l.await(ctx, did, within)
	defer w.Leave()
	return w.Poll(ctx, at, l.Ended())
}

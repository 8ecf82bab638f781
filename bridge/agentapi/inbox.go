package agentapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/federation"
)

// leaseSeconds is how long a lease lasts for which the client names no time.
const leaseSeconds = 60

// ListInbox implements [contract.StrictServerInterface].
func (l *Link) ListInbox(ctx context.Context, req contract.ListInboxRequestObject) (contract.ListInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	after, err := l.start(ctx, did, req.Params.Cursor, req.Params.Device)
	if err != nil {
		return nil, err
	}
	length, err := l.waitOf(req.Params.Wait)
	if err != nil {
		return nil, err
	}
	at := place{seen: seen{entries: after.entries}, limit: cmp.Or(req.Params.Limit, defaultLimit)}
	if length == 0 {
		found, err := l.read(ctx, did, at)
		return inboxPage{found, at.entries}, err
	}
	attended, leave := l.access.Attend(ctx, callerOf(ctx).Caller)
	defer leave()
	found, err := l.poll(attended, did, at, length)
	switch {
	case ctx.Err() != nil:
		return unanswered{}, nil
	case attended.Err() != nil:
		return nil, context.Cause(attended)
	}
	return inboxPage{found, at.entries}, err
}

// inboxPage is the answer to a client that asked for the entries after a cursor.
type inboxPage struct {
	*page

	after federation.Cursor
}

// VisitListInboxResponse implements [contract.ListInboxResponseObject].
func (p inboxPage) VisitListInboxResponse(w http.ResponseWriter) error {
	text, err := p.list(p.after)
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
	if e.Event.IsMessage() {
		shown.Message = l.shapeMessage(ctx, e)
	} else {
		shown.Step = l.shapeStep(ctx, e)
	}
	return shown
}

// start returns the position from which a client reads: its cursor or the ID of an event,
// else that of its device. A device that the record does not know starts at the beginning.
func (l *Link) start(ctx context.Context, did federation.DID, cursor, device string) (seen, error) {
	from := parseSeen(cursor)
	var err error
	from.entries, err = l.access.Start(ctx, did, from.entries, device)
	return from, err
}

// waitOf parses the time that a client wants to wait, and bounds it by the configuration.
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

// LeaseInbox implements [contract.StrictServerInterface].
func (l *Link) LeaseInbox(ctx context.Context, req contract.LeaseInboxRequestObject) (contract.LeaseInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := l.lease(ctx, did, *req.Body, req.Params.Wait)
	return contract.LeaseInbox200JSONResponse(leases), err
}

// lease leases waiting entries to a device. Where there is none, it blocks until one arrives
// or the time to wait is over.
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
			Cursor: string(lease.Cursor), Device: lease.Device, DeliveryCount: lease.Delivery, Until: moment(lease.Until), StateNow: e.StateNow,
			Type: e.Type, Step: e.Step, Message: e.Message,
		}
	}
	return answer, nil
}

// leaseWithin is lease with the time to wait.
func (l *Link) leaseWithin(ctx context.Context, did federation.DID, b contract.LeaseRequest, within time.Duration) ([]federation.Lease, error) {
	take := func() ([]federation.Lease, error) {
		now := time.Now()
		until := now.Add(time.Duration(cmp.Or(b.Seconds, leaseSeconds)) * time.Second)
		session := callerOf(ctx).Session
		if !session.Ends.IsZero() && session.Ends.Before(until) {
			until = session.Ends
		}
		return l.deps.Leases.Lease(ctx, did, b.Device, session.ID, now, until, cmp.Or(b.Limit, 1))
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

// AckInbox implements [contract.StrictServerInterface].
func (l *Link) AckInbox(ctx context.Context, req contract.AckInboxRequestObject) (contract.AckInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	b := req.Body
	if b.DeliveryCount == 0 {
		err = l.access.Acknowledge(ctx, did, b.Device, parseSeen(b.Cursor).entries)
	} else {
		err = l.deps.Leases.Ack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), time.Now())
	}
	return contract.AckInbox204Response{}, lost(err)
}

// NackInbox implements [contract.StrictServerInterface].
func (l *Link) NackInbox(ctx context.Context, req contract.NackInboxRequestObject) (contract.NackInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	b := req.Body
	again := time.Now().Add(time.Duration(b.DelaySeconds) * time.Second)
	err = l.deps.Leases.Nack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), again)
	return contract.NackInbox204Response{}, lost(err)
}

// ExtendInbox implements [contract.StrictServerInterface].
func (l *Link) ExtendInbox(ctx context.Context, req contract.ExtendInboxRequestObject) (contract.ExtendInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	b := req.Body
	until := time.Now().Add(time.Duration(b.Seconds) * time.Second)
	err = l.deps.Leases.Extend(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), until)
	return contract.ExtendInbox204Response{}, lost(err)
}

func holdOf(cursor, device string, delivery int) federation.Hold {
	return federation.Hold{Cursor: federation.Cursor(cursor), Device: device, Delivery: delivery}
}

// lost returns the error for a cursor without a lease as that for a lost lease: a client
// reacts alike.
func lost(err error) error {
	if errors.Is(err, federation.ErrNotFound) {
		return federation.ErrLeaseLost
	}
	return err
}

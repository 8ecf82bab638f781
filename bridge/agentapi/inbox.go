package agentapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/bridge/operatorapi"
	"baton/federation"
)

// lookAgain is when an inbox is looked at without being woken: a wake-up may be lost.
const lookAgain = 15 * time.Second

// leaseSeconds is how long a lease holds that was asked for without a time.
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
	at := place{seen: seen{entries: after.entries}, limit: cmp.Or(req.Params.Limit, operatorapi.DefaultLimit)}
	if length > 0 {
		return polled(func(w http.ResponseWriter) error { return l.poll(ctx, w, did, at, length) }), nil
	}
	found, err := l.look(ctx, did, at)
	return inboxPage{found, at.entries}, err
}

// inboxPage is a [contract.InboxPage] of entries that are written down, for somebody who
// asked for what is after a cursor.
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
	return contract.Entry{Cursor: string(e.Cursor), Waits: e.Waits, Step: l.shapeStep(ctx, e)}
}

// start returns where somebody reads on: from a cursor or the id of an event, else where a
// device is. One that was never heard of starts at the start.
func (l *Link) start(ctx context.Context, did federation.DID, cursor, device string) (seen, error) {
	from := parseSeen(cursor)
	if from.entries != "" || device == "" {
		return from, nil
	}
	devices, err := l.deps.Record.Devices(ctx, did)
	if err != nil {
		return seen{}, fmt.Errorf("look up devices: %w", err)
	}
	if i := slices.IndexFunc(devices, func(d federation.Device) bool { return d.Name == device }); i >= 0 {
		from.entries = devices[i].Cursor
	}
	return from, nil
}

// bench is where a handler waits who looks until there is something: at once, whenever the
// inbox was woken, and now and then, for as long as somebody wants to.
type bench struct {
	*seat

	woken token
	end   time.Time
	again *time.Timer
}

// await has somebody sit down, before they look, so that nothing comes in between. They
// leave in the end.
func (l *Link) await(ctx context.Context, did federation.DID, length time.Duration) *bench {
	woken := newToken()
	return &bench{l.sit(ctx, did, woken.put), woken, time.Now().Add(length), time.NewTimer(min(length, lookAgain))}
}

// wait returns true once it is time to look again, and false once nobody wants to.
func (b *bench) wait(ctx context.Context) bool {
	select {
	case <-b.woken:
		return true
	case <-b.again.C:
		return b.goesOn(time.Now())
	case <-b.link.ended:
		return false
	case <-ctx.Done():
		return false // nobody waits for an answer
	}
}

// goesOn reports whether there is time left, and sees that it does not pass unnoticed.
func (b *bench) goesOn(now time.Time) bool {
	left := b.end.Sub(now)
	b.again.Reset(min(left, lookAgain))
	return left > 0
}

// leave ends the waiting.
func (b *bench) leave() {
	b.again.Stop()
	b.seat.leave()
}

// waitOf reads how long somebody wants to wait. Longer than may be is as long as may be.
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

// lease gives a device what waits, or what comes while it wants to wait.
func (l *Link) lease(ctx context.Context, did federation.DID, b contract.LeaseRequest, wait string) (contract.Leases, error) {
	length, err := l.waitOf(wait)
	if err != nil {
		return contract.Leases{}, err
	}
	var leases []federation.Lease
	take := func() error {
		now := time.Now()
		var err error
		until := now.Add(time.Duration(cmp.Or(b.Seconds, leaseSeconds)) * time.Second)
		leases, err = l.deps.Record.Lease(ctx, did, b.Device, now, until, cmp.Or(b.Limit, 1))
		return err
	}
	if length == 0 {
		err = take()
	} else {
		s := l.await(ctx, did, length)
		defer s.leave()
		for more := true; more; {
			err = take()
			more = err == nil && len(leases) == 0 && s.wait(ctx)
		}
	}
	if err != nil {
		return contract.Leases{}, err
	}
	answer := contract.Leases{Items: make([]contract.Lease, len(leases))}
	for i, lease := range leases {
		answer.Items[i] = contract.Lease{
			Cursor: string(lease.Cursor), Device: lease.Device, DeliveryCount: lease.Delivery, Until: moment(lease.Until),
			Step: l.shapeStep(ctx, lease.Entry),
		}
	}
	return answer, nil
}

// AckInbox implements [contract.StrictServerInterface].
func (l *Link) AckInbox(ctx context.Context, req contract.AckInboxRequestObject) (contract.AckInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	b, now := req.Body, time.Now()
	if b.DeliveryCount == 0 {
		err = l.deps.Record.Advance(ctx, did, b.Device, parseSeen(b.Cursor).entries, now)
	} else {
		err = l.deps.Record.Ack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), now)
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
	err = l.deps.Record.Nack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), again)
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
	err = l.deps.Record.Extend(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount), until)
	return contract.ExtendInbox204Response{}, lost(err)
}

func holdOf(cursor, device string, delivery int) federation.Hold {
	return federation.Hold{Cursor: federation.Cursor(cursor), Device: device, Delivery: delivery}
}

// lost returns an error with a cursor that no lease was ever given out with as that of
// a lease that is lost: neither holds.
func lost(err error) error {
	if errors.Is(err, federation.ErrNotFound) {
		return federation.ErrLeaseLost
	}
	return err
}

package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/bridge"
	"baton/bridge/rest"
	"baton/bridge/rest/contract"
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
	after, err := l.start(ctx, did, federation.Cursor(req.Params.Cursor), req.Params.Device)
	if err != nil {
		return nil, err
	}
	var found page
	err = l.await(ctx, did, req.Params.Wait, func() (bool, error) {
		found, err = l.look(ctx, did, after, cmp.Or(req.Params.Limit, rest.DefaultLimit))
		return len(found.entries) > 0, err
	})
	return inboxPage{Items: found.entries, NextCursor: found.last(after)}, err
}

// inboxPage is a [contract.InboxPage] of entries that are written down.
type inboxPage struct {
	Items      []json.RawMessage `json:"items"`
	NextCursor federation.Cursor `json:"next_cursor"`
}

// VisitListInboxResponse implements [contract.ListInboxResponseObject].
func (p inboxPage) VisitListInboxResponse(w http.ResponseWriter) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(text, '\n'))
	return err
}

func (l *Link) shapeEntry(ctx context.Context, e federation.Entry) contract.Entry {
	return contract.Entry{Cursor: string(e.Cursor), Waits: e.Waits, Step: l.shapeStep(ctx, e)}
}

// start returns where somebody reads on: from a cursor, else where a device is. One
// that was never heard of starts at the start.
func (l *Link) start(ctx context.Context, did federation.DID, cursor federation.Cursor, device string) (federation.Cursor, error) {
	if cursor != "" || device == "" {
		return cursor, nil
	}
	devices, err := l.deps.Record.Devices(ctx, did)
	if err != nil {
		return "", fmt.Errorf("look up devices: %w", err)
	}
	i := slices.IndexFunc(devices, func(d federation.Device) bool { return d.Name == device })
	if i < 0 {
		return "", nil
	}
	return devices[i].Cursor, nil
}

// await looks until there is something, or for as long as somebody wants to wait: at
// once, whenever the inbox of the DID was woken, and now and then. It subscribes before
// it looks, so that nothing comes in between.
func (l *Link) await(ctx context.Context, did federation.DID, wait string, look func() (bool, error)) error {
	length, err := l.waitOf(wait)
	if err != nil {
		return err
	}
	if length == 0 {
		_, err := look()
		return err
	}
	wake, stop := l.deps.Wakes.Subscribe(bridge.DIDTopic(did))
	defer stop()
	over := time.NewTimer(length)
	defer over.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		if found, err := look(); found || err != nil {
			return err
		}
		select {
		case <-wake:
		case <-again.C:
		case <-over.C:
			return nil
		case <-l.ended:
			return nil
		case <-ctx.Done():
			return nil // nobody waits for an answer
		}
	}
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
	length := time.Duration(cmp.Or(b.Seconds, leaseSeconds)) * time.Second
	var leases []federation.Lease
	err := l.await(ctx, did, wait, func() (bool, error) {
		now := time.Now()
		var err error
		leases, err = l.deps.Record.Lease(ctx, did, b.Device, now, now.Add(length), cmp.Or(b.Limit, 1))
		return len(leases) > 0, err
	})
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
	b := req.Body
	if b.DeliveryCount == 0 {
		err = l.deps.Record.Advance(ctx, did, b.Device, federation.Cursor(b.Cursor), time.Now())
	} else {
		err = l.deps.Record.Ack(ctx, did, holdOf(b.Cursor, b.Device, b.DeliveryCount))
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

package participant

import (
	"context"
	"fmt"
	"slices"
	"time"

	"baton/federation"
)

// Start returns the cursor from which a reader of an inbox goes on: the one that it names, else
// that of its device. A device that the record does not know starts at the beginning.
func (a *Access) Start(ctx context.Context, did federation.DID, cursor federation.Cursor, device string) (federation.Cursor, error) {
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

// Entries returns up to limit entries of an inbox after a cursor, oldest first. It changes
// nothing. It returns a [*federation.CursorError] for a cursor that this inbox never gave out.
func (a *Access) Entries(ctx context.Context, did federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	return a.deps.Inbox.Replay(ctx, did, after, limit)
}

// Acknowledge ends the waiting of all entries up to a cursor, and keeps that for the device.
func (a *Access) Acknowledge(ctx context.Context, did federation.DID, device string, upTo federation.Cursor) error {
	return a.deps.Inbox.Advance(ctx, did, device, upTo, time.Now())
}

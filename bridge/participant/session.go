package participant

import (
	"context"
	"errors"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/fault"
)

// CheckSession returns [credential.ErrSession] if the session of a caller has ended, or the error
// of the record. An operator has no session.
func (a *Access) CheckSession(ctx context.Context, who Caller) error {
	if who.Session.ID == "" {
		return nil
	}
	_, err := a.deps.Sessions.Session(ctx, who.Session.ID, time.Now())
	if errors.Is(err, federation.ErrNotFound) || errors.Is(err, federation.ErrSessionEnded) {
		return credential.ErrSession
	}
	return err
}

// Attend returns a context for a blocking caller. The context ends with ctx, or with cause
// [credential.ErrSession] when the caller's session ends here or at another replica. A wake-up may
// be lost, so data read for the caller requires [Access.CheckSession] too. The caller must call
// leave at the end.
func (a *Access) Attend(ctx context.Context, who Caller) (attended context.Context, leave func()) {
	attended, cancel := context.WithCancelCause(ctx)
	if who.Session.ID == "" {
		return attended, func() { cancel(nil) }
	}
	wake, stop := a.deps.Wakes.Subscribe(bridge.SessionsTopic(who.Session.Participant))
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

package irc

import (
	"context"
	"time"

	"baton/bridge"
	"baton/federation"
)

// PresenceEvery is how often a link looks for pseudo-clients whose users left their own network.
// A user that is gone in two looks has left: most that lose a connection come back sooner.
const PresenceEvery = time.Minute

// LeftReason is the reason of the QUIT of such a pseudo-client.
const LeftReason = "left its own network"

// WatchPresence has the owner of a session call leave for each pseudo-client whose user left its
// own network, until the session ends. The owner calls dids too, for the DIDs that have a
// pseudo-client.
func (s *Session[Line, Step, Lane]) WatchPresence(p bridge.Presence, every time.Duration, dids func() []federation.DID, leave func(federation.DID)) {
	if p == nil {
		return
	}
	look := time.NewTicker(every)
	defer look.Stop()
	missing := map[federation.DID]bool{}
	for {
		select {
		case <-look.C:
		case <-s.Over:
			return
		}
		var all []federation.DID
		if !s.Post(s.Asking, func() { all = dids() }) {
			return
		}
		missing = s.depart(s.Asking, p, all, missing, leave)
	}
}

// depart lets the users leave that are gone, and were gone in the look before. It returns the
// other users that are gone.
func (s *Session[Line, Step, Lane]) depart(ctx context.Context, p bridge.Presence, all []federation.DID, before map[federation.DID]bool, leave func(federation.DID)) map[federation.DID]bool {
	missing := map[federation.DID]bool{}
	for _, did := range all {
		switch gone := p.Left(ctx, did); {
		case gone && before[did]:
			s.Post(ctx, func() { leave(did) })
		case gone:
			missing[did] = true
		}
	}
	return missing
}

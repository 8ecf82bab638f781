package macp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
	"github.com/baton-gateway/baton/translate/macpmode"
)

var (
	_ bridge.Eraser = (*Link)(nil)
	_ bridge.Eraser = (*Foreign)(nil)
)

func atOnce(bounds func() Bounds) func() Bounds {
	return func() Bounds {
		now := bounds()
		now.Finished = time.Nanosecond
		return now
	}
}

func sessionsOf(ctx context.Context, record *journals.Journals, ids []federation.HandoffID, name func(federation.HandoffID) string) ([]string, error) {
	found := map[string]bool{}
	for _, id := range ids {
		entries, err := record.Journal(ctx, name(id), 0, federation.MaxJournalPage)
		if err != nil {
			return nil, err
		}
		for _, text := range entries {
			var at indexed
			if err := federation.DecodeJSON(text, &at); err != nil {
				return nil, fmt.Errorf("read the session of %s: %w", id, err)
			}
			found[at.Session] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// EraseJournals implements [bridge.Eraser]. A session is kept until it and its handoffs are over.
func (l *Link) EraseJournals(ctx context.Context, ids []federation.HandoffID, dry bool) (erased int, running []string, err error) {
	sessions, err := sessionsOf(ctx, l.deps.Journals, ids, handoffJournal)
	if err != nil || len(sessions) == 0 {
		return 0, nil, err
	}
	if l.engine == nil {
		return 0, nil, unavailable(errEnded)
	}
	deps := l.deps
	deps.Bounds = atOnce(deps.Bounds)
	eager := newFiler(&Link{cfg: l.cfg, participants: l.participants, ports: l.ports, deps: deps, log: l.log, engine: l.engine, rates: l.rates})
	return eachSession(ctx, l.deps.Journals, sessions, sessionJournal, dry, func(session string) (bool, error) {
		var over bool
		var handoffs []string
		err := l.engine.on(ctx, session, func(_ context.Context, t *turn) error {
			over, handoffs = ended(t.session.Session)
			return nil
		})
		if err == nil && over {
			over, err = allOver(ctx, l.ports.Gateway, handoffs)
		}
		if err == nil && over && !dry {
			err = eager.file(ctx, session)
		}
		return over, err
	})
}

// EraseJournals implements [bridge.Eraser]. The runtime keeps its own history.
func (f *Foreign) EraseJournals(ctx context.Context, ids []federation.HandoffID, dry bool) (erased int, running []string, err error) {
	sessions, err := sessionsOf(ctx, f.deps.Journals, ids, f.handoffJournal)
	if err != nil {
		return 0, nil, err
	}
	deps := f.deps
	deps.Bounds = atOnce(f.deps.Bounds)
	eager := &Foreign{cfg: f.cfg, did: f.did, token: f.token, ports: f.ports, deps: deps, log: f.log}
	return eachSession(ctx, f.deps.Journals, sessions, f.sessionJournal, dry, func(session string) (bool, error) {
		m := newMirror(&foreignConn{Foreign: eager}, session)
		err := m.load(ctx)
		over, handoffs := ended(m.s)
		if err == nil && over {
			over, err = allOver(ctx, f.ports.Gateway, handoffs)
		}
		if err == nil && over && !dry {
			err = m.retire(ctx)
		}
		return over, err
	})
}

// ended also returns the handoffs of the session.
func ended(s *macpmode.Session) (over bool, handoffs []string) {
	for _, offer := range s.Offers {
		handoffs = append(handoffs, offer.Handoff)
	}
	_, waits := s.Pending()
	return s.Over() && !waits, handoffs
}

// An offer without a handoff counts as over.
func allOver(ctx context.Context, gateway bridge.Gateway, handoffs []string) (bool, error) {
	for _, text := range handoffs {
		id, err := federation.ParseEventID(text)
		if err != nil {
			continue
		}
		view, err := gateway.View(ctx, id)
		if err != nil || view.Exists() && !view.Over {
			return false, err
		}
	}
	return true, nil
}

// eachSession returns the number of removed sessions and the names of the others; remove reports
// whether a session is over.
func eachSession(
	ctx context.Context, record *journals.Journals, sessions []string, name func(string) string, dry bool, remove func(session string) (over bool, err error),
) (erased int, running []string, err error) {
	for _, session := range sessions {
		length, err := record.JournalLength(ctx, name(session))
		if isNotFound(err) || err == nil && length == 0 {
			continue
		}
		if err != nil {
			return erased, running, err
		}
		over, err := remove(session)
		if err == nil && over && !dry {
			length, err = record.JournalLength(ctx, name(session))
			if isNotFound(err) {
				length, err = 0, nil
			}
			over = length == 0
		}
		switch {
		case err != nil:
			return erased, running, fmt.Errorf("session %s: %w", session, err)
		case over:
			erased++
		default:
			running = append(running, name(session))
		}
	}
	return erased, running, nil
}

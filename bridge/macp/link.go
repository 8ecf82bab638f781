// Package macp is a runtime of the Multi-Agent Coordination Protocol for sessions of the handoff
// mode, and a client of runtimes of other operators.
//
// A participant of the configuration connects with its token, over gRPC, Connect or JSON. An
// envelope is answered after it is on disk, in a journal for each session, and the history is the
// whole truth about a session: a restart restores the same state. One goroutine, the engine,
// judges all envelopes by the pure functions of translate/macpmode, and writes the entries of
// calls that wait together in one transaction.
//
// Sessions and handoffs show each other. An offer of a session is filed as a handoff, and so are
// its answers; each of these steps is vouched, with its envelopes as evidence. Steps from other
// networks become messages of the session, or signals. An offer to a participant opens a session,
// which the gateway owns in the name of the offerer.
//
// Package macp serves sessions on one replica of a home at a time: that with the lease of the
// link. See README.md for a tour.
//
// spec: RFC-MACP-0001, RFC-MACP-0006, RFC-MACP-0010, RFC-MACP-0012
package macp

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"baton/bridge"
	"baton/federation"
	"baton/federation/fault"
	"baton/translate/macpmode"
)

// Link is the runtime of one gateway. It implements [bridge.Link].
type Link struct {
	cfg          Config
	participants participants
	ports        bridge.Ports
	deps         Deps
	log          *slog.Logger
	engine       *engine
	filer        *filer
	rates        map[string]rates
	bound        atomic.Pointer[string] // where the runtime listens
}

var _ bridge.InboxReader = (*Link)(nil)

// Name implements [bridge.Link].
func (*Link) Name() string { return network }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// ReadsInbox implements [bridge.InboxReader]: an offer to a participant needs no channel.
func (*Link) ReadsInbox() {}

// Run implements [bridge.Link]: it serves participants until ctx ends.
func (l *Link) Run(ctx context.Context, up func()) error {
	engine := newEngine(l.deps, l.log)
	l.filer = newFiler(l)
	engine.wake = l.filer.wake
	l.engine = engine
	listener, err := l.listen(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(fault.Func(func() error { return engine.run(ctx) }))
	group.Go(fault.Func(func() error { return l.filer.run(ctx) }))
	group.Go(fault.Func(func() error { return l.serve(ctx, listener) }))
	up()
	return group.Wait()
}

// Carries implements [bridge.Link]: an offer to a participant, and each step of a handoff that
// has a session. A step that a participant took by a signal is in no history: the other
// participants of its session are told.
func (l *Link) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	if ev.Arrival.Link == network && !macpmode.BySignal(ev.Verb) { // the session has it
		return false, nil
	}
	if _, to := l.participantOf(ctx, after.Offeree); to || ev.Verb == federation.Offer {
		return to, nil
	}
	_, err := l.deps.Journals.JournalLength(ctx, handoffJournal(after.ID))
	if err != nil && !isNotFound(err) {
		return false, fmt.Errorf("look up the session of %s: %w", after.ID, err)
	}
	return err == nil, nil
}

// participantOf returns the participant that a DID is.
func (l *Link) participantOf(ctx context.Context, did federation.DID) (participant, bool) {
	if did == "" {
		return participant{}, false
	}
	for _, one := range l.participants.all {
		if one.did == did || l.ports.Gateway.Same(ctx, one.did, did) {
			return one, true
		}
	}
	return participant{}, false
}

// href returns where the gateway shows a handoff.
func href(p bridge.Ports, id federation.HandoffID) string {
	return p.PublicURL + "/api/v1/handoffs/" + id.String()
}

package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// A receipt takes a tenth of a second. A step without one after firstRoute was dropped, refused, or
// is not known there yet.
//
// spec: freeq-s2s "Home, unconfirmed moves, receipts"
const (
	firstRoute = 2 * time.Second
	lastRoute  = 10 * time.Minute
)

// Wake-ups may be lost.
const pollInterval = 10 * time.Second

// The end of earlier deliveries of the handoff causes no wake-up.
const laneRetryInterval = 100 * time.Millisecond

// Excess steps stay in the record.
const maxRulings = 1024

// After this number of routes, the home is asked for the outcome.
const inquireAfter = 2

// A home ends a handoff that has not changed for this long.
const maxWait = 7 * 24 * time.Hour

type pendingRuling struct {
	held        federation.Pending
	view        federation.View
	wireMessage wireMessage // without the sender's nick
	did         federation.DID
	show        federation.DID
	name        string

	// Owned by the session.
	sent   bool
	next   time.Time
	wait   time.Duration
	routes int
	asking bool
}

// The steps of one lane are sent sequentially.
type lane struct {
	handoff federation.HandoffID
	actor   federation.DID
}

func laneOf(h federation.Pending) lane { return lane{h.Event.Handoff, h.Event.Actor()} }

func (s *session) awaitRulings(ctx context.Context) {
	wake, stop := s.link.deps.PubSub.Subscribe(bridge.RulingTopic(s.link.Home()))
	defer stop()
	made := map[federation.EventID]*pendingRuling{}
	byItself := true
	for {
		if byItself {
			s.settleAgain(ctx)
		}
		next := pollInterval
		waiting, behind, err := s.readPending(ctx, made)
		if err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "waiting steps not read", slog.Any("err", err))
		} else if !s.Post(ctx, func() { s.weigh(waiting, time.Now()) }) {
			return
		}
		if behind {
			next = laneRetryInterval
		}
		look := time.NewTimer(next)
		byItself = false
		select {
		case <-wake:
		case <-look.C:
			byItself = !behind
		case <-s.Over:
		}
		look.Stop()
		select {
		case <-s.Over:
			return
		default:
		}
	}
}

// settleAgain completes the effects of filed rulings after a crash or a failed notice.
func (s *session) settleAgain(ctx context.Context) {
	held, err := s.link.deps.Record.ListPending(ctx, s.link.Home(), maxRulings)
	done := map[federation.HandoffID]bool{}
	for _, h := range held {
		if id := h.Event.Handoff; !done[id] {
			done[id] = true
			err = errors.Join(err, s.link.deps.Rulings.Settle(ctx, id, time.Now()))
		}
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "waiting steps not settled", slog.Any("err", err))
	}
}

// readPending returns the first pending ruling of each lane. A handoff is behind if it has pending
// deliveries, because a step must not overtake earlier ones.
func (s *session) readPending(ctx context.Context, made map[federation.EventID]*pendingRuling) (waiting []*pendingRuling, behind bool, err error) {
	held, err := s.link.deps.Record.ListPending(ctx, s.link.Home(), maxRulings)
	if err != nil {
		return nil, false, err
	}
	still, after := map[federation.EventID]bool{}, map[federation.HandoffID]bool{}
	begun := map[lane]bool{}
	for _, h := range held {
		asks, soon, err := s.otherAsks(ctx, h, time.Now())
		if err != nil {
			return nil, false, err
		}
		if asks {
			behind = behind || soon
			continue
		}
		if begun[laneOf(h)] {
			continue // depends on the ruling on the previous step
		}
		p, err := s.link.makePending(ctx, h, made)
		if err != nil {
			return nil, false, err
		}
		if p == nil {
			continue
		}
		begun[laneOf(h)] = true
		still[h.Event.ID] = true
		first, asked := after[h.Event.Handoff]
		if !asked { // once per handoff: later steps must not overtake it
			owed, err := s.link.deps.Record.CountPending(ctx, s.link.cfg.Name, h.Event.Handoff)
			if err != nil {
				return nil, false, err
			}
			first = owed > 0
			after[h.Event.Handoff] = first
		}
		if behind = behind || first; !first {
			waiting = append(waiting, p)
		}
	}
	for id := range made {
		if !still[id] {
			delete(made, id)
		}
	}
	return waiting, behind, nil
}

// The result asks reports whether the server of a step requests the ruling itself. If soon is set,
// the step is not in the log yet, and this link waits only peerDelay for the other server.
func (s *session) otherAsks(ctx context.Context, h federation.Pending, now time.Time) (asks, soon bool, err error) {
	if h.Event.Arrival.Home == "" {
		return false, false, nil
	}
	endpoint := s.link.endpoint(h.Event.Arrival.Home)
	if endpoint == "" {
		return true, false, nil
	}
	shown, err := s.link.shows(ctx, s, h.Event.ID)
	switch {
	case err != nil || shown:
		return shown, false, err
	case s.link.peers.expects(endpoint) && now.Sub(h.Since) < peerDelay:
		return true, true, nil
	}
	s.link.peers.lacked(endpoint)
	return false, false, nil
}

// makePending abandons a step that can never be written there, and returns nil.
func (l *Link) makePending(ctx context.Context, h federation.Pending, made map[federation.EventID]*pendingRuling) (*pendingRuling, error) {
	if p := made[h.Event.ID]; p != nil {
		return p, nil
	}
	p, err := l.pending(ctx, h)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return nil, l.deps.Rulings.RejectPending(ctx, h, refused.Code, refused.Detail)
	}
	if err != nil {
		return nil, err
	}
	made[h.Event.ID] = p
	return p, nil
}

func (l *Link) pending(ctx context.Context, h federation.Pending) (*pendingRuling, error) {
	view, err := l.deps.Gateway.View(ctx, h.Event.Handoff)
	if err != nil {
		return nil, fmt.Errorf("read handoff %s: %w", h.Event.Handoff, err)
	}
	if !view.Exists() {
		return nil, federation.Refuse(h.Event, federation.UnknownHandoff, "")
	}
	place, err := l.place(ctx, view)
	if err != nil {
		return nil, err
	}
	view.Dialect, view.Venue = federation.ActTags, place
	d := federation.Delivery{Entry: federation.Entry{Event: h.Event, Filed: h.Since}, View: view}
	rendered, _, err := l.legal(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", h.Event.ID, err)
	}
	m, err := l.message(ctx, rendered, view)
	if err != nil {
		return nil, err
	}
	p := &pendingRuling{held: h, view: view, wireMessage: m, name: l.deps.Gateway.Name(ctx, h.Event.Actor()), wait: firstRoute}
	p.did, p.show = l.shown(rendered)
	return p, nil
}

func (s *session) weigh(waiting []*pendingRuling, now time.Time) {
	s.rulings = waiting
	for _, p := range waiting {
		if !p.sent {
			s.submitTo(p, now)
		}
	}
}

// A server shows every TAGMSG to its users, so a step that it already has is only routed.
func (s *session) submitTo(p *pendingRuling, now time.Time) {
	if p.sent, p.next = true, now; s.link.filed.has(p.held.Event.ID) {
		return
	}
	p.next = now.Add(p.wait)
	if !s.written.Add(p.held.Event.ID.String()) {
		return
	}
	m := p.wireMessage
	m.From = s.speaker(p.did, p.show, p.name, p.view.Venue).Nick
	s.put(steps, &m)
	s.unanswered = true
}

func (s *session) press(ctx context.Context, now time.Time) {
	for _, p := range s.rulings {
		if now.Before(p.next) || s.queue.size() > maxWaiting {
			continue
		}
		from := s.speaker(p.did, p.show, p.name, p.view.Venue).Nick
		s.put(steps, &route{
			Type: typeActRoute, Act: p.view.ID.String(), Step: p.held.Event.ID.String(), Tags: p.wireMessage.Tags,
			Target: p.wireMessage.Target, From: from, Account: p.wireMessage.Account,
		})
		p.routes++
		s.unanswered = true
		p.wait = min(2*p.wait, lastRoute)
		p.next = now.Add(p.wait)
		if p.routes >= inquireAfter && !p.asking {
			p.asking = true
			s.Running.Go(func() { s.inquire(ctx, p, now) })
		}
	}
}

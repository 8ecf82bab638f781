package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Waits for the ruling of a home: a receipt takes a tenth of a second; what has none
// by the first of these was dropped on the way, refused, or is not known there yet.
//
// spec: freeq-s2s "Home, unconfirmed moves, receipts"
const (
	firstRoute = 2 * time.Second
	lastRoute  = 10 * time.Minute
)

// lookEvery is how often the record is asked by itself what waits: a wake-up may
// have been lost.
const lookEvery = 10 * time.Second

// lookAgain is how soon that is done while a step has to let others be delivered
// first, which nobody tells.
const lookAgain = 100 * time.Millisecond

// maxGuests is how many steps are under way at a time. More wait in the record.
const maxGuests = 1024

// inquireAfter is how often a step is routed before its home is asked what became of
// it: it has then had all the time it needs.
const inquireAfter = 2

// maxWait is how long a step waits for a home that says nothing at all. A home ends
// itself what nobody moves for so long.
const maxWait = 7 * 24 * time.Hour

// petition is a step that waits for the server's ruling, as it is written there.
type petition struct {
	held federation.Pending
	view federation.View
	said said           // without the nick that says it
	did  federation.DID // as which it is signed there
	name string

	// Owned by the session.
	sent   bool
	next   time.Time // when it is routed again
	wait   time.Duration
	routes int
	asking bool // the home's API is being asked
}

// lane is what petitions follow each other in: the steps of one actor in one handoff.
type lane struct {
	handoff federation.HandoffID
	actor   federation.DID
}

// petitions reads what waits for the server, each time that somebody says that
// something does, until the session is over.
func (s *session) petitions(ctx context.Context) {
	wake, stop := s.link.deps.Wakes.Subscribe(bridge.RulingTopic(s.link.Home()))
	defer stop()
	made := map[federation.EventID]*petition{}
	byItself := true
	for {
		if byItself {
			s.settleAgain(ctx)
		}
		next := lookEvery
		waiting, behind, err := s.readPetitions(ctx, made)
		if err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "waiting steps not read", slog.Any("err", err))
		} else if !s.Post(ctx, func() { s.weigh(waiting, time.Now()) }) {
			return
		}
		if behind {
			next = lookAgain
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

// settleAgain finishes what a ruling brought about and something cut short: a crash
// after it was filed, or a sender who could not be told.
func (s *session) settleAgain(ctx context.Context) {
	held, err := s.link.deps.Record.Awaiting(ctx, s.link.Home(), maxGuests)
	done := map[federation.HandoffID]bool{}
	for _, h := range held {
		if id := h.Event.Handoff; !done[id] {
			done[id] = true
			err = errors.Join(err, s.link.deps.Rulings.Settle(ctx, id))
		}
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "waiting steps not settled", slog.Any("err", err))
	}
}

// readPetitions returns what waits, in order, making of each step what is written
// once. Steps of handoffs of which something is still to be delivered are left out:
// they must not overtake what was filed before them.
func (s *session) readPetitions(ctx context.Context, made map[federation.EventID]*petition) (waiting []*petition, behind bool, err error) {
	held, err := s.link.deps.Record.Awaiting(ctx, s.link.Home(), maxGuests)
	if err != nil {
		return nil, false, err
	}
	still, after := map[federation.EventID]bool{}, map[federation.HandoffID]bool{}
	for _, h := range held {
		if h.Event.Arrival.Home != "" {
			continue // its own server asks for the ruling
		}
		p, err := s.link.makePetition(ctx, h, made)
		if err != nil {
			return nil, false, err
		}
		if p == nil {
			continue
		}
		still[h.Event.ID] = true
		first, asked := after[h.Event.Handoff]
		if !asked { // once for all of a handoff: what follows must not come first
			owed, err := s.link.deps.Record.OwedIn(ctx, s.link.cfg.Name, h.Event.Handoff)
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

// makePetition returns a step as the server takes it, made once. One that can never be
// written there is given up, and nil returned.
func (l *Link) makePetition(ctx context.Context, h federation.Pending, made map[federation.EventID]*petition) (*petition, error) {
	if p := made[h.Event.ID]; p != nil {
		return p, nil
	}
	p, err := l.petition(ctx, h)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return nil, l.deps.Rulings.GiveUp(ctx, h, refused.Code, refused.Detail)
	}
	if err != nil {
		return nil, err
	}
	made[h.Event.ID] = p
	return p, nil
}

// petition writes a step as the server takes it.
func (l *Link) petition(ctx context.Context, h federation.Pending) (*petition, error) {
	view, err := l.deps.Gateway.View(ctx, h.Event.Handoff)
	if err != nil {
		return nil, fmt.Errorf("read handoff %s: %w", h.Event.Handoff, err)
	}
	if !view.Exists() {
		return nil, federation.Refuse(h.Event, federation.UnknownHandoff, "")
	}
	view.Dialect, view.Venue = federation.ActTags, l.place(ctx, view)
	d := federation.Delivery{Entry: federation.Entry{Event: h.Event, Filed: h.Since}, View: view}
	rendered, _, err := l.render(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", h.Event.ID, err)
	}
	m, err := l.say(ctx, rendered, view)
	if err != nil {
		return nil, err
	}
	return &petition{
		held: h, view: view, said: m, did: rendered.From, name: l.deps.Gateway.Name(ctx, h.Event.Actor()), wait: firstRoute,
	}, nil
}

// weigh takes over what waits now. Of one actor only the first step in a handoff is
// under way: what follows makes sense when that is ruled on.
func (s *session) weigh(waiting []*petition, now time.Time) {
	s.guests = s.guests[:0]
	seen := map[lane]bool{}
	for _, p := range waiting {
		of := lane{p.held.Event.Handoff, p.held.Event.Actor()}
		if seen[of] {
			continue
		}
		seen[of] = true
		s.guests = append(s.guests, p)
		if !p.sent {
			s.submitTo(p, now)
		}
	}
}

// submitTo says a step to the server, as to everybody else.
func (s *session) submitTo(p *petition, now time.Time) {
	m := p.said
	m.From = s.speaker(p.did, p.name, p.view.Venue).Nick
	s.put(steps, &m)
	p.sent, p.next = true, now.Add(p.wait)
}

// press routes the steps that have no ruling yet, ever more rarely, and asks what
// became of those that were routed in vain.
func (s *session) press(ctx context.Context, now time.Time) {
	for _, p := range s.guests {
		if now.Before(p.next) || s.queue.size() > maxWaiting {
			continue
		}
		from := s.speaker(p.did, p.name, p.view.Venue).Nick
		s.put(steps, &route{
			Type: typeActRoute, Act: p.view.ID.String(), Step: p.held.Event.ID.String(), Tags: p.said.Tags,
			Target: p.said.Target, From: from, Account: p.said.Account,
		})
		p.routes++
		p.wait = min(2*p.wait, lastRoute)
		p.next = now.Add(p.wait)
		if p.routes >= inquireAfter && !p.asking {
			p.asking = true
			s.Running.Go(func() { s.inquire(ctx, p, now) })
		}
	}
}

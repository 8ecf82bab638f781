package simulation_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

// agent is a participant with its mailbox at one home.
type agent struct {
	world    *world
	name     string
	key      federation.SigningKey
	at       *site
	were     []*site // its earlier mailbox homes, and the current one
	dialect  federation.Dialect
	sent     []*sent
	steps    int
	loggedIn map[*process]bool

	toMove *site        // the home to which its mailbox moves; nil unless it does
	moves  *atomic.Bool // a try to move is under way
	moved  *atomic.Bool // the last try was successful
}

// sent is a step of an agent, with the answer of its home.
type sent struct {
	event    federation.Event
	by       *agent
	to       *site     // that it was submitted to
	answered bool      // by a final answer
	acked    bool      // the home has it on disk
	at       time.Time // of the acknowledgement
	awaits   bool      // until another home rules
	refused  string    // the code of a refusal
}

// arrival is the note of the home of an agent on its steps.
func (a *agent) arrival() federation.Arrival {
	return federation.Arrival{Network: "simulation", Link: "agents", ReadsInbox: true, Received: a.at.now()}
}

// sign returns a signed step of an agent, and notes that the agent signed it.
func (a *agent) sign(ev federation.Event) federation.Event {
	w := a.world
	a.steps++
	id, err := federation.NewEventID(a.at.now(), w.entropy)
	if err != nil {
		panic(err)
	}
	ev.ID, ev.From, ev.Venue, ev.Provenance, ev.Kind = id, a.key.DID, "#work", federation.Signed, federation.Handoff
	ev.Note = fmt.Sprintf("step %d of %s", a.steps, a.name)
	if ev.Verb == federation.Offer {
		ev.Handoff, ev.Dialect, ev.Title = id, a.dialect, ev.Note
	}
	ev.Arrival = a.arrival()
	ev.Fields, _ = dialect.Write(ev)
	if ev, err = signing.Seal(w.ctx, a.key, ev); err != nil {
		panic(err)
	}
	w.oracle.signed[ev.Signature.Document] = a
	return ev
}

// act makes the next step of an agent: an answer that is its turn, or a new offer.
func (a *agent) act() {
	w := a.world
	if a.moveOn() {
		return
	}
	p := a.at.live()
	if p == nil || p.dead.Load() {
		return
	}
	a.logIn(p)
	if a.retry() {
		return
	}
	offers := w.random.Float64() < w.profile.offers
	look, pick := w.random.Uint64(), w.random.Uint64()
	if !offers || w.ending {
		a.work(p, look, pick)
		return
	}
	ev := federation.Event{Verb: federation.Offer}
	if other := w.agents[look%uint64(len(w.agents))]; other != a && pick%4 > 0 {
		ev.To = other.key.DID
	}
	if pick%5 == 0 {
		in := time.Duration(20+pick%60) * time.Second
		ev.Deadline = a.at.now().Add(in).Truncate(time.Second)
		if end := time.Now().Add(in + latestEnd); end.After(w.lastEnd) {
			w.lastEnd = end
		}
	}
	ev = a.sign(ev)
	w.offered = append(w.offered, ev.Handoff)
	a.submit(ev)
}

// logIn logs the agent in at its home.
func (a *agent) logIn(p *process) {
	if !a.loggedIn[p] {
		a.loggedIn[p] = true
		p.locator.LearnFromLogin(a.world.ctx, a.key.DID, a.at.now())
	}
}

// looks bounds the handoffs that an agent looks at for one step.
const looks = 10

// work answers one of the handoffs that the home of the agent knows.
func (a *agent) work(p *process, look, pick uint64) {
	w := a.world
	if len(w.offered) == 0 {
		return
	}
	for i := range min(looks, len(w.offered)) {
		id := w.offered[(look+uint64(i)*7)%uint64(len(w.offered))]
		view, err := p.record.View(w.ctx, id)
		if err != nil || !view.Exists() {
			continue
		}
		if verb := a.choose(view, pick); verb != "" {
			a.submit(a.sign(federation.Event{Verb: verb, Handoff: id, Dialect: view.Dialect}))
			return
		}
	}
}

// choose returns the verb of the agent's next step in a handoff, "" for none. Now and then that is
// a step that the agent may not take.
func (a *agent) choose(v federation.View, pick uint64) federation.Verb {
	did := a.key.DID
	wrong := []federation.Verb{federation.Accept, federation.Claim, federation.Complete, federation.Cancel, federation.Progress}
	switch among := pick % 20; {
	case among == 0:
		return wrong[pick/20%uint64(len(wrong))]
	case v.State == federation.Offered && did == v.Offeree && among < 4:
		return federation.Decline
	case v.State == federation.Offered && did == v.Offeree:
		return federation.Accept
	case v.State == federation.Open && did != v.Offerer:
		return federation.Claim
	case v.State == federation.Assigned && did == v.Assignee && among < 8:
		return federation.Progress
	case v.State == federation.Assigned && did == v.Assignee && among < 10:
		return federation.Fail
	case v.State == federation.Assigned && did == v.Assignee:
		return federation.Complete
	case !v.Over && did == v.Offerer && among < 3:
		return federation.Cancel
	}
	return ""
}

// retry submits the steps without a final answer again, and reports whether there was one.
func (a *agent) retry() bool {
	for _, s := range a.sent {
		if !s.answered {
			a.ask(s)
			return true
		}
	}
	return false
}

func (a *agent) submit(ev federation.Event) {
	s := &sent{event: ev, by: a, to: a.at}
	a.sent = append(a.sent, s)
	a.ask(s)
}

// again repeats an answered step, as a client does that lost the answer.
func (a *agent) again(pick uint64) {
	if len(a.sent) > 0 {
		if s := a.sent[pick%uint64(len(a.sent))]; s.acked {
			a.ask(s)
		}
	}
}

// ask submits a step and notes the answer.
func (a *agent) ask(s *sent) {
	p := s.to.live()
	if p == nil || p.dead.Load() {
		return
	}
	judged, err := p.Submit(a.world.ctx, s.event)
	if p.dead.Load() {
		return // it died before it could answer
	}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case isRefusal && refused.Waits:
		s.answered, s.acked, s.at = true, true, time.Now()
	case isRefusal && s.acked: // another home refused it meanwhile
	case isRefusal:
		s.answered, s.refused = true, string(refused.Code)
	case err == nil:
		s.answered, s.acked, s.at, s.awaits = true, true, time.Now(), judged.Awaits
	}
	a.world.note("%s %s of %s at %s: %s %v", a.name, s.event.Verb, short(s.event.Handoff), s.to.id, judged.Entry.State, err)
}

func short(id federation.HandoffID) string { return id.String()[16:] }

// lived reports whether the mailbox of the agent is or was at a home.
func (a *agent) lived(at *site) bool { return slices.Contains(a.were, at) }

// move begins to move the mailbox of the agent to another home. An agent with an unanswered step stays.
func (a *agent) move(to *site) {
	if a.toMove != nil || to == a.at || a.asks() {
		return
	}
	a.toMove = to
	a.world.carrier.count("moves")
	a.moveOn()
}

// asks reports whether a step of the agent has no answer.
func (a *agent) asks() bool {
	return slices.ContainsFunc(a.sent, func(s *sent) bool { return !s.answered })
}

// moveOn goes on with a move until it has succeeded, and reports whether there is one.
func (a *agent) moveOn() bool {
	switch p := a.at.live(); {
	case a.toMove == nil:
		return false
	case a.moved.Swap(false):
		a.world.note("%s moved from %s to %s", a.name, a.at.id, a.toMove.id)
		a.at, a.toMove = a.toMove, nil
		if !a.lived(a.at) {
			a.were = append(a.were, a.at)
		}
		return false
	case p != nil && !p.dead.Load() && !a.moves.Swap(true):
		to, moved, moves := a.toMove.id, a.moved, a.moves
		p.group.Go(func() {
			done, err := p.locator.Move(p.ctx, a.key.DID, to, false, p.now)
			if err == nil && done.Waiting > 0 {
				err = fmt.Errorf("%d entries are left", done.Waiting)
			}
			if err != nil {
				a.world.note("%s does not move from %s to %s: %v", a.name, p.id, to, err)
			}
			moved.Store(err == nil && !p.dead.Load())
			moves.Store(false)
		})
	}
	return true
}

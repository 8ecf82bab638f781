package spanningtree

import (
	"context"
	"time"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

// maxSteps bounds the steps of a link that are judged or wait for it, at some 10 KiB
// each: several users' worth of a minute. Above it nothing is read.
const maxSteps = 1024

// inbound is one step of a user, or a command that it writes to the gateway's own user.
type inbound struct {
	user    string       // UUID
	command *irc.Command // nil for a step
	// account is the one that the user was logged in to when it said the line.
	account, line string
	to            federation.DID // of a private step: whose user of ours it was sent to
	ev            federation.Event

	whose bool          // it is known whose step it is, and where it was said
	after *inbound      // an offer of somebody else that may open its handoff; nil for none
	done  chan struct{} // closed once it was judged
}

// judged is what became of a step.
type judged struct {
	step   *inbound
	lines  []string       // the reply to a command
	signer federation.DID // of a step that was filed just now
	err    error
}

// lanes are one for each user.
type lanes = irc.Lanes[*inbound, string]

func newLanes() *lanes {
	return irc.NewLanes(maxSteps, func(in *inbound) string { return in.user })
}

// enter has a step wait for its turn.
func (s *session) enter(in *inbound) {
	in.done = make(chan struct{})
	for earlier := range s.lanes.All() {
		opens := earlier.ev.Verb == federation.Offer && earlier.ev.Handoff == in.ev.Handoff
		if opens && in.ev.Verb != federation.Offer && earlier.user != in.user {
			in.after = earlier
		}
	}
	s.lanes.Add(in)
}

// exit takes out a step that was judged.
func (s *session) exit(in *inbound) {
	s.lanes.Finish(in)
	close(in.done)
}

// judgeAll starts to judge all steps that can be.
func (s *session) judgeAll() {
	for in, ok := s.lanes.Next(); ok; in, ok = s.lanes.Next() {
		s.running.Go(func() { s.judged <- s.judge(in) })
	}
}

// settle judges the steps that are left after the connection has ended; no user is told. It
// looks up no key: a step whose key is not at hand waits in the record.
func (s *session) settle() {
	for !s.lanes.Empty() {
		s.judgeAll()
		select {
		case j := <-s.judged:
			s.exit(j.step)
		case do := <-s.todo:
			do()
		}
	}
}

// judge submits one step, once what it needs is there. It takes a slot only then.
func (s *session) judge(in *inbound) judged {
	j := judged{step: in}
	if in.command != nil {
		_, j.err = s.slots.Do(s.submitting, func(ctx context.Context) (federation.Judgement, error) {
			j.lines = s.link.chatops.Run(ctx, *in.command, time.Now())
			return federation.Judgement{}, nil
		})
		return j
	}
	s.link.ports.Gateway.FetchKey(s.asking, in.ev)
	s.awaitOffer(in)
	answer, err := irc.Insist(s.submitting, s.log, s.slots, in.ev, func(ctx context.Context) (federation.Judgement, error) {
		return s.submitOnce(ctx, in)
	})
	if j.err = err; err == nil && !answer.Duplicate {
		j.signer = in.ev.Actor()
	}
	return j
}

// awaitOffer waits for the offer that came just before a step, unless the handoff of the
// step is known here.
func (s *session) awaitOffer(in *inbound) {
	if in.after == nil {
		return
	}
	view, err := s.link.ports.Gateway.View(s.submitting, in.ev.Handoff)
	if err == nil && view.Exists() {
		return
	}
	select {
	case <-in.after.done:
	case <-s.submitting.Done():
	}
}

// note takes in what became of a step.
func (s *session) note(ctx context.Context, j judged) {
	s.exit(j.step)
	switch {
	case j.step.command != nil:
		s.reply(ctx, j)
	case j.err == nil && j.signer == "": // said again: nobody is anybody by that
	case j.err == nil:
		if u := s.net.users[j.step.user]; u != nil && u.account == j.step.account { // else it is another by now
			s.net.signed(j.step.user, j.signer)
		}
		s.link.ports.Wakes.Wake(bridge.FeedTopic(s.link.cfg.Name)) // something private may have waited for them
	case !j.step.whose: // the gateway, which logs what it judges, never saw it
		s.refuse(ctx, j.step.user, j.err)
	default:
		s.tell(ctx, j.step.user, j.err)
	}
}

// submitOnce asks the gateway once. Whose step it is, and the venue of a private one,
// are looked up here, because the owner must not wait for the record.
func (s *session) submitOnce(ctx context.Context, in *inbound) (federation.Judgement, error) {
	ports := s.link.ports
	if !in.whose {
		bound, err := s.attribute(ctx, in)
		if err != nil {
			return federation.Judgement{}, err
		}
		if in.ev.Venue == "" {
			if in.ev.Venue, err = irc.PrivateVenue(ctx, ports, in.ev, in.to); err != nil {
				return federation.Judgement{}, err
			}
		}
		if err := s.vouch(ctx, in, bound); err != nil {
			return federation.Judgement{}, err
		}
		in.whose = true
	}
	return ports.Gateway.Submit(ctx, in.ev)
}

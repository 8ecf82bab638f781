package spanningtree

import (
	"context"
	"slices"

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
	words   *irc.Words   // private text; nil for a step
	chat    *irc.Chat    // text in a channel; nil for a step
	// account is the one that the user was logged in to when it said the line.
	account, line string
	to            federation.DID   // of a private step: whose user of ours it was sent to
	ev            federation.Event // its judge's, once that has begun

	opens federation.HandoffID // of an offer: its handoff
	whose bool                 // it is known whose step it is, and where it was said
	after *inbound             // an offer of another user that may open its handoff; nil for none
	done  chan struct{}        // closed once it was judged
}

// lane returns what is judged in the order in which it came: what one user did, and what was
// said in one channel.
func (in *inbound) lane() string {
	if in.chat != nil {
		return in.chat.Venue
	}
	return in.user
}

// enter has a step wait for its turn.
func (s *session) enter(in *inbound) {
	in.done = make(chan struct{})
	if in.ev.Verb == federation.Offer {
		in.opens = in.ev.Handoff
	}
	for earlier := range s.Steps.All() {
		opens := !earlier.opens.IsZero() && earlier.opens == in.ev.Handoff
		if opens && in.ev.Verb != federation.Offer && earlier.user != in.user {
			in.after = earlier
		}
	}
	s.Steps.Add(in)
}

// judge submits a step or runs a command, and returns what the owner does with the result.
func (s *session) judge(ctx context.Context, in *inbound) (note func()) {
	defer close(in.done)
	if in.command != nil {
		text := s.Execute(s.link.chatops, *in.command)
		return func() { s.reply(ctx, in.user, text) }
	}
	if in.words != nil {
		err := s.speak(in)
		return func() { s.heardOut(ctx, in, err) }
	}
	if in.chat != nil {
		err := s.relay(in)
		return func() { s.relayed(ctx, in, err) }
	}
	gateway := s.link.ports.Gateway
	gateway.FetchKey(s.Asking, in.ev) //nolint:contextcheck // ends with the connection
	if in.after != nil {
		s.awaitOffer(in)
	}
	answer, err := s.Submit(in.ev, func(ctx context.Context) (federation.Judgement, error) {
		if err := s.attribute(ctx, in); err != nil {
			return federation.Judgement{}, err
		}
		return gateway.Submit(ctx, in.ev)
	})
	return func() { s.note(ctx, in, answer.Duplicate, err) }
}

// awaitOffer waits for the offer that came just before a step, unless the handoff of the
// step is known here.
func (s *session) awaitOffer(in *inbound) {
	view, err := s.link.ports.Gateway.View(s.Submitting, in.ev.Handoff)
	if err == nil && view.Exists() {
		return
	}
	select {
	case <-in.after.done:
	case <-s.Submitting.Done():
	}
}

// note takes in the answer to a step.
func (s *session) note(ctx context.Context, in *inbound, duplicate bool, err error) {
	switch {
	case err != nil && !in.whose: // the gateway, which logs what it judges, never saw it
		s.refuse(ctx, in.user, err)
	case err != nil:
		s.tell(ctx, in.user, err)
	case !duplicate:
		if u := s.net.users[in.user]; u != nil && u.account == in.account { // else it is another by now
			s.net.signed(in.user, in.ev.Actor())
			s.meetAgain()
		}
		s.link.ports.Wakes.Wake(bridge.OutboxTopic(s.link.cfg.Name)) // a private step may wait for the user
	}
}

// copyOf returns the channel of a handoff for a private step by a party outside the channel, which
// receives the channel's steps as private copies. It returns the zero place for any other step.
func (s *session) copyOf(ctx context.Context, ev federation.Event, user string) (federation.Place, error) {
	if ev.Verb == federation.Offer {
		return federation.Place{}, nil
	}
	view, err := s.link.ports.Gateway.View(ctx, ev.Handoff)
	if err != nil || federation.Private(view.Venue) || !slices.Contains(view.Others(""), ev.From) {
		return federation.Place{}, err
	}
	inside := false
	s.Post(ctx, func() {
		ch := s.net.channels[view.Venue]
		inside = ch != nil && ch.members[user]
	})
	if inside {
		return federation.Place{}, nil
	}
	return federation.Place{Venue: view.Venue}, nil
}

// attribute finds out whose step it is, once, and the venue of a private one: not in the
// goroutine of the owner, which must not wait for the record. The step of a user with a
// bound account is that of the account's DID and of no other.
func (s *session) attribute(ctx context.Context, in *inbound) error {
	if in.whose {
		return nil
	}
	ports, ev := s.link.ports, in.ev
	bound, err := irc.Bound(ctx, ports, s.link.cfg.Name, in.account)
	switch {
	case err != nil:
		return err
	case bound.DID == "" && ev.From == "":
		return federation.Refuse(ev, federation.MissingRequirement, fromTag(ev.Dialect))
	case bound.DID == "":
	case ev.From == "":
		ev.From = bound.DID
	case ev.From != bound.DID && !ports.Gateway.Same(ctx, ev.From, bound.DID):
		return federation.Refuse(ev, federation.ActorMismatch, "the account stands for "+string(bound.DID))
	}
	if ev.Venue == "" {
		if ev.Venue, err = irc.PrivateVenue(ctx, ports, ev, in.to); err != nil {
			return err
		}
		if ev.Arrival.Place, err = s.copyOf(ctx, ev, in.user); err != nil {
			return err
		}
	}
	if bound.Vouch && ev.Signature.Text == "" {
		if ev, err = irc.VouchFor(ctx, ports, ev, in.line); err != nil {
			return err
		}
	}
	in.ev, in.whose = ev, true
	return nil
}

package client

import (
	"context"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

type inbound struct {
	ev         federation.Event
	account    federation.DID
	bound      string // login name
	to         federation.DID
	line       string
	tags       map[string]string
	target     string
	answer     *answers // nil without a label
	attributed bool
}

// The client's reader submits the step.
func (s *server) onStep(ctx context.Context, u *user, m ircmsg.Message, ev federation.Event, err error) {
	in := &inbound{ev: ev, account: u.account, bound: u.bound, target: m.Params[0], tags: m.AllTags()}
	if err == nil {
		err = s.place(u, in)
	}
	if err != nil {
		s.refuse(ctx, u, err)
		return
	}
	in.line, _ = m.Line() // it arrived as a line
	in.ev.Arrival = federation.Arrival{Network: network, Link: s.link.Name(), Name: u.nick, User: u.ident, Received: time.Now(), Place: in.ev.Arrival.Place}
	switch {
	case in.ev.Stamped:
	case in.ev.Verb == federation.Offer:
		in.ev.ID = in.ev.Handoff
	default:
		in.ev.Arrival.MessageID = newMessageID(in.ev.Arrival.Received)
	}
	u.seen.Add(in.ev.WireID()) // the step is its answer, so it is not sent again
	u.seen.Add(in.ev.WireID() + irc.LineSuffix)
	u.spoke = in.ev.Arrival.Received
	in.answer, u.answer = u.answer, nil
	u.work = func() {
		judged, err := s.process(ctx, in)
		s.post(func() { s.onStepResult(ctx, u, in, judged, err) })
	}
}

func (s *server) place(u *user, in *inbound) error {
	ev := &in.ev
	switch {
	case u.account == "":
		return federation.Refuse(*ev, federation.AccountRequired, "")
	case ev.From == "":
		ev.From = u.account
	}
	if ev.Venue != "" {
		return s.placeIn(u, ev)
	}
	if in.to = s.addressee(in.target); in.to == "" {
		return federation.Refuse(*ev, federation.InvalidTarget, "no user of that name has proved a DID")
	}
	return nil
}

// Only a client that may speak in the channel can open or claim a handoff. Responses may come from
// parties outside the channel, or even on other servers.
func (s *server) placeIn(u *user, ev *federation.Event) error {
	c := s.channels[ev.Venue]
	if c != nil && !c.lasting {
		ev.Arrival.Place = federation.ChannelRef{Link: s.link.Name(), Venue: ev.Venue}
	}
	opens := ev.Verb == federation.Offer || ev.Verb == federation.Claim
	switch {
	case opens && c == nil:
		return federation.Refuse(*ev, federation.InvalidTarget, "no such channel")
	case c != nil && (opens && !c.speaks(u) || c.members[u] != nil && !c.speaks(u)):
		return federation.Refuse(*ev, federation.InvalidTarget, "you may not speak there")
	}
	return nil
}

// addressee returns "" for a channel.
func (s *server) addressee(target string) federation.DID {
	if fold(target) == fold(selfNick) {
		return s.link.ports.Home.DID()
	}
	if did, err := federation.ParseDID(target); err == nil {
		return did
	}
	switch to := s.nicks[fold(target)]; {
	case to == nil:
		return ""
	case to.remote != "":
		return to.remote
	default:
		return to.account
	}
}

func (s *server) process(ctx context.Context, in *inbound) (federation.Judgement, error) {
	submitting, cancel := irc.WithGrace(ctx)
	defer cancel()
	return irc.SubmitWithRetry(submitting, s.log, in.ev, func(ctx context.Context) (federation.Judgement, error) { return s.submitOnce(ctx, in) })
}

// submitOnce reads the record here, because the owner must not wait for it.
func (s *server) submitOnce(ctx context.Context, in *inbound) (federation.Judgement, error) {
	ports := s.link.ports
	if !in.attributed {
		if err := s.attribute(ctx, in); err != nil {
			return federation.Judgement{}, err
		}
		in.attributed = true
	}
	return ports.Gateway.Submit(ctx, in.ev)
}

// attribute also finds the venue of a private step. It signs an unsigned step if the operator
// vouches for the account.
func (s *server) attribute(ctx context.Context, in *inbound) error {
	ports := s.link.ports
	if in.ev.From != in.account {
		if same, err := ports.Gateway.Same(ctx, in.ev.From, in.account); err != nil {
			return err
		} else if !same {
			return federation.Refuse(in.ev, federation.ActorMismatch, "you are logged in as "+string(in.account))
		}
	}
	if in.ev.Venue == "" {
		venue, err := irc.PrivateVenue(ctx, ports, in.ev, in.to)
		if err != nil {
			return err
		}
		in.ev.Venue = venue
	}
	if in.ev.Signature.Text != "" {
		return nil
	}
	bound, err := irc.Bound(ctx, ports, s.link.Name(), in.bound)
	if err != nil || !bound.Vouch {
		return err // the home refuses an unsigned step
	}
	in.ev, err = irc.VouchFor(ctx, ports, in.ev, in.line)
	return err
}

func (s *server) onStepResult(ctx context.Context, u *user, in *inbound, judged federation.Judgement, err error) {
	u.work = nil
	if u.over {
		return
	}
	u.answer = in.answer
	switch {
	case err != nil && !in.attributed: // never seen, and so not logged, by the gateway
		s.refuse(ctx, u, err)
	case err != nil:
		s.notify(ctx, u, err)
	default:
		m := u.newMessage("TAGMSG", in.target)
		m.tags, m.msgid, m.at = clientTags(in.tags), judged.Entry.Event.WireID(), judged.Entry.Event.Arrival.Received
		s.echo(u, m)
	}
	s.close(u)
}

func clientTags(tags map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range tags {
		if ofStep(name) {
			own["+"+strings.TrimPrefix(name, "+")] = value
		}
	}
	return own
}

// A message that arrives on two paths is sent only once. The limit exceeds the number of messages
// between the two arrivals.
const maxSeen = 256

// by names the account of a user of this server, or the authenticated DID of any other author.
//
// spec: ircv3 account-tag
func (s *server) by(m message, author federation.DID, at federation.Arrival, proved bool) message {
	switch {
	case len(s.accounts[author]) > 0, at.Link == s.link.Name():
		m.account = string(author)
	case proved:
		m.did = string(author)
	}
	return m
}

// A text may have a guest of its network as its author. A guest of another home looks like a user
// with a DID.
func (s *server) byText(m message, t federation.Text) message {
	guest := t.Author == s.link.ports.Messages.Guest(t.Arrival.Link, t.Arrival.Name)
	return s.by(m, t.Author, federation.Arrival{}, !guest && t.Arrival.Home == "")
}

func (c capability) supports(d federation.Dialect) bool {
	if d == federation.ActTags {
		return c.has(capAct)
	}
	return c.has(capHandoff)
}

// reads prefers the signed dialect. It returns "" if the client reads none.
func (c capability) reads(signed federation.Dialect) federation.Dialect {
	switch {
	case !c.has(capTags):
	case c.supports(signed):
		return signed
	case c.has(capHandoff):
		return federation.HandoffTags
	case c.has(capAct):
		return federation.ActTags
	}
	return ""
}

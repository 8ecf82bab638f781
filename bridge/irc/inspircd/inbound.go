package inspircd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// A step takes some 10 KiB, and the limit is a minute's worth of several users. Above it, nothing is
// read.
const maxSteps = 1024

type inbound struct {
	user    string
	command *irc.Command // nil for a step
	words   *irc.Words   // private text; nil for a step
	chat    *irc.Chat    // channel text; nil for a step
	as      federation.DID
	// account is the user's account at the time of the line.
	account, line string
	to            federation.DID
	ev            federation.Event // owned by process after its start

	opens      federation.HandoffID
	attributed bool
	after      *inbound // another user's offer that may open its handoff, or nil
	done       chan struct{}
}

// Steps of one user, or the text of one channel, are judged in order of arrival.
func (in *inbound) lane() string {
	if in.chat != nil {
		return in.chat.Venue
	}
	return in.user
}

func (s *session) enqueue(in *inbound) {
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

func (s *session) process(ctx context.Context, in *inbound) (note func()) {
	defer close(in.done)
	if in.command != nil {
		text := s.Execute(s.link.chatops, *in.command)
		return func() { s.reply(ctx, in.user, text) }
	}
	if in.words != nil {
		waits, err := s.speak(in)
		return func() { s.onTextResult(ctx, in, waits, err) }
	}
	if in.chat != nil {
		err := s.relay(in)
		return func() { s.relayed(ctx, in, err) }
	}
	if in.after != nil {
		s.awaitOffer(in)
	}
	answer, err := s.Submit(in.ev, func(ctx context.Context) (federation.Judgement, error) {
		if err := s.attribute(ctx, in); err != nil {
			return federation.Judgement{}, err
		}
		return s.link.ports.Gateway.Submit(ctx, in.ev)
	})
	return func() { s.record(ctx, in, answer.Duplicate, err) }
}

// An offer may arrive just before a step of its handoff.
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

func (s *session) record(ctx context.Context, in *inbound, duplicate bool, err error) {
	switch {
	case err != nil && !in.attributed: // never seen, and so not logged, by the gateway
		s.refuse(ctx, in.user, err)
	case err != nil:
		s.notify(ctx, in.user, err)
	case !duplicate:
		if u := s.net.users[in.user]; u != nil && u.account == in.account { // else its account has changed
			s.net.signed(in.user, in.ev.Actor())
			s.retryMissed()
		}
		s.link.ports.PubSub.Wake(bridge.OutboxTopic(s.link.cfg.Name)) // a private step may wait for the user
	}
}

// A party outside the channel receives the channel's steps as private copies, so its private step
// belongs to that channel. For any other step, the place is zero.
func (s *session) copyOf(ctx context.Context, ev federation.Event, user string) (federation.ChannelRef, error) {
	if ev.Verb == federation.Offer {
		return federation.ChannelRef{}, nil
	}
	view, err := s.link.ports.Gateway.View(ctx, ev.Handoff)
	if err != nil || federation.Private(view.Venue) || !slices.Contains(view.Others(""), ev.From) {
		return federation.ChannelRef{}, err
	}
	inside := false
	s.Post(ctx, func() {
		ch := s.net.channels[view.Venue]
		inside = ch != nil && ch.members[user]
	})
	if inside {
		return federation.ChannelRef{}, nil
	}
	return federation.ChannelRef{Venue: view.Venue}, nil
}

// The owner must not call attribute, which waits for the record. A step of a user with a bound
// account is attributed only to the account's DID.
func (s *session) attribute(ctx context.Context, in *inbound) error {
	if in.attributed {
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
	case ev.From != bound.DID:
		if same, err := ports.Gateway.Same(ctx, ev.From, bound.DID); err != nil {
			return err
		} else if !same {
			return federation.Refuse(ev, federation.ActorMismatch, "the account stands for "+string(bound.DID))
		}
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
	in.ev, in.attributed = ev, true
	return nil
}

func (s *session) onMessage(ctx context.Context, m ircmsg.Message) error {
	from := s.net.users[m.Source]
	if from == nil {
		return nil
	}
	if len(m.ClientOnlyTags()) == 0 {
		s.onText(ctx, m, from)
		return nil
	}
	in, err := s.decode(m)
	switch {
	case errors.Is(err, translate.ErrNotHandoff) && m.Command == "TAGMSG":
		s.onTags(ctx, m, from)
		return nil
	case errors.Is(err, translate.ErrNotHandoff):
		s.onText(ctx, m, from)
		return nil
	}
	if !s.allow(ctx, m.Source, in.ev) {
		return nil
	}
	if err != nil {
		s.refuse(ctx, m.Source, err)
		return nil
	}
	in.ev.Arrival = s.arrival(m, from)
	in.ev.Arrival.Place = s.link.channels.Place(in.ev.Venue)
	s.enqueue(in)
	return nil
}

func (s *session) arrival(m ircmsg.Message, from *user) federation.Arrival {
	_, messageID := m.GetTag("msgid")
	return federation.Arrival{Network: network, Link: s.link.cfg.Name, Name: from.nick, User: from.ident, MessageID: messageID, Received: time.Now()}
}

// While the link exceeds its rate, nothing is read. A limit of zero means no limit.
func (s *session) allow(ctx context.Context, uuid string, ev federation.Event) bool {
	limits := s.link.ports.Limits.Current()
	if perSecond := limits.LinkEventsPerSecond; perSecond > 0 {
		if s.events == nil || s.events.Burst() != perSecond {
			s.events = rate.NewLimiter(rate.Limit(perSecond), perSecond)
		}
		if wait := s.events.Reserve().Delay(); wait > 0 {
			s.pause = time.After(wait)
		}
	}
	ok, tell := s.net.users[uuid].meter.Take(limits.UserEventsPerMinute, time.Now())
	switch {
	case tell:
		s.refuse(ctx, uuid, federation.Refuse(ev, federation.RateLimited, ""))
	case !ok:
		s.link.ports.Metrics.Limited.WithLabelValues(network).Inc()
	}
	return ok
}

// decode checks only the place, because this network vouches for no identity.
func (s *session) decode(m ircmsg.Message) (*inbound, error) {
	ev, err := irc.Decode(translate.Tagged{Command: m.Command, Target: m.Params[0], Tags: m.AllTags()})
	if err != nil {
		return &inbound{user: m.Source}, err
	}
	in := &inbound{user: m.Source, account: s.net.users[m.Source].account, line: s.reading, ev: ev}
	if ev.Venue == "" {
		in.to = s.private(m.Params[0])
	}
	switch {
	case in.to == "" && s.net.channels[ev.Venue] == nil:
		return in, federation.Refuse(ev, federation.InvalidTarget, "")
	case ev.From == "" && in.account == "":
		return in, federation.Refuse(ev, federation.MissingRequirement, fromTag(ev.Dialect))
	}
	return in, nil
}

func fromTag(d federation.Dialect) string {
	if d == federation.ActTags {
		return "+freeq.at/from"
	}
	return "+freeq.at/handoff-from"
}

func (s *session) private(target string) federation.DID {
	byUUID := s.link.roster.byUUID
	if p := byUUID[target]; p != nil {
		return p.DID
	}
	if p := byUUID[s.net.owner(target)]; p != nil {
		return p.DID
	}
	return ""
}

// A message with unreadable tags cannot be a step, but its sender gets a reply if it may have meant
// one.
func (s *session) onTagless(ctx context.Context, m ircmsg.Message) error {
	switch m.Command {
	case "TAGMSG", "PRIVMSG", "NOTICE":
	default:
		return s.dispatch(ctx, m)
	}
	if s.net.users[m.Source] == nil || len(m.Params) == 0 {
		return nil
	}
	venue, _ := translate.Channel(m.Params[0])
	ours := s.net.channels[venue] != nil || s.private(m.Params[0]) != ""
	if ours && s.allow(ctx, m.Source, federation.Event{}) {
		reply := irc.Reply{Code: federation.InvalidTag.Upper(), Subject: "*", Sentence: "the tags could not be read"}
		s.link.replies.Count(reply)
		s.notice(ctx, m.Source, reply.Text(), "")
	}
	return nil
}

// The last user that logs in to an account has it. A user that leaves an account no longer acts as
// its DID.
func (t *tree) logIn(uuid, account string) {
	u := t.users[uuid]
	if u == nil {
		return
	}
	if t.accounts[u.account] == uuid {
		delete(t.accounts, u.account)
	}
	if u.account != "" && u.account != account {
		t.unsign(uuid)
		u.signer = ""
	}
	u.account = account
	if account != "" {
		t.accounts[account] = uuid
	}
}

func (s *session) onAccount(m ircmsg.Message) {
	account := ""
	if len(m.Params) > 2 {
		account = m.Params[2]
	}
	s.net.logIn(m.Params[0], account)
	s.retryMissed()
	if s.linked && account != "" {
		s.link.ports.PubSub.Wake(bridge.OutboxTopic(s.link.cfg.Name)) // a private step may wait for the user
	}
}

func (l *Link) accounts(ctx context.Context, did federation.DID) ([]string, error) {
	bound, err := l.ports.Bindings.Of(ctx, did)
	if err != nil {
		return nil, fmt.Errorf("look up accounts of %s: %w", did, err)
	}
	var accounts []string
	for _, b := range bound {
		if b.Network == l.cfg.Name {
			accounts = append(accounts, b.Name)
		}
	}
	return accounts, nil
}

// The nick counts only if the DID has no account, because any user can take a nick.
func (l *Link) party(ctx context.Context, did federation.DID, nick string) (party, error) {
	accounts, err := l.accounts(ctx, did)
	if len(accounts) > 0 {
		nick = ""
	}
	return party{did: did, accounts: accounts, nick: nick}, err
}

package client

import (
	"context"
	"errors"
	"slices"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
)

var _ bridge.Relayer = (*Link)(nil)

// maxChatLines bounds the lines of channels that wait to be filed. A client waits for the
// answer to its line, so that this is also the number of clients that speak at a time.
const maxChatLines = 4096

// chatLine is a line of a channel on its way to the record.
type chatLine struct {
	chat  irc.Chat
	filed chan error // gets the one result
}

// errBusy is the refusal of a line that finds no space in the queue.
var errBusy = &federation.RefusalError{Code: federation.RateLimited, Detail: "too many lines of channels wait to be filed"}

// errEnding is the result of a line that the end of the server left unfiled.
var errEnding = errors.New("the gateway ends")

// Relays implements [bridge.Relayer].
func (l *Link) Relays() []string { return l.relayed }

// toLinks has text filed for the links that relay a channel, in the order of the channel. It
// reports whether it does: the client has its echo after that.
func (s *server) toLinks(ctx context.Context, u *user, venue string, m message) bool {
	step := u.work != nil && len(u.later) == 0 // its line for people is written by each link
	if step || !slices.Contains(s.link.relayed, venue) || s.link.ports.Messages == nil {
		return false
	}
	line := &chatLine{filed: make(chan error, 1), chat: irc.Chat{
		From: u.account, Venue: venue, Command: m.command, Text: m.params[1], Line: evidence(m), Refs: irc.RefsIn(m.tags),
		Arrival: federation.Arrival{Network: network, Link: s.link.Name(), Name: u.nick, User: u.ident, MessageID: m.msgid, Received: m.at},
	}}
	select {
	case s.chat <- line:
	default:
		line.filed <- errBusy
	}
	var err error
	s.wait(ctx, u, &later{
		do: func(context.Context) {
			select {
			case err = <-line.filed:
			case <-s.ended:
				err = errEnding
			}
		},
		note: func() {
			if err != nil {
				s.unsaid(ctx, u, m, err)
				return
			}
			s.echo(u, m)
		},
	})
	return true
}

// fileChat files the lines of all channels in order, until the server ends.
func (s *server) fileChat(ctx context.Context) {
	submitting, cancel := irc.Outlive(ctx)
	defer cancel()
	for {
		select {
		case line := <-s.chat:
			_, err := irc.SubmitWithRetry(submitting, s.log, s.judges, federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
				return federation.Judgement{}, irc.Relay(ctx, s.link.ports, line.chat)
			})
			line.filed <- err
		case <-s.ended:
			return
		}
	}
}

// deliverChat writes text of another link to the members of a channel. Nil means that it was
// written.
func (l *Link) deliverChat(ev federation.Event) error {
	s := l.live.Load()
	if s == nil {
		return l.unavailable(errNotListening)
	}
	if !s.ask(func() { s.showChat(ev) }) {
		return l.unavailable(errNotListening)
	}
	return nil
}

// showChat writes text to the members of a channel.
func (s *server) showChat(ev federation.Event) {
	c := s.channels[ev.Venue]
	if c == nil {
		return
	}
	command, text := irc.ChatLine(ev)
	m := says(s.speaker(ev.Actor(), ev.Arrival.Name), command, c.name, text)
	m.msgid, m.at, m.account = ev.ID.String(), ev.Arrival.Received, string(ev.Actor())
	if ev.ReplyTo != "" {
		m.tags = map[string]string{irc.RefTag: ev.ReplyTo}
	}
	s.spread(m, c.everyone)
}

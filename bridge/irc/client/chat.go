package client

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

var _ bridge.Relayer = (*Link)(nil)

// A client waits for the reply to its line, so maxChatLines also bounds the clients that write at the
// same time.
const maxChatLines = 4096

type chatLine struct {
	chat  irc.Chat
	kept  *federation.Line // filed before the text goes to the links; may be nil
	filed chan error
}

var errBusy = &federation.RefusalError{Code: federation.RateLimited, Detail: "too many lines of channels wait to be filed"}

var errEnding = errors.New("the gateway ends")

// Relays implements [bridge.Relayer].
func (l *Link) Relays() []string { return l.relayed }

// If toLinks returns true, the client gets its echo later.
func (s *server) toLinks(ctx context.Context, u *user, venue string, m message, kept *federation.Line) bool {
	if !slices.Contains(s.link.relayed, venue) || s.link.ports.Messages == nil {
		return false
	}
	u.relayed = s.relayedAs(u)
	text := ""
	if m.command != "TAGMSG" {
		text = m.params[1]
	}
	line := &chatLine{filed: make(chan error, 1), kept: kept, chat: irc.Chat{
		From: u.account, Venue: venue, Command: m.command, Text: text, Away: u.away, Line: evidence(m), Refs: irc.RefsIn(m.tags), Formatting: s.link.cfg.Formatting, History: s.link.cfg.History,
		Arrival: s.arrival(u, m),
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

func (s *server) fileChat(ctx context.Context) {
	submitting, cancel := irc.WithGrace(ctx)
	defer cancel()
	for {
		select {
		case line := <-s.chat:
			if line.kept != nil {
				s.keep(submitting, *line.kept)
			}
			_, err := irc.SubmitWithRetry(submitting, s.log, federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
				return federation.Judgement{}, irc.Relay(ctx, s.link.ports, line.chat)
			})
			line.filed <- err
		case <-s.ended:
			return
		}
	}
}

// The result is nil if the text was written, or is not shown here.
func (l *Link) deliverChat(ctx context.Context, t federation.Text) error {
	s := l.live.Load()
	if s == nil {
		return l.unavailable(errNotListening)
	}
	t, err := irc.Answering(ctx, l.ports, l.Name(), t)
	if err != nil || !irc.Shows(t) {
		return err
	}
	var m message
	var place federation.ChannelRef
	var there bool
	if !s.ask(func() { m, place, there = s.chatLineOf(t) }) {
		return l.unavailable(errNotListening)
	}
	if !there {
		return nil
	}
	known := false
	if s.keeps(m) && t.Fields[federation.Unkept] == "" {
		at, err := l.deps.Record.KeepLine(ctx, lineOf(m, place, t.Author, ""))
		if err != nil {
			return err
		}
		known, m.at = !at.Equal(m.at), at
	}
	if !s.ask(func() { s.showChat(t, m, known) }) {
		return l.unavailable(errNotListening)
	}
	return nil
}

// A known line was already in the history before an interrupted delivery, so clients with history
// have it.
func (s *server) showChat(t federation.Text, m message, known bool) {
	c := s.channels[t.Venue]
	if c == nil {
		return
	}
	if len(s.accounts[t.Author]) == 0 {
		u := s.remote(t.Author, t.Arrival.Name)
		s.seat(u, t.Venue, c)
		s.setAway(u, t.Fields[federation.Away])
	}
	readers := iter.Seq[*user](c.everyone)
	if m.command == "TAGMSG" {
		readers = having(capTags, readers)
	}
	switch {
	case !known:
		s.spread(m, readers)
	case s.link.cfg.ReplayOnJoin == 0:
		s.spread(m, lacking(capHistory, readers))
	}
}

var _ bridge.Messenger = (*Link)(nil)

// Messages to more absent recipients are only retried by a timer.
const maxMissed = 4096

type later struct {
	do   func(ctx context.Context)
	note func()
}

// Until the work is done, the owner processes no other line of the client.
func (s *server) wait(ctx context.Context, u *user, l *later) {
	u.later = append(u.later, l)
	if len(u.later) > 1 {
		return // the first one's work covers all
	}
	answer := u.answer
	u.answer = nil
	u.work = func() {
		submitting, cancel := irc.WithGrace(ctx)
		for _, l := range u.later {
			l.do(submitting)
		}
		cancel()
		s.post(func() { s.waited(u, answer) })
	}
}

func (s *server) waited(u *user, answer *answers) {
	all := u.later
	u.work, u.later = nil, nil
	if u.over {
		return
	}
	u.answer = answer
	for _, l := range all {
		l.note()
	}
	s.close(u)
}

// toRemote returns false for a message other than private text to a nick.
func (s *server) toRemote(ctx context.Context, u *user, m message) bool {
	nick := m.params[0]
	if m.command != "PRIVMSG" || u.work != nil && len(u.later) == 0 || s.link.ports.Messages == nil || !irc.ValidNick(nick) {
		return false
	}
	words := irc.Words{
		From: u.account, To: s.remoteOf(nick), Text: m.params[1], Refs: irc.RefsIn(m.tags),
		Line: evidence(m), Formatting: s.link.cfg.Formatting, History: s.link.cfg.History,
		Arrival: s.arrival(u, m),
	}
	var known bool
	var waits string
	var err error
	kept := s.keeps(m) && u.account != ""
	s.wait(ctx, u, &later{
		do: func(ctx context.Context) {
			var to federation.DID
			if to, waits, known, err = s.speak(ctx, words, nick); kept && known && err == nil {
				s.keep(ctx, lineOf(m, federation.ChannelRef{Venue: federation.PrivateVenue(words.From, to)}, words.From, to))
			}
		},
		note: func() { s.onTextResult(ctx, u, m, waits, known, err) },
	})
	return true
}

func (s *server) arrival(u *user, m message) federation.Arrival {
	return federation.Arrival{Network: network, Link: s.link.Name(), Name: u.nick, User: u.ident, MessageID: m.msgid, Received: m.at}
}

func evidence(m message) string {
	return strings.TrimRight(string(m.line(capTags|capTime, "", m.at)), "\r\n")
}

// speak blocks, so the owner must not call it.
func (s *server) speak(ctx context.Context, w irc.Words, nick string) (did federation.DID, waits string, known bool, err error) {
	_, err = irc.SubmitWithRetry(ctx, s.log, federation.Event{}, func(ctx context.Context) (federation.Judgement, error) {
		to := w
		if to.To == "" {
			did, err := s.link.ports.Bindings.Participant(ctx, fold(nick))
			if err != nil {
				return federation.Judgement{}, err
			}
			to.To = did
		}
		did = to.To
		var err error
		waits, err = irc.Say(ctx, s.link.ports, to, nick)
		return federation.Judgement{}, err
	})
	return did, waits, !errors.Is(err, federation.ErrNotFound), err
}

// A recipient with queued text counts as offline.
//
// spec: rfc2812 §5.1 RPL_AWAY
func (s *server) onTextResult(ctx context.Context, u *user, m message, waits string, known bool, err error) {
	switch {
	case !known:
		s.reply(u, errNoSuchNick, clipParam(m.params[0]), "No such nick")
	case err != nil:
		s.unsaid(ctx, u, m, err)
	default:
		s.echo(u, m)
		if waits != "" {
			s.reply(u, rplAway, m.params[0], waits)
		}
	}
}

func (s *server) unsaid(ctx context.Context, u *user, m message, err error) {
	if reply, has := s.link.replies.To(ctx, err); has && m.command != "NOTICE" {
		s.fail(u, m.command, reply.Code, reply.Subject, reply.Sentence)
	}
}

func (s *server) lines(u *user, t federation.Text, name string) []message {
	var all []message
	for i, text := range irc.TextLines(t, name, selfNick, s.link.cfg.Formatting) {
		m := s.byText(textMessage(s.speaker(t.Author, name), "PRIVMSG", u.nick, text), t)
		m.msgid, m.at = irc.TextID(t, i), t.Arrival.Received
		m.tags = irc.TextRefs(t)
		all = append(all, m)
	}
	return all
}

// DeliverText implements [bridge.TextLink] for a client without a DID. It blocks until the client has
// answered the PING after the message.
func (l *Link) DeliverText(ctx context.Context, t federation.Text) error {
	if t.InChannel() {
		return l.deliverChat(ctx, t)
	}
	s := l.live.Load()
	if s == nil {
		return l.unavailable(errNotListening)
	}
	t = s.answering(ctx, t)
	name := l.ports.Gateway.Name(ctx, t.Author)
	return s.show(ctx, func(shown chan<- error) { s.showText(t, name, shown) })
}

// show blocks until the client has acknowledged the message. The channel has capacity one.
func (s *server) show(ctx context.Context, write func(shown chan<- error)) error {
	shown := make(chan error, 1)
	if !s.ask(func() { write(shown) }) {
		return s.link.unavailable(errNotListening)
	}
	select {
	case err := <-shown:
		return err
	case <-s.ended:
		return s.link.unavailable(errNotListening)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	errAway = errors.New("no client has that nick")
	errLeft = errors.New("the client left before reading the message")
)

func (s *server) showText(t federation.Text, name string, shown chan<- error) {
	nick := fold(t.Arrival.Place.Venue)
	u := s.local(nick)
	if holder := t.Fields[federation.Holder]; holder != "" {
		if u = s.held(holder); u == nil {
			shown <- t.Refuse(federation.InvalidTarget, irc.HolderLeft)
			return
		}
	}
	if u == nil || !u.welcome || u.over {
		if len(s.missed) < maxMissed {
			s.missed[nick] = t.To
		}
		shown <- s.link.unavailable(errAway)
		return
	}
	for _, m := range s.lines(u, t, name) {
		if u.seen.Add(m.msgid) {
			s.put(u, m, "")
		}
	}
	s.prove(u, "text-"+t.ID.String(), shown)
}

func (s *server) prove(u *user, token string, shown chan<- error) {
	if u.proofs == nil {
		u.proofs = map[string]chan<- error{}
	}
	u.proofs[token] = shown
	if s.put(u, textMessage("", "PING", token), ""); u.over { // queue full
		s.unproved(u)
	}
}

func (s *server) held(holder string) *user {
	for u := range s.connected {
		if u.holder == holder && !u.over {
			return u
		}
	}
	return nil
}

func (u *user) proved(token string) {
	if shown := u.proofs[token]; shown != nil {
		delete(u.proofs, token)
		shown <- nil
	}
}

func (s *server) unproved(u *user) {
	for token, shown := range u.proofs {
		delete(u.proofs, token)
		shown <- s.link.unavailable(errLeft)
	}
}

func (s *server) retryMissed(ctx context.Context, u *user) {
	did := s.missed[fold(u.nick)]
	if did == "" || !u.welcome {
		return
	}
	delete(s.missed, fold(u.nick))
	s.running.Go(func() {
		_ = s.link.ports.Messages.Back(ctx, s.link.Name(), did) // a timer retries them too
	})
}

// Addressee implements [bridge.Messenger].
func (l *Link) Addressee(_ context.Context, nick string) (federation.DID, error) {
	if !irc.ValidNick(nick) {
		return "", federation.ErrNotFound
	}
	s := l.live.Load()
	if s == nil {
		return "", nil
	}
	found := make(chan federation.DID, 1)
	if !s.ask(func() {
		did := federation.DID("")
		if u := s.local(nick); u != nil {
			did = u.account
		}
		found <- did
	}) {
		return "", nil
	}
	return <-found, nil
}

// Here implements [bridge.Messenger].
func (l *Link) Here(_ context.Context, to bridge.Recipient) (holder string, here bool) {
	s := l.live.Load()
	if s == nil {
		return "", false
	}
	guest := to.DID == l.ports.Messages.Guest(l.Name(), to.Place.Venue)
	s.ask(func() {
		if u := s.local(to.Place.Venue); guest && u != nil && u.welcome {
			if u.holder == "" {
				u.holder = rand.Text()
			}
			holder = u.holder
		}
		here = holder != "" || len(s.accounts[to.DID]) > 0
	})
	return holder, here
}

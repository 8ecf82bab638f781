package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/translate"
)

// Servers send this number, but none checks it.
const protocolVersion = 2

// greet also requests the state, without waiting.
//
// spec: freeq-s2s "Order on a fresh link"
func (s *session) greet() {
	s.put(control, &hello{
		Type: typeHello, PeerID: s.link.id, ServerName: string(s.link.deps.Home), Version: protocolVersion,
		TrustLevel: "full", Capabilities: []string{capCatchup, capAct, capRoute, capLossless},
	})
	s.put(control, &syncRequest{Type: typeSyncRequest})
}

// An error ends the link; malformed input never does.
func (s *session) handleLine(ctx context.Context, l inboundLine) error {
	if l.wrong != "" {
		s.badInput(ctx, l.wrong, fmt.Sprintf("%d bytes", l.bytes))
		return nil
	}
	switch m := l.message.(type) {
	case nil:
		return nil
	case *hello:
		return s.onHello(ctx, m)
	case *helloAck:
		return s.onHelloAck(m)
	}
	if !s.greeted {
		s.badInput(ctx, unsigned, "before its greeting")
		return nil
	}
	return s.dispatch(ctx, l.message)
}

func (s *session) dispatch(ctx context.Context, m any) error {
	switch m := m.(type) {
	case *syncRequest:
		s.put(control, s.state())
	case *syncResponse:
		s.onState(ctx, m)
	case *member:
		if s.fresh(ctx, m.EventID, m.Origin) {
			s.onMember(m)
		}
	case *mode:
		if s.fresh(ctx, m.EventID, m.Origin) {
			s.onMode(m)
		}
	case *wireMessage:
		to := s.addressed(m)
		here, relayed := s.relayed(m)
		switch {
		case relayed && (m.Type == typePrivmsg || refsIn(m.Tags).Reacts()):
			if s.ours(ctx, m.Origin) && s.fresh(ctx, m.EventID, m.Origin) {
				s.onChat(ctx, m, here)
			}
		case m.Type == typePrivmsg && to == "" && !s.toSelf(m): // other users' chat is irrelevant
		case !s.ours(ctx, m.Origin) || !s.fresh(ctx, m.EventID, m.Origin):
		case m.Type == typePrivmsg && s.toSelf(m):
			s.onCommand(m)
		case m.Type == typePrivmsg:
			s.onWords(m, to)
		default:
			s.onStep(ctx, arriving{target: m.Target, nick: m.From, tags: m.Tags})
		}
	case *route:
		if s.ours(ctx, m.Origin) && s.fresh(ctx, m.EventID, m.Origin) {
			s.onStep(ctx, arriving{target: m.Target, nick: m.From, tags: m.Tags, routed: true})
		}
	case *catchupRequest:
		s.onCatchupRequest(ctx, m)
	case *catchupEvents:
		s.onCatchupEvents(ctx, m)
	}
	return nil
}

func (s *session) badInput(ctx context.Context, why reason, what string) {
	s.link.deps.Metrics.BadInput.WithLabelValues(network, s.link.cfg.Name, string(why)).Inc()
	s.log.LogAttrs(ctx, slog.LevelInfo, "unreadable line", slog.String("reason", string(why)), slog.String("what", what))
}

// The transport has proved the identity of the peer; the message only claims one.
//
// spec: freeq-s2s "event_id and dedup", "origin rules"
func (s *session) fresh(ctx context.Context, id, origin string) bool {
	switch {
	case origin == s.link.id:
		s.badInput(ctx, foreign, "an echo of ours")
		return false
	case id != "" && !s.seen.Add(id):
		s.badInput(ctx, repeated, id)
		return false
	}
	return true
}

// The peer may have sent the step for itself or for one of its own peers, so the origin proves
// nothing.
func (s *session) ours(ctx context.Context, origin string) bool {
	if origin == "" {
		s.badInput(ctx, incomplete, "a step without origin")
		return false
	}
	return true
}

func (s *session) onHello(ctx context.Context, m *hello) error {
	if m.PeerID != s.link.cfg.EndpointID {
		return fmt.Errorf("it is endpoint %q", clip(m.PeerID))
	}
	if m.ServerName != s.link.cfg.ServerName {
		s.log.LogAttrs(ctx, slog.LevelWarn, "peer has another name than server_name", slog.String("peer", clip(m.ServerName)))
	}
	for _, needed := range []string{capCatchup, capAct, capRoute} {
		if !slices.ContainsFunc(m.Capabilities, func(c string) bool { return c == needed || strings.HasPrefix(c, needed+"=") }) {
			s.log.LogAttrs(ctx, slog.LevelWarn, "peer lacks a capability", slog.String("what", needed))
		}
	}
	accepted := true
	s.put(control, &helloAck{Type: typeHelloAck, PeerID: s.link.id, Accepted: &accepted, TrustLevel: "full"})
	s.greeted, s.greeting = true, m
	s.settleSpare(ctx)
	return nil
}

func clip(s string) string { return s[:min(len(s), maxNickBytes)] }

func (s *session) onHelloAck(m *helloAck) error {
	if !*m.Accepted {
		return errors.New("it does not accept this endpoint id: it must be in its s2s-allowed-peers")
	}
	return nil
}

// The first state opens the link.
func (s *session) onState(ctx context.Context, m *syncResponse) {
	if m.ServerID != s.link.cfg.EndpointID {
		s.badInput(ctx, foreign, "the state of another server")
		return
	}
	s.theirs = newMembers(s.link.channels.There())
	for _, venue := range s.link.channels.There() {
		if s.modes[venue] == nil {
			s.modes[venue] = &channelState{TopicLocked: true, NoExternal: true} // a server's defaults for a new channel
		}
	}
	for _, c := range m.Channels {
		venue, _ := translate.Channel(c.Name)
		if s.modes[venue] != nil {
			s.made[venue] = true
			s.modes[venue] = &channelState{
				TopicLocked: c.TopicLocked, InviteOnly: c.InviteOnly, NoExternal: c.NoExternal, Moderated: c.Moderated, Key: c.Key,
			}
		}
		for _, n := range c.Members {
			s.theirs.join(n.Nick, c.Name, n.DID)
		}
		if len(c.Members) == 0 {
			for _, nick := range c.Nicks {
				s.theirs.join(nick, c.Name, nil)
			}
		}
	}
	if !s.stated {
		s.stated = true
		s.begin()
		return
	}
	s.retryMissed()
	s.yield()
}

// The link is up once the missed steps are recorded.
func (s *session) begin() {
	s.catchUp()
	for _, p := range s.link.roster.All() {
		s.present(p)
	}
}

func (s *session) yield() {
	for _, p := range s.link.roster.All() {
		if s.theirs.named(p.Nick) != nil {
			s.present(p)
		}
	}
}

func (s *session) open() {
	s.linked, s.agreed = true, s.agree()
	s.link.live.Store(s)
	s.Running.Go(func() { s.awaitRulings(s.Asking) })
	s.Running.Go(func() {
		post := func(do func()) bool { return s.Post(s.Asking, do) }
		irc.WatchPresence(s.Asking, s.link.deps.Presence, s.link.presenceEvery, s.Over, post, s.link.roster.DIDs, s.depart)
	})
	s.up()
	s.RetryTexts(s.link.deps.Messages, s.link.cfg.Name, "") // retry failed deliveries, and deliveries to readers that joined since
}

func (s *session) onMember(m *member) {
	switch m.Type {
	case typeJoin:
		s.theirs.join(m.Nick, m.Channel, m.DID)
		s.retryMissed()
		s.yield()
		s.joinChannel(m.Channel)
	case typePart:
		s.departing(m.Nick, func() { s.theirs.part(m.Nick, m.Channel) })
	case typeQuit:
		s.departing(m.Nick, func() { s.theirs.quit(m.Nick) })
	case typeNickChange:
		p := s.theirs.named(m.Old)
		s.theirs.rename(m.Old, m.New)
		s.renamed(p, m.Old)
		s.yield()
	case typeKick:
		s.onKick(m)
	}
}

func (s *session) onKick(m *member) {
	venue, _ := translate.Channel(m.Channel)
	if p := s.link.named(m.Nick); p != nil && p.In[venue] {
		p.In[venue] = false
		return
	}
	s.theirs.part(m.Nick, m.Channel)
}

func (s *session) onMode(m *mode) {
	venue, _ := translate.Channel(m.Channel)
	c := s.modes[venue]
	if c == nil {
		return
	}
	on := true
	for _, letter := range m.Mode {
		switch letter {
		case '+', '-':
			on = letter == '+'
		case 't':
			c.TopicLocked = on
		case 'i':
			c.InviteOnly = on
		case 'n':
			c.NoExternal = on
		case 'm':
			c.Moderated = on
		case 'k':
			if c.Key = m.Arg; !on {
				c.Key = nil
			}
		}
	}
}

// Package spanningtree links this gateway to an InspIRCd network as one more
// server of it, in the protocol that InspIRCd calls spanning tree.
//
// It is version 1205 of the protocol, which InspIRCd 3 speaks, or 1206, which InspIRCd 4
// speaks: the newest that the peer knows. The gateway dials or is dialled, with or without TLS.
// It is no services package, and forwards nothing, being a leaf.
//
// No server holds the users of another one to the modes and bans of a channel, so that this
// package does it for the users of the gateway: a step of a user that may not speak is refused,
// and operators read which channel is not carried and why. A user that comes back from a split
// stays the member that it was, as on any server. Of extended bans these count: mute, unauthed,
// realname, server and account. The users obey SVSNICK, SVSJOIN, SVSPART, SANICK, SAJOIN and
// SAPART.
//
// The gateway's own user sits in the configured channels, because a server with no
// user in a channel hears nothing from it. Each federated DID that speaks gets a
// user of its own, a pseudo-client, on first use. Steps travel both ways as
// TAGMSG with the tags that were signed, of either dialect; beside each in a channel
// stands one NOTICE for people. A server link has no acknowledgement, so that a step
// counts as delivered when the PONG of a PING sent after it came back: the peer
// answers in order.
//
// What a user sends to the gateway's user or to a pseudo-client is private. Its
// answers go to the user that signed last as the DID, else to the one with the nick
// that did, and wait while neither is there.
//
// # Accounts
//
// A text from a user to the gateway's user is a command. The gateway signs its step where
// the operator's binding of the user's account vouches for it.
//
// The peer says which of its users is logged in to which account. If an account is
// bound to a DID, its user acts as that DID and no other, needs no signature where the
// binding vouches for it, and is found by it whatever its nick.
//
// # Concurrency
//
// One goroutine, the one in [Link.Run], owns all state of a link. A reader and a
// writer carry lines between it and the connection; judges submit inbound steps to
// the gateway, steps of one user in the order they came in, steps of different users
// side by side. While the gateway cannot take them the link stops reading, and the
// peer feels it. [Link.Deliver] and [Link.Online] reach it through channels and may be called by
// many. A link that is dialled has a goroutine more that accepts, and one for each
// connection that has not authenticated yet.
//
// # Buffers of the peer
//
// An idle InspIRCd reads one netbuffersize a second, which is 10 KiB unless its
// configuration says more. Steps are small, so that only a long backlog notices;
// <performance netbuffersize="65534"> ends that.
//
// spec: InspIRCd spanning tree 1205, as in 3.15, and 1206, as in 4.11; ircv3 message-tags
package spanningtree

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/irc"
	"baton/federation"
	"baton/federation/store/registry"
)

// network is the label of this network in metrics.
const network = "spanningtree"

// dialTimeout bounds one attempt to connect: a server that is there answers in
// one round trip, and the supervisor dials again.
const dialTimeout = 10 * time.Second

// maxHad bounds the remembered pairs of a step and a party that received it. Beyond it, a party may
// receive an old step twice.
const maxHad = 4096

// Deps is what a link needs of the rest of the program.
type Deps struct {
	bridge.Ports

	Record *registry.Record
}

// Link is one configured InspIRCd server. Make one with [Open].
type Link struct {
	bridge.Hearing
	bridge.Losing

	cfg       Config
	ports     bridge.Ports
	log       *slog.Logger
	passwords passwords
	tls       *tls.Config // nil = plain
	dial      func(ctx context.Context) (net.Conn, error)
	listener  *net.TCPListener // nil while there is none; owned by the goroutine in Run
	chatops   irc.ChatOps
	replies   irc.Replies
	channels  irc.Channels
	relayed   []string   // channels of this federation whose text is exchanged with other links
	roster    *roster    // owned by the goroutine in Run
	had       irc.Recent // steps and parties that received them; owned by the goroutine in Run

	presenceEvery time.Duration

	// live is the session that takes rows: nil unless both bursts are over. It is
	// all that Deliver and Online see of the state, and leads them to the session's
	// channels.
	live atomic.Pointer[session]
}

var (
	_ bridge.Placer    = (*Link)(nil)
	_ bridge.Hearer    = (*Link)(nil)
	_ bridge.Loser     = (*Link)(nil)
	_ bridge.Describer = (*Link)(nil)
)

// Open checks the configuration, reads the two passwords, and returns the link. It dials
// nothing and listens nowhere. Its error joins one [*bridge.KeyError] for each mistake.
func Open(cfg Config, deps Deps) (*Link, error) {
	p := deps.Ports
	secrets, secretErr := readPasswords(cfg, p.Secrets)
	secure, tlsErr := openTLS(cfg, p.Certificate)
	if err := errors.Join(cfg.check(), secretErr, tlsErr); err != nil {
		return nil, err
	}
	channels, err := irc.ParseChannels(cfg.Channels, maxChannelBytes)
	if err != nil {
		return nil, err
	}
	relayed, err := channels.Relayed(cfg.RelayChat)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	log := p.Log.With(slog.String("network", network), slog.String("link", cfg.Name))
	return &Link{
		Losing:    bridge.NewLosing(),
		cfg:       cfg,
		ports:     p,
		chatops:   irc.ChatOps{Ports: p, Log: log, Record: deps.Record, Guesses: credential.NewGuesses()},
		replies:   irc.Replies{Metrics: p.Metrics, Log: log, Network: network},
		log:       log,
		passwords: secrets,
		tls:       secure,
		dial: func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", cfg.Address)
		},
		channels: channels,
		relayed:  relayed,
		roster:   newRoster(cfg, p.Home, channels.There()),
		had:      irc.Recent{Most: maxHad},

		presenceEvery: irc.PresenceEvery,
	}, nil
}

// Name implements [bridge.Link].
func (l *Link) Name() string { return l.cfg.Name }

// Network implements [bridge.Link].
func (l *Link) Network() string { return network }

// Channels implements [bridge.Placer].
func (l *Link) Channels() []string { return l.channels.Here() }

// Dialect implements [bridge.Placer].
func (l *Link) Dialect() federation.Dialect { return l.cfg.Dialect }

// Carries implements [bridge.Link]: the steps of handoffs in this link's channels,
// and of private ones that are written here. A step that came from here is among
// them: it may be owed its line for people, the home's receipt goes with it, and
// when it is settled its readers here have had it.
func (l *Link) Carries(ctx context.Context, _ federation.Event, after federation.View) (bool, error) {
	return l.writes(ctx, after)
}

// writes tells whether the steps of a handoff are written on this link.
func (l *Link) writes(ctx context.Context, v federation.View) (bool, error) {
	return l.channels.Writes(ctx, l.ports, l.cfg.Name, v)
}

// dials tells which end this is.
func (l *Link) dials() bool { return l.cfg.Listen == "" }

// Run implements [bridge.Link]. Steps that were read before the connection broke
// are still submitted before it returns, for at most five seconds. [bridge.Loser] tells of
// the loss before that.
//
// A link that is dialled keeps its port from the first Run until ctx ends or until
// [Link.Close]: a server that comes back in between waits in the queue of the system
// and is not turned away.
func (l *Link) Run(ctx context.Context, up func()) error {
	if !l.dials() {
		return l.runListening(ctx, up)
	}
	conn, err := l.dial(ctx)
	if err != nil {
		return fmt.Errorf("dial %s: %w", l.cfg.Address, err)
	}
	s, err := l.meet(ctx, conn)
	if err != nil {
		return err
	}
	return s.run(ctx, up)
}

// Online implements [bridge.Placer].
func (l *Link) Online(ctx context.Context, b federation.Binding) bool {
	s := l.live.Load()
	if s == nil {
		return false
	}
	who, err := l.party(ctx, b.DID, b.Name)
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "accounts not looked up", slog.String("did", string(b.DID)), slog.Any("err", err))
		return false
	}
	online := false
	s.Post(ctx, func() { online = s.net.find(who.did, who.accounts, who.nick) != "" })
	return online
}

// Package inspircd links this gateway to an InspIRCd network as a server, in InspIRCd's spanning
// tree protocol.
//
// It uses version 1205 of the protocol, for InspIRCd 3, or 1206, for InspIRCd 4: the newest version
// that the peer supports. The gateway dials or is dialled, with or without TLS. It is not a
// services package. As a leaf, it forwards nothing.
//
// No server enforces channel modes and bans on another server's users, so this package enforces
// them on the users of the gateway. A step of a user that may not speak is refused. A user that
// returns from a split keeps its membership, as on any server. These extended bans count: mute,
// unauthed, realname, server and account. The users obey SVSNICK, SVSJOIN, SVSPART, SANICK, SAJOIN
// and SAPART.
//
// The gateway's own user joins the configured channels, because a server without a user in a
// channel receives nothing from it. Each federated DID gets its own user, a pseudo-client, on first
// use. Steps are sent in both directions as TAGMSG with the signed tags of either dialect. In a
// channel, each is accompanied by one readable NOTICE. A server link has no acknowledgement. A step
// counts as delivered at the PONG of a later PING, because the peer answers in order.
//
// Replies are sent to the user that last signed as the DID, or else to the current user of the same
// nick. They wait while neither is online.
//
// # Accounts
//
// Text from a user to the gateway's user is a command. The gateway signs its step if the operator's
// binding of the user's account vouches for it. If an account is bound to a DID, its user acts only
// as that DID, and is found by the DID regardless of its nick.
//
// # Concurrency
//
// One goroutine, the one in [Link.Run], owns all state of a link. A reader and a writer carry lines
// between it and the connection. Inbound steps are judged sequentially for one user, and
// concurrently across users. While the gateway cannot accept them, the link stops reading, which
// slows the peer down. [Link.Deliver] and [Link.Online] may be called concurrently. A listening
// link has one more goroutine, which accepts, and one for each connection that has not
// authenticated yet.
//
// # Buffers of the peer
//
// An idle InspIRCd reads one netbuffersize per second, 10 KiB by default. Steps are small, so only
// a long backlog is affected; <performance netbuffersize="65534"> removes the limit.
//
// spec: InspIRCd spanning tree 1205, as in 3.15, and 1206, as in 4.11; ircv3 message-tags
package inspircd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const network = "spanningtree"

// A reachable server answers in one round trip, and the supervisor dials again.
const dialTimeout = 10 * time.Second

// Beyond this number of recorded deliveries, a party may receive an old step twice.
const maxHad = 4096

// Deps contains the dependencies of a link.
type Deps struct {
	bridge.Ports

	Record *registry.Record
}

// Link is one configured InspIRCd server. [Open] creates it.
type Link struct {
	bridge.Hearing
	bridge.DisconnectSignal

	cfg       Config
	ports     bridge.Ports
	log       *slog.Logger
	passwords passwords
	tls       *tls.Config // nil without TLS
	dial      func(ctx context.Context) (net.Conn, error)
	listener  *net.TCPListener // may be nil; owned by the goroutine in Run
	chatops   irc.ChatOps
	replies   irc.Replies
	channels  irc.Channels
	relayed   []string
	roster    *roster    // owned by the goroutine in Run
	had       irc.Recent // steps with the parties that received them; owned by the goroutine in Run

	presenceEvery time.Duration

	// live is the session that accepts rows, or nil. Deliver and Online see no other state, and
	// reach the session through its channels.
	live atomic.Pointer[session]
}

var (
	_ bridge.ChannelLink        = (*Link)(nil)
	_ bridge.Hearer             = (*Link)(nil)
	_ bridge.DisconnectNotifier = (*Link)(nil)
	_ bridge.Describer          = (*Link)(nil)
)

// Open checks the configuration, reads the two passwords, and returns the link. It neither dials nor
// listens. Its error joins one [*bridge.KeyError] for each mistake.
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
		DisconnectSignal: bridge.NewDisconnectSignal(),
		cfg:              cfg,
		ports:            p,
		chatops:          irc.ChatOps{Ports: p, Log: log, Record: deps.Record, Guesses: credential.NewGuesses()},
		replies:          irc.Replies{Metrics: p.Metrics, Log: log, Network: network},
		log:              log,
		passwords:        secrets,
		tls:              secure,
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

// Channels implements [bridge.ChannelLink].
func (l *Link) Channels() []string { return l.channels.Here() }

// Dialect implements [bridge.ChannelLink].
func (l *Link) Dialect() federation.Dialect { return l.cfg.Dialect }

// Carries implements [bridge.Link] for handoffs in this link's channels, and private handoffs written
// here. It includes steps from this network: such a step may need its readable line, and carries the
// home's receipt. Once it is settled, its local readers have received it.
func (l *Link) Carries(ctx context.Context, _ federation.Event, after federation.View) (bool, error) {
	return l.writes(ctx, after)
}

func (l *Link) writes(ctx context.Context, v federation.View) (bool, error) {
	return l.channels.Writes(ctx, l.ports, l.cfg.Name, v)
}

func (l *Link) dials() bool { return l.cfg.Listen == "" }

// Run implements [bridge.Link]. Steps read before the connection broke are still submitted before
// Run returns, for at most five seconds. [bridge.DisconnectNotifier] reports the loss before that.
//
// A listening link keeps its port from the first Run until ctx ends or [Link.Close]. A server that
// returns in the meantime waits in the system's queue and is not rejected.
func (l *Link) Run(ctx context.Context, up func()) error {
	if !l.dials() {
		return l.runListening(ctx, up)
	}
	conn, err := l.dial(ctx)
	if err != nil {
		return fmt.Errorf("dial %s: %w", l.cfg.Address, err)
	}
	s, err := l.handshake(ctx, conn)
	if err != nil {
		return err
	}
	return s.run(ctx, up)
}

// Online implements [bridge.ChannelLink].
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

// Package spanningtree links this gateway to an InspIRCd network as one more
// server of it, in the protocol that InspIRCd calls spanning tree.
//
// It is version 1205 of the protocol, which InspIRCd 3 speaks and InspIRCd 4
// still does; the gateway dials. It is not a services package: it keeps no modes,
// bans or accounts, and forwards nothing, being a leaf. No server holds the users
// of another one to the modes and bans of a channel, so that those of the gateway
// may always speak in the channels that the configuration gives it.
//
// The gateway's own user sits in the configured channels, because a server with no
// user in a channel hears nothing from it. Each federated DID that speaks gets a
// user of its own, a pseudo-client, on first use. Steps travel both ways as
// TAGMSG with the tags that were signed; beside each stands one NOTICE for people.
// A server link has no acknowledgement, so that a step counts as delivered when
// the PONG of a PING sent after it came back: the peer answers in order.
//
// # Concurrency
//
// One goroutine, the one in [Link.Run], owns all state of a link. A reader and a
// writer carry lines between it and the connection; a third, the judge, submits
// inbound steps to the gateway one at a time, in the order they came in. While
// the gateway cannot take them the link stops reading, and the peer feels it.
// [Link.Deliver] hands rows in through a channel and may be called by many.
//
// # Buffers of the peer
//
// An idle InspIRCd reads one netbuffersize a second, which is 10 KiB unless its
// configuration says more. Steps are small, so that only a long backlog notices;
// <performance netbuffersize="65534"> ends that.
//
// spec: InspIRCd spanning tree 1205, as in 3.15; ircv3 message-tags
package spanningtree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation"
	"baton/translate/handofftag"
)

// network is the label of this network in metrics.
const network = "spanningtree"

// dialTimeout bounds one attempt to connect: a server that is there answers in
// one round trip, and the supervisor dials again.
const dialTimeout = 10 * time.Second

// Link is one configured InspIRCd server. Make one with [Open].
type Link struct {
	cfg       Config
	ports     bridge.Ports
	log       *slog.Logger
	passwords passwords
	dial      func(ctx context.Context) (net.Conn, error)
	roster    *roster // owned by the goroutine in Run

	// live is the session that takes rows: nil unless both bursts are over. It is
	// all that Deliver sees of the state, and leads it to the session's channels.
	live atomic.Pointer[session]
}

var _ bridge.Link = (*Link)(nil)

// Open checks the configuration, reads the two passwords, and returns the link.
// It dials nothing. Its error joins one [*bridge.KeyError] for each mistake.
func Open(cfg Config, p bridge.Ports) (*Link, error) {
	secrets, err := readPasswords(cfg, p.Secret)
	if err := errors.Join(cfg.check(), err); err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return &Link{
		cfg:       cfg,
		ports:     p,
		log:       p.Log.With(slog.String("network", network), slog.String("link", cfg.Name)),
		passwords: secrets,
		dial: func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", cfg.Address)
		},
		roster: newRoster(cfg, p.Home),
	}, nil
}

// Name implements [bridge.Link].
func (l *Link) Name() string { return l.cfg.Name }

// Network implements [bridge.Link].
func (l *Link) Network() string { return network }

// Carries implements [bridge.Link]: the steps of this link's channels. One that
// came from here is owed its line for people and nothing else.
func (l *Link) Carries(_ context.Context, ev federation.Event, _ federation.View) (bool, error) {
	return l.lists(ev.Venue) && (ev.Arrival.Link != l.cfg.Name || l.cfg.Summaries), nil
}

// lists tells whether a venue is a channel of this link.
func (l *Link) lists(venue string) bool {
	return slices.ContainsFunc(l.cfg.Channels, func(name string) bool {
		v, _ := handofftag.Venue(name)
		return v == venue
	})
}

// Run implements [bridge.Link]. Steps that were read before the connection broke
// are still submitted before it returns.
func (l *Link) Run(ctx context.Context, up func()) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return fmt.Errorf("dial %s: %w", l.cfg.Address, err)
	}
	return newSession(l, irc.QuickAck(conn), up).run(ctx)
}

// Package freeq links this gateway to a freeq server as another server of its mesh. The protocol
// freeq/s2s/1 sends JSON lines over any byte stream, each in an envelope signed with the sender's
// endpoint key.
//
// The gateway is a leaf. It keeps no channels, topics, bans, accounts or channel text, and forwards
// no message of another server. Each federated DID gets its own user there on first use. The
// server's users must address it by its DID, which is in WHOIS and in the lines of its steps.
//
// Steps travel both ways as TAGMSG with the signed tags. The network supports only the act dialect,
// so any other step is rendered as text. In a channel, each step has one readable PRIVMSG. A server
// link has no acknowledgement. A step counts as delivered once the peer answers a later request,
// because it answers in order.
//
// Text from a logged-in user to the gateway's own user is a command. The gateway signs its step if
// the operator's binding of the user vouches for it. No server accepts such a step from the
// gateway, so the link shows later steps of that handoff as lines of text.
//
// # Two homes
//
// A server is the home of its users' offers, and this gateway is the home of the offers that it
// introduces there. These include handoffs of other gateways. No server here trusts those gateways,
// so this gateway first files their ruling and then signs its own. As the home, the link sends the
// gateway's receipt after each step that changed the state. For remote handoffs, it sends each
// waiting step as TAGMSG and then as act_route, at growing intervals. It stops at the receipt, or
// once the home is known to have refused: a home does not report refusals.
//
// If a step from there is delayed, undeliverable, or refused later, the gateway's own user notifies
// the signer in a private line. The line waits until the signer is logged in. An immediate refusal
// is not shown, as between servers.
//
// # Two connections
//
// If both ends dial each other, the connection of the end with the smaller endpoint ID is kept, as
// between servers, even if the other connection was established first.
//
// # Concurrency
//
// One goroutine, the one in [Link.Run], owns all state of a link. A reader opens envelopes and a
// writer writes lines for it. Inbound steps are judged sequentially within a handoff, and
// concurrently across handoffs. The reader never waits for a step, because a server stops sending
// to all its peers if one of them does not read. Catch-up later fetches the steps that found no
// free goroutine. [Link.Deliver] and [Link.Online] may be called concurrently.
//
// spec: freeq-s2s, as in freeq-server of 2026-08
package freeq

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

const network = "freeq"

// Link is one configured freeq server. [Open] creates it. The goroutine in Run owns reach, roster,
// readUntil, filed and trips.
type Link struct {
	bridge.Hearing
	bridge.DisconnectSignal

	cfg       Config
	deps      Deps
	log       *slog.Logger
	id        string
	peer      ed25519.PublicKey
	reach     *reach
	chatops   irc.ChatOps
	channels  irc.Channels
	relayed   []string // venues with text exchanged with other links
	roster    *irc.Roster[*irc.PseudoClient]
	readUntil time.Time // the server's log was read up to this time
	filed     filed
	trips     roundTrips
	peers     *peers

	presenceEvery time.Duration

	// live is the session that accepts rows, or nil. Deliver and Online see no other state, and
	// reach the session through its channels.
	live atomic.Pointer[session]
}

var (
	_ bridge.ChannelLink        = (*Link)(nil)
	_ bridge.ReconnectNotifier  = (*Link)(nil)
	_ bridge.DisconnectNotifier = (*Link)(nil)
)

// Open checks the configuration and returns the link. It neither dials nor listens. Its error joins
// one [*bridge.KeyError] for each mistake.
func Open(cfg Config, d Deps) (*Link, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	peer, err := parseEndpointID(cfg.EndpointID)
	if err != nil {
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
	if len(d.Endpoint.Public) > 0 && peer.Equal(d.Endpoint.Public) {
		return nil, &bridge.KeyError{Key: "endpoint_id", Why: "is the id of this gateway; want the id of the other server"}
	}
	return &Link{
		DisconnectSignal: bridge.NewDisconnectSignal(),
		cfg:              cfg, deps: d, id: identity.EndpointID(d.Endpoint.Public), peer: peer,
		log:      linkLog(cfg, d),
		reach:    newReach(cfg, d),
		relayed:  relayed,
		chatops:  irc.ChatOps{Ports: d.Ports, Log: linkLog(cfg, d), Record: d.Record, Guesses: credential.NewGuesses()},
		channels: channels,
		roster:   newRoster(channels.There()), peers: newPeers(), presenceEvery: irc.PresenceEvery,
	}, nil
}

func linkLog(cfg Config, d Deps) *slog.Logger {
	return d.Log.With(slog.String("network", network), slog.String("link", cfg.Name))
}

// Name implements [bridge.Link].
func (l *Link) Name() string { return l.cfg.Name }

// Network implements [bridge.Link].
func (l *Link) Network() string { return network }

// Home implements [bridge.Homed]: the server is the home.
func (l *Link) Home() federation.HomeID { return federation.HomeID(l.cfg.ServerName) }

// KeyServer implements [bridge.KeyServer].
func (l *Link) KeyServer() string { return l.cfg.PeerAPI }

// Channels implements [bridge.ChannelLink].
func (l *Link) Channels() []string { return l.channels.Here() }

// Dialect implements [bridge.ChannelLink].
func (l *Link) Dialect() federation.Dialect { return federation.ActTags }

// Endpoint returns the endpoint ID of the server.
func (l *Link) Endpoint() string { return l.cfg.EndpointID }

// Carries implements [bridge.Link] for handoffs in this link's channels, private handoffs written
// here, and handoffs of the server. The server has some of these steps from another server, and their
// delivery writes nothing.
func (l *Link) Carries(ctx context.Context, _ federation.Event, after federation.View) (bool, error) {
	return l.writes(ctx, after)
}

func (l *Link) writes(ctx context.Context, v federation.View) (bool, error) {
	if v.Home == l.Home() {
		return true, nil
	}
	if v.Home != l.deps.Home && !v.Numbered && l.endpoint(v.Home) == "" {
		return false, nil
	}
	written, err := l.channels.Writes(ctx, l.deps.Ports, l.cfg.Name, v)
	if err != nil || written || !federation.Private(v.Venue) {
		return written, err
	}
	return slices.ContainsFunc(v.Others(""), func(did federation.DID) bool { return l.Online(ctx, federation.Binding{DID: did}) }), nil
}

// introduces reports whether the server received a handoff from this gateway, and regards the
// gateway as its home.
func (l *Link) introduces(v federation.View) bool {
	switch {
	case v.Home == l.deps.Home || v.Numbered:
		return v.Home != l.Home()
	case v.Home == l.Home():
		return false
	}
	endpoint := l.endpoint(v.Home)
	if of, known := l.peers.of(v.ID); known {
		return of.origin != endpoint
	}
	return endpoint != "" // not in the log, so only this gateway can have sent it
}

// endpoint returns "" unless the home is another freeq server linked to this gateway.
func (l *Link) endpoint(home federation.HomeID) string {
	if home == "" || home == l.Home() || home == l.deps.Home {
		return ""
	}
	return l.deps.Rulings.Endpoint(home)
}

// Run implements [bridge.Link]. Steps read before the connection broke are still submitted before
// Run returns, for at most five seconds. [bridge.DisconnectNotifier] reports the loss before that.
// If the configuration lets the peer dial, it may do so between two calls.
func (l *Link) Run(ctx context.Context, up func()) error {
	conn, err := l.reach.waitForConn(ctx)
	if err == nil {
		err = newSession(l, conn).run(ctx, up)
	}
	if ctx.Err() != nil {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Reconnected implements [bridge.ReconnectNotifier]: the peer has dialled.
func (l *Link) Reconnected() <-chan struct{} { return l.reach.back }

// Close releases the port and the connection attempts kept between two sessions. Call it after the
// last Run.
func (l *Link) Close() error { return l.reach.Close() }

// Online implements [bridge.ChannelLink]: a user is logged in as the DID.
func (l *Link) Online(ctx context.Context, b federation.Binding) (online bool) {
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() { online = s.theirs.online(b.DID) })
	}
	return online
}

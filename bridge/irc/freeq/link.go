// Package freeq links this gateway to a freeq server as another server of its mesh. The protocol
// freeq/s2s/1 has JSON lines over any stream of bytes, each in an envelope signed by the sender's
// endpoint key.
//
// The gateway is a leaf. It keeps no channels, topics, bans or accounts, stores no channel text,
// forwards no message of another server, and ignores every message irrelevant to handoffs. Each
// federated DID gets its own user there on first use. The server's users must address it by its
// DID, which they can copy from WHOIS and from the lines of its steps.
//
// Steps travel both ways as TAGMSG with the signed tags. The network supports only the act
// dialect, so any other step is rendered as text. In a channel, each step has one readable
// PRIVMSG. A server link has no acknowledgement: a step counts as delivered once the peer answers
// a later request, because it answers in order.
//
// A text from a logged-in user to the gateway's own user is a command. The gateway signs its step if the
// operator's binding of the user vouches for it. No server accepts such a step from the gateway, so the
// link shows later steps of that handoff as lines of text. A private text to another user of this
// gateway is a message for that participant. All other chat is ignored.
//
// # Two homes
//
// A server is the home of its users' offers, and this gateway of the offers it introduces there.
// These include handoffs of other gateways. No server here trusts those gateways, so this gateway
// first files their ruling and then signs its own. As the home, the link sends the receipt of the
// gateway after each step that changed the state. For remote handoffs, it reads the steps waiting
// for the home's receipt from the record. It sends each as TAGMSG and then as act_route, at
// growing intervals, until the receipt arrives or the home is known to have refused: a home does
// not report refusals.
//
// If a step from there is delayed, undeliverable, or refused later, the gateway's own user notifies
// the signer in a private line: servers relay no NOTICE and have no message for any of these. The
// line waits until the signer is logged in. An immediate refusal is not shown, as among servers.
//
// # Two connections
//
// A link may dial and be dialled. If both ends dial each other, the connection of the end with the
// smaller endpoint ID is kept, as among servers, even if the other connection was established
// first.
//
// # Concurrency
//
// One goroutine, the one in [Link.Run], owns all state of a link. A reader opens envelopes and a
// writer writes lines for it. Judges submit inbound steps to the gateway: the steps of one handoff
// in order, and different handoffs concurrently. The reader never waits for a judge: a server stops
// sending to all its peers when one of them does not read. Catch-up later fetches the steps that
// found no free judge. [Link.Deliver] and [Link.Online] reach the owner through channels and may be
// called concurrently.
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
)

// network is the label of this network in metrics.
const network = "freeq"

// Link is one configured freeq server. Make one with [Open].
type Link struct {
	bridge.Hearing
	bridge.DisconnectSignal

	cfg      Config
	deps     Deps
	log      *slog.Logger
	id       string            // our endpoint id
	peer     ed25519.PublicKey // theirs
	reach    *reach            // owned by the goroutine in Run
	chatops  irc.ChatOps
	channels irc.Channels
	relayed  []string                       // venues of this federation whose text is exchanged with other links
	roster   *irc.Roster[*irc.PseudoClient] // owned by the goroutine in Run
	heard    time.Time                      // the server's log was read up to then; owned by the goroutine in Run
	filed    filed                          // owned by the goroutine in Run
	trips    roundTrips                     // owned by the goroutine in Run
	peers    *peers

	presenceEvery time.Duration

	// live is the session that takes rows; nil until both sides have exchanged greetings and state. It
	// is all that Deliver and Online see of the state, and leads them to the session's channels.
	live atomic.Pointer[session]
}

var (
	_ bridge.ChannelLink        = (*Link)(nil)
	_ bridge.ReconnectNotifier  = (*Link)(nil)
	_ bridge.DisconnectNotifier = (*Link)(nil)
)

// Open checks the configuration and returns the link. It neither dials nor listens. Its error
// joins one [*bridge.KeyError] for each mistake.
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
		return nil, &bridge.KeyError{Key: "endpoint_id", Why: "is this gateway's own; want theirs"}
	}
	return &Link{
		DisconnectSignal: bridge.NewDisconnectSignal(),
		cfg:              cfg, deps: d, id: EndpointID(d.Endpoint.Public), peer: peer,
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

// Home implements [bridge.Homed]: the server at the other end.
func (l *Link) Home() federation.HomeID { return federation.HomeID(l.cfg.ServerName) }

// KeyServer implements [bridge.KeyServer].
func (l *Link) KeyServer() string { return l.cfg.PeerAPI }

// Channels implements [bridge.ChannelLink].
func (l *Link) Channels() []string { return l.channels.Here() }

// Dialect implements [bridge.ChannelLink].
func (l *Link) Dialect() federation.Dialect { return federation.ActTags }

// Endpoint returns the endpoint id of the server.
func (l *Link) Endpoint() string { return l.cfg.EndpointID }

// Carries implements [bridge.Link]: the steps of handoffs in this link's channels, of private
// handoffs written here, and of handoffs whose home is the server. The server has some of them from
// another server: their delivery writes nothing.
func (l *Link) Carries(ctx context.Context, _ federation.Event, after federation.View) (bool, error) {
	return l.writes(ctx, after)
}

func (l *Link) writes(ctx context.Context, v federation.View) (bool, error) {
	if v.Home == l.Home() {
		return true, nil
	}
	if v.Home != l.deps.Home && !v.Numbered && l.endpoint(v.Home) == "" {
		return false, nil // its home accepts nothing from this gateway
	}
	written, err := l.channels.Writes(ctx, l.deps.Ports, l.cfg.Name, v)
	if err != nil || written || !federation.Private(v.Venue) {
		return written, err
	}
	return slices.ContainsFunc(v.Others(""), func(did federation.DID) bool { return l.Online(ctx, federation.Binding{DID: did}) }), nil
}

// introduces reports whether the server received a handoff from this gateway and regards the
// gateway as its home. It is the home, or the link to another home that rules on each step. Such
// rulings are on disk here before anything of them is written.
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
	return endpoint != "" // not in the log: only this gateway can have sent it
}

// endpoint returns the endpoint id of another freeq server linked to this gateway, "" for other
// homes.
func (l *Link) endpoint(home federation.HomeID) string {
	if home == "" || home == l.Home() || home == l.deps.Home {
		return ""
	}
	return l.deps.Rulings.Endpoint(home)
}

// Run implements [bridge.Link]. Steps read before the connection broke are still submitted before
// it returns, for at most five seconds; [bridge.DisconnectNotifier] reports the loss before that.
// If the configuration lets the peer dial, it may do so between two calls.
func (l *Link) Run(ctx context.Context, up func()) error {
	conn, err := l.reach.meet(ctx)
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

// Close releases the port and the connection attempts held between two sessions. Call it after the
// last Run, which already did so if it ended with its context.
func (l *Link) Close() error { return l.reach.Close() }

// Online implements [bridge.ChannelLink]: a user is logged in as the DID.
func (l *Link) Online(ctx context.Context, b federation.Binding) (online bool) {
	if s := l.live.Load(); s != nil {
		s.Post(ctx, func() { online = s.theirs.online(b.DID) })
	}
	return online
}

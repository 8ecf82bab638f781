// Package client is a server for IRC clients: people with any client, and agents that speak
// IRC. It is the home server of the handoff RFC: a client that is logged in as a DID takes
// steps as that DID, and receives the steps that arrived during its absence.
//
// Clients register as on any server, over TCP, TLS or WebSocket. The channels of the
// configuration are permanent, have no operators and the modes +nt, and carry the same steps
// as the channels of links that list them: a step in one is written to all others, with a
// line for people. Text in the channels of relay_chat is exchanged with the links that list
// them, in the order in which it was said; other text stays on this server. Private text to the nick of a participant of another network reaches that participant. The first client
// that joins any other channel creates it and is its operator; an operator with a DID is
// operator again when the DID returns. A ban may name a DID. Channels and their modes end
// with the gateway.
//
// Text is UTF-8. Nicks and channels are compared as CASEMAPPING=ascii says, and a channel
// has no capital letters outside of ASCII, on which venues would disagree.
//
// # Concurrency
//
// One goroutine, that of [Link.Run], owns all state. Each client has a reader, which hands
// over one line at a time and waits until the owner has processed it; a writer runs only
// while lines are pending. Work that blocks, such as judging a step, runs in the reader of
// its client, so that only the next lines of that client wait. [Link.Deliver] and
// [Link.Online] may be called concurrently.
//
// # Bounds
//
// All connections, unregistered connections and the connections of one address are bounded.
// At a bound the server closes the oldest unregistered connection of the address that has
// the most. The attempts of an address to log in are counted over all listeners.
// Registration and silence have timeouts. A line has 4,096 bytes of tags and 512 of message.
// A client that sends more than a few lines a second is read more slowly, and one that sends
// more than limits.user_events_per_minute is refused. The queue of send_queue_bytes bounds the pending
// output of a client; a slower client is dropped.
//
// spec: rfc1459; rfc2812; ircv3 capability-negotiation, message-tags, server-time,
// batch, account-notify, account-tag, extended-join, away-notify, multi-prefix,
// echo-message, labeled-response, standard-replies, setname, monitor, utf8-only, whox, websocket,
// chathistory (draft).
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"sync/atomic"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/irc"
	"baton/federation"
	"baton/federation/store/registry"
)

// network is the label of this network in metrics.
const network = "client"

// protocol is what a client may say in the TLS handshake that it speaks. One that says
// something else, as a browser that was led here, is turned away; one may say nothing.
//
// spec: RFC 7301; its registry
const protocol = "irc"

// Link is the listener with its connected clients. Make one with [Open].
type Link struct {
	bridge.Hearing

	cfg      Config
	lowered  bool // max_clients of the configuration is above what the process may open
	deps     Deps
	ports    bridge.Ports // the ports of deps
	log      *slog.Logger
	tls      *tls.Config // nil = none
	channels []string    // as venues
	relayed  []string    // venues whose text is exchanged with links
	chatops  irc.ChatOps
	replies  irc.Replies

	// live is the server that takes rows, nil while none runs. It is all that Deliver
	// and Online see of the state.
	live atomic.Pointer[server]
}

var (
	_ bridge.Replayer  = (*Link)(nil)
	_ bridge.Hearer    = (*Link)(nil)
	_ bridge.Describer = (*Link)(nil)
)

// Open checks the configuration and returns the link, which does not listen yet. Its error
// joins one [*bridge.KeyError] for each mistake.
func Open(cfg Config, deps Deps) (*Link, error) {
	cert := deps.Certificate
	if err := cfg.check(cert != nil, deps.HTTP.Listen != ""); err != nil {
		return nil, err
	}
	lowered := deps.MaxClients > 0 && cfg.MaxClients > deps.MaxClients
	if lowered {
		cfg.MaxClients = deps.MaxClients
	}
	l := &Link{lowered: lowered, cfg: cfg, deps: deps, ports: deps.Ports, log: deps.Log.With(slog.String("network", network), slog.String("link", network))}
	l.replies = irc.Replies{Metrics: deps.Metrics, Log: l.log, Network: network}
	l.chatops = irc.ChatOps{Ports: deps.Ports, Log: l.log, Record: deps.Record}
	if cert != nil {
		l.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequestClientCert, NextProtos: []string{protocol}}
	}
	l.channels = venues(cfg.Channels)
	var err error
	l.relayed, err = irc.Relayed(cfg.RelayChat, l.channels)
	return l, err
}

// Name implements [bridge.Link]. There is one listener, and this is its name.
func (l *Link) Name() string { return network }

// Network implements [bridge.Link].
func (l *Link) Network() string { return network }

// Channels implements [bridge.Placer].
func (l *Link) Channels() []string { return l.channels }

// Dialect implements [bridge.Placer].
func (l *Link) Dialect() federation.Dialect { return l.cfg.Dialect }

// Carries implements [bridge.Link]: it carries the steps of handoffs in this server's
// channels. Private steps are in the inboxes of their parties, and reach them from there: an
// unacknowledged step is not delivered.
func (l *Link) Carries(_ context.Context, _ federation.Event, after federation.View) (bool, error) {
	return l.writes(after), nil
}

// writes tells whether the steps of a handoff are written in a channel here.
func (l *Link) writes(v federation.View) bool {
	if federation.Private(v.Venue) {
		return false
	}
	if v.Link != "" {
		return v.Link == l.Name()
	}
	return slices.Contains(l.channels, v.Venue)
}

// Run implements [bridge.Link]: it listens, and serves until ctx ends or a port is
// lost.
func (l *Link) Run(ctx context.Context, up func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.lowered {
		l.log.LogAttrs(ctx, slog.LevelInfo, "max_clients is lowered: raise the limit of open files", slog.Int("max_clients", l.cfg.MaxClients))
	}
	ports, err := l.listen(ctx)
	if err != nil {
		return err
	}
	s := newServer(l, ports)
	s.running.Caught, s.writers.Caught = cancel, cancel
	for _, p := range ports {
		s.running.Go(func() {
			if err := s.accept(ctx, p); err != nil {
				cancel(err)
			}
		})
	}
	l.live.Store(s)
	up()
	err = s.run(ctx)
	l.live.Store(nil)
	return cmp.Or(err, context.Cause(ctx))
}

// Replays implements [bridge.Replayer].
func (l *Link) Replays() {}

// Describe implements [bridge.Describer].
func (l *Link) Describe() bridge.Description {
	d := bridge.Description{Channels: l.channels, NotCarried: []string{
		"what people say in channels that relay_chat does not list: it stays on this server",
	}}
	if s := l.live.Load(); s != nil {
		d.Negotiated = map[string]string{"casemapping": "ascii"}
		if l.cfg.WebSocket {
			d.Negotiated["websocket"] = l.ports.PublicURL + Path
		}
		for _, p := range s.ports {
			d.Negotiated[p.key()] = p.Addr().String()
		}
	}
	return d
}

// Deps has the parts of the program that a listener needs.
type Deps struct {
	bridge.Ports

	Record *registry.Record
	// Logins counts the attempts of each address to log in, at all listeners.
	Logins credential.Addresses
	// MaxClients lowers max_clients, where this process may not open as many files; 0 does not.
	MaxClients int
}

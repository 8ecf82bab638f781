// Package client is a server for IRC clients: people with any client, and agents that use IRC. It
// is the home server of the handoff RFC: a client logged in as a DID sends steps as that DID, and
// receives the steps that arrived while it was offline.
//
// Clients register as on any server, over TCP, TLS or WebSocket. The channels of the configuration
// are permanent, and have no operators and the modes +nt. They share steps with the channels of
// links that list them. Text in the channels of relay_chat is exchanged with the links that list
// them, in order; other text stays on this server. Authors from other networks are members of those
// channels, and reachable by private messages to their nicks. The first client to join any other
// channel becomes its operator. An operator with a DID is operator again when the DID returns. A
// ban may name a DID. Channels and their modes end with the gateway.
//
// The record stores text for a limited time, and clients read it with CHATHISTORY, together with
// the steps. Message times in a channel increase, so a client that continues from a message misses
// none.
//
// Text is UTF-8. Nicks and channels are compared with CASEMAPPING=ascii. A channel name has no
// capital letters outside ASCII, because clients and venues would compare them differently.
//
// # Concurrency
//
// One goroutine, that of [Link.Run], owns all state. Each client has a reader, which passes one
// line at a time to the owner and waits until it is processed. Work that blocks, such as judging a
// step, runs in the reader of its client, so that it delays only that client. [Link.Deliver] and
// [Link.Online] may be called concurrently.
//
// # Bounds
//
// Total connections, unregistered connections and connections per address are bounded. At a limit,
// the server closes the oldest unregistered connection of the address with the most of them.
// Registration and silence have timeouts. A line has 4,096 bytes of tags and 512 of message. A
// client that sends more than a few lines per second is read more slowly. Steps and lines beyond
// limits.user_events_per_minute are refused. The limit send_queue_bytes bounds the pending output
// of a client; a slower client is dropped.
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
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const network = "client"

// A client that offers another ALPN protocol, such as a misled browser, is rejected. A client may
// offer none.
//
// spec: RFC 7301; its registry
const protocol = "irc"

// Link is the listener with its connected clients. [Open] creates it.
type Link struct {
	bridge.Hearing

	cfg      Config
	lowered  bool
	deps     Deps
	ports    bridge.Ports
	log      *slog.Logger
	tls      *tls.Config // may be nil
	channels []string    // as venues
	relayed  []string    // venues with text exchanged with links
	chatops  irc.ChatOps
	replies  irc.Replies

	presenceEvery time.Duration

	// live is the server that accepts rows, or nil. Deliver and Online use no other state.
	live atomic.Pointer[server]
}

var (
	_ bridge.Replayer  = (*Link)(nil)
	_ bridge.Hearer    = (*Link)(nil)
	_ bridge.Describer = (*Link)(nil)
)

// Open checks the configuration and returns the link, without listening. Its error joins one
// [*bridge.KeyError] for each mistake.
func Open(cfg Config, deps Deps) (*Link, error) {
	cert := deps.Certificate
	if err := cfg.check(cert != nil, deps.HTTP.Listen != ""); err != nil {
		return nil, err
	}
	lowered := deps.MaxClients > 0 && cfg.MaxClients > deps.MaxClients
	if lowered {
		cfg.MaxClients = deps.MaxClients
	}
	l := &Link{presenceEvery: irc.PresenceEvery, lowered: lowered, cfg: cfg, deps: deps, ports: deps.Ports, log: deps.Log.With(slog.String("network", network), slog.String("link", network))}
	l.replies = irc.Replies{Metrics: deps.Metrics, Log: l.log, Network: network}
	l.chatops = irc.ChatOps{Ports: deps.Ports, Log: l.log, Record: deps.Record, Guesses: credential.NewGuesses()}
	if cert != nil {
		l.tls = cert.Config(protocol)
		l.tls.ClientAuth = tls.RequestClientCert
	}
	l.channels = venues(cfg.Channels)
	var err error
	l.relayed, err = irc.Relayed(cfg.RelayChat, l.channels)
	return l, err
}

// Name implements [bridge.Link]. There is only one listener.
func (l *Link) Name() string { return network }

// Network implements [bridge.Link].
func (l *Link) Network() string { return network }

// Channels implements [bridge.ChannelLink].
func (l *Link) Channels() []string { return l.channels }

// Dialect implements [bridge.ChannelLink].
func (l *Link) Dialect() federation.Dialect { return l.cfg.Dialect }

// Carries implements [bridge.Link] for the steps of handoffs in this server's channels. Private steps
// reach their parties from the inboxes, because an unacknowledged step is not delivered.
func (l *Link) Carries(_ context.Context, _ federation.Event, after federation.View) (bool, error) {
	return l.writes(after), nil
}

func (l *Link) writes(v federation.View) bool {
	if federation.Private(v.Venue) {
		return false
	}
	if v.Link != "" {
		return v.Link == l.Name()
	}
	return slices.Contains(l.channels, v.Venue)
}

// Run implements [bridge.Link]. It serves until ctx ends or a port is lost.
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
	if err := s.loadStamps(ctx); err != nil {
		for _, p := range ports {
			err = errors.Join(err, p.Close())
		}
		return err
	}
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
		"messages in channels that relay_chat does not list: they stay on this server",
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

// Deps contains the dependencies of a listener.
type Deps struct {
	bridge.Ports

	Record   *registry.Record
	TokenKey []byte
	// Logins counts login attempts by address, over all listeners.
	Logins credential.Addresses
	// Enrolments counts registered accounts by address.
	Enrolments credential.Addresses
	// Meet records a new DID, or returns an error if the limit on new DIDs is reached. It blocks on
	// the record.
	Meet func(ctx context.Context, did federation.DID, now time.Time) error
	// MaxClients caps max_clients at the process limit of open files; 0 means no cap.
	MaxClients int
}

// The rate limit of one client: a burst for its connection, then the speed of a typing person. Unread
// lines stay in the connection and are not lost.
const (
	linesPerSecond = 20
	linesBurst     = 100
)

type port struct {
	net.Listener

	secure bool
}

func (p port) key() string {
	if p.secure {
		return "tls_listen"
	}
	return "listen"
}

func (l *Link) listen(ctx context.Context) ([]port, error) {
	var lc net.ListenConfig
	var ports []port
	for _, p := range []struct {
		address string
		secure  bool
	}{{l.cfg.Listen, false}, {l.cfg.TLSListen, true}} {
		if p.address == "" {
			continue
		}
		listener, err := lc.Listen(ctx, "tcp", p.address)
		if err != nil {
			for _, taken := range ports {
				err = errors.Join(err, taken.Close())
			}
			return nil, fmt.Errorf("listen for IRC clients on %s: %w", p.address, err)
		}
		ports = append(ports, port{listener, p.secure})
	}
	return ports, nil
}

func (s *server) accept(ctx context.Context, p port) error {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	for {
		conn, err := p.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.log.LogAttrs(ctx, slog.LevelWarn, "cannot accept", slog.Any("err", err))
			select {
			case <-time.After(time.Second): // out of file descriptors, it would fail again at once
			case <-ctx.Done():
			}
			continue
		}
		s.running.Go(func() {
			err := fault.Catch(func() error { s.serve(ctx, conn, p.secure); return nil })
			if s.link.ports.Metrics.Fault(ctx, s.log, "client of link "+s.link.Name(), err) {
				_ = conn.Close()
			}
		})
	}
}

func (s *server) serve(ctx context.Context, conn net.Conn, secure bool) {
	conn, addr, from := s.link.origin(ctx, conn)
	u := newUser(addr, from)
	u.secure, u.handshaking = secure, secure
	if secure {
		conn = tls.Server(conn, s.link.tls)
	}
	u.wire = newStream(conn)
	if why := s.letIn(ctx, u); why != "" {
		s.turnAway(ctx, u, why)
		return
	}
	if err := s.secure(ctx, conn); err != nil {
		s.leave(u, err.Error())
		return
	}
	s.post(func() { u.handshaking = false })
	s.read(bridge.WithSubnet(ctx, from), u)
}

func (s *server) secure(ctx context.Context, conn net.Conn) error {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.link.cfg.RegistrationTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	return nil
}

func (s *server) read(ctx context.Context, u *user) {
	pace := rate.NewLimiter(linesPerSecond, linesBurst)
	for {
		text, err := u.wire.ReadLine()
		m, why := parse(text, err)
		if err != nil && why == "" {
			s.leave(u, "Connection closed")
			return
		}
		if !s.post(func() { s.handleLine(ctx, u, m, why) }) {
			return
		}
		if work := <-u.turn; work != nil {
			work()
		}
		if pace.Wait(ctx) != nil {
			return
		}
	}
}

func (s *server) leave(u *user, why string) {
	s.post(func() { s.quit(u, why) })
	_ = u.wire.Close()
}

func newUser(addr string, from netip.Prefix) *user {
	return &user{
		addr: addr, from: from, turn: make(chan func(), 1), seen: irc.Recent{Most: maxSeen},
		channels: map[string]*channel{}, invited: map[string]bool{}, watching: map[string]bool{},
	}
}

func hostPart(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

func loopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return err == nil && ip.IsLoopback()
}

// A trusted proxy sends its header first. Without one, the first bytes of the client end the wait.
const proxyHeaderTimeout = 3 * time.Second

// origin reads the PROXY header only from trusted proxies. If a trusted proxy sends none, the
// address for limits is the zero Prefix.
//
// spec: HAProxy PROXY protocol, versions 1 and 2
func (l *Link) origin(ctx context.Context, conn net.Conn) (net.Conn, string, netip.Prefix) {
	remote := conn.RemoteAddr().String()
	if !l.trusts(remote) {
		return conn, hostPart(remote), bridge.SubnetOf(remote)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the wait
	proxied := proxyproto.NewConn(conn, proxyproto.WithPolicy(proxyproto.USE), proxyproto.SetReadHeaderTimeout(proxyHeaderTimeout))
	client := proxied.RemoteAddr().String() // reads the header; an invalid one fails the next read
	if l.trusts(client) {
		return proxied, hostPart(client), netip.Prefix{}
	}
	return proxied, hostPart(client), bridge.SubnetOf(client)
}

func (l *Link) trusts(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(l.deps.HTTP.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

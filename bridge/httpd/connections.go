package httpd

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// Limits bound the connections and requests of clients of a listener. The functions may return
// different values while the server runs; 0 means no limit.
type Limits struct {
	// Connections limits all clients together, and PerAddress each address. PerAddress also bounds the
	// requests in progress of an address, even through proxies.
	Connections, PerAddress func() int
	// Network returns the network counted as one address.
	Network func(netip.Addr) netip.Prefix
	// Queue returns an empty queue.
	Queue func() Queue
	// Closed gets the reason for each closed or rejected connection, and Refused for each refused
	// request. They must not block.
	Closed  func(why Reason)
	Refused func()
}

// Queue orders connections for eviction: the address with the most connections first, and its oldest
// connection first.
type Queue interface {
	Add(from netip.Prefix, conn net.Conn)
	Remove(conn net.Conn)
	Has(conn net.Conn) bool
	Len() int
	Of(from netip.Prefix) int
	Next() (conn net.Conn, from netip.Prefix, ok bool)
	NextOf(from netip.Prefix) (conn net.Conn, ok bool)
}

// Reason is why a connection was closed or rejected. The set is fixed.
type Reason string

// Reasons.
const (
	AddressFull Reason = "address"
	ServerFull  Reason = "full"
)

// gate counts the connections of a listener, and closes some to make room for others. A nil gate
// has no limits.
type gate struct {
	Limits

	trusted []netip.Prefix

	mu       sync.Mutex
	all      Queue // connections of clients
	idle     Queue // without a request in flight
	proxied  int   // from trusted proxies
	requests map[netip.Prefix]int
}

func newGate(cfg Config) *gate {
	if cfg.Limits == nil {
		return nil
	}
	return &gate{
		Limits: *cfg.Limits, trusted: cfg.TrustedProxies, all: cfg.Limits.Queue(), idle: cfg.Limits.Queue(), requests: map[netip.Prefix]int{},
	}
}

type counted struct {
	net.Conn

	gate *gate
	from netip.Prefix
	once sync.Once
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	c.once.Do(func() { c.gate.leave(c) })
	return c.Conn.Close()
}

type gated struct {
	net.Listener

	gate *gate
}

// Accept implements [net.Listener]. It does not wait for room, but closes a rejected connection.
func (g gated) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := g.gate.admit(conn); admitted != nil {
			return admitted, nil
		}
	}
}

// network returns the network of an address, or the zero Prefix for a trusted proxy.
func (g *gate) network(addr netip.Addr) netip.Prefix {
	if contains(g.trusted, addr) {
		return netip.Prefix{}
	}
	return g.Network(addr)
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

// admit returns a counted connection, or closes conn and returns nil. If a limit is reached, it may
// close another connection instead.
func (g *gate) admit(conn net.Conn) net.Conn {
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // zero if invalid
	c := &counted{Conn: conn, gate: g, from: g.network(remote.Addr())}
	evicted, why, ok := g.reserve(c)
	if why != "" {
		g.Closed(why)
	}
	if evicted != nil {
		_ = evicted.Close()
	}
	if !ok {
		_ = conn.Close()
		return nil
	}
	return c
}

// reserve counts a connection, and returns the one to evict for it. If there is no room, ok is
// false.
func (g *gate) reserve(c *counted) (evicted net.Conn, why Reason, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ok = true
	if share := g.PerAddress(); share > 0 && c.from.IsValid() && g.all.Of(c.from) >= share {
		why = AddressFull
		evicted, ok = g.idle.NextOf(c.from)
	} else if most := g.Connections(); most > 0 && g.all.Len()+g.proxied >= most {
		why = ServerFull
		evicted, ok = g.heaviest(c.from)
	}
	if !ok {
		return nil, why, false
	}
	if evicted != nil {
		g.all.Remove(evicted)
		g.idle.Remove(evicted)
	}
	if !c.from.IsValid() {
		g.proxied++
		return evicted, why, true
	}
	g.all.Add(c.from, c)
	g.idle.Add(c.from, c)
	return evicted, why, true
}

// heaviest returns the connection to evict for a new one of an address: an idle connection or, if
// there is none, a connection of an address with more connections.
func (g *gate) heaviest(from netip.Prefix) (net.Conn, bool) {
	if conn, _, ok := g.idle.Next(); ok {
		return conn, true
	}
	conn, of, ok := g.all.Next()
	return conn, ok && g.all.Of(of) > g.all.Of(from)+1
}

func (g *gate) leave(c *counted) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !c.from.IsValid() {
		g.proxied--
		return
	}
	g.all.Remove(c)
	g.idle.Remove(c)
}

func (g *gate) track(conn net.Conn, state http.ConnState) {
	c := countedOf(conn)
	if g == nil || c == nil || !c.from.IsValid() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if idle := state == http.StateNew || state == http.StateIdle; idle && g.all.Has(c) {
		g.idle.Add(c.from, c)
	} else {
		g.idle.Remove(c)
	}
}

func countedOf(conn net.Conn) *counted {
	for {
		switch c := conn.(type) {
		case *counted:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// begin counts a request of a client. The caller must call end for each admitted request.
func (g *gate) begin(client string) (from netip.Prefix, ok bool) {
	if g == nil {
		return netip.Prefix{}, true
	}
	addr, _ := netip.ParseAddr(client) // zero if invalid
	from = g.network(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	if most := g.PerAddress(); most > 0 && from.IsValid() && g.requests[from] >= most {
		return from, false
	}
	g.requests[from]++
	return from, true
}

func (g *gate) end(from netip.Prefix) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.requests[from]--; g.requests[from] == 0 {
		delete(g.requests, from)
	}
}

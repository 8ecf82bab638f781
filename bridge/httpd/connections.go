package httpd

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// Limits bound the connections and requests of a listener's clients. The functions may return other
// values while the server runs; 0 means no limit.
type Limits struct {
	// Connections limits all clients together, and PerAddress each address. PerAddress also bounds
	// the requests in progress of an address, over any proxy.
	Connections, PerAddress func() int
	// Network returns the network counted as one address.
	Network func(netip.Addr) netip.Prefix
	// Queue returns an empty queue.
	Queue func() Queue
	// Closed gets the reason why a connection was closed or rejected, and Refused
	// that of each refused request. They must not block.
	Closed  func(why Reason)
	Refused func()
}

// Queue orders connections for eviction: the address with the most of them first, and of
// these the oldest.
type Queue interface {
	Add(from netip.Prefix, conn net.Conn)
	Remove(conn net.Conn)
	Has(conn net.Conn) bool
	Len() int
	Of(from netip.Prefix) int
	Next() (conn net.Conn, from netip.Prefix, ok bool)
	NextOf(from netip.Prefix) (conn net.Conn, ok bool)
}

// Reason is the reason for closing or rejecting a connection. The set is closed.
type Reason string

// The reasons.
const (
	AddressFull Reason = "address" // its address is at its limit
	ServerFull  Reason = "full"    // the listener is at its limit
)

// gate counts the connections of a listener, and closes some to make room for others. A
// nil gate has no limits.
type gate struct {
	Limits

	trusted []netip.Prefix

	mu       sync.Mutex
	all      Queue // connections of clients
	idle     Queue // connections without a request in flight
	proxied  int   // connections of trusted proxies
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

// gated is a listener whose connections a gate counts.
type gated struct {
	net.Listener

	gate *gate
}

// Accept implements [net.Listener]. It does not wait for room: a rejected connection is
// closed.
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

// network returns the network of an address, the zero Prefix for a trusted
// proxy.
func (g *gate) network(addr netip.Addr) netip.Prefix {
	if contains(g.trusted, addr) {
		return netip.Prefix{}
	}
	return g.Network(addr)
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

// admit returns a counted connection, or closes it and returns nil. If a limit
// is reached, another connection is closed in its place.
func (g *gate) admit(conn net.Conn) net.Conn {
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // the zero Addr if invalid
	c := &counted{Conn: conn, gate: g, from: g.network(remote.Addr())}
	evicted, why, ok := g.enter(c)
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

// enter counts a connection, and returns the one to evict for it. The last result is false if the
// limit is reached.
func (g *gate) enter(c *counted) (evicted net.Conn, why Reason, ok bool) {
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

// heaviest returns the connection to evict for one of an address: one without a
// request or, if there is none, one of an address with more connections.
func (g *gate) heaviest(from netip.Prefix) (net.Conn, bool) {
	if conn, _, ok := g.idle.Next(); ok {
		return conn, true
	}
	conn, of, ok := g.all.Next()
	return conn, ok && g.all.Of(of) > g.all.Of(from)+1
}

// leave undoes enter.
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

// note tracks which connections have a request. The server calls it.
func (g *gate) note(conn net.Conn, state http.ConnState) {
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

// countedOf returns the counted connection below others, nil if there is none.
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

// begin counts a request of a client, and reports whether it may continue. Each admitted request
// has one call of end.
func (g *gate) begin(client string) (from netip.Prefix, ok bool) {
	if g == nil {
		return netip.Prefix{}, true
	}
	addr, _ := netip.ParseAddr(client) // the zero Addr if invalid
	from = g.network(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	if most := g.PerAddress(); most > 0 && from.IsValid() && g.requests[from] >= most {
		return from, false
	}
	g.requests[from]++
	return from, true
}

// end undoes begin.
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

package httpd

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"
)

// lot is where connections wait whose answer was parked: for that answer, and then for the
// next request. They go on when that comes: it is a [net.Listener], from which the server
// accepts them as it does new ones from its port.
type lot struct {
	log    *slog.Logger
	gate   *gate
	ready  chan net.Conn // the next request comes
	closed chan struct{} // no connection goes on any more
	pieces sync.Pool     // of what is written at once
	turns  turns

	mu     sync.Mutex
	parked map[*parked]struct{}
	fewer  *sync.Cond // one has left
	cut    bool       // nobody is waited for any more
}

func newLot(log *slog.Logger, g *gate) *lot {
	l := &lot{
		log: log, gate: g, ready: make(chan net.Conn), closed: make(chan struct{}), parked: map[*parked]struct{}{},
		pieces: sync.Pool{New: func() any { return &bytes.Buffer{} }},
	}
	l.fewer = sync.NewCond(&l.mu)
	return l
}

// Accept implements [net.Listener].
func (l *lot) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener]. There is none.
func (*lot) Addr() net.Addr { return &net.TCPAddr{} }

// Close implements [net.Listener]. Who waits for an answer still gets it; the other
// connections are closed.
func (l *lot) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isShut() {
		return nil
	}
	close(l.closed)
	for p := range l.parked {
		if p.complete {
			_ = p.conn.Close()
		}
	}
	return nil
}

// drain returns once no connection waits. Those that still do when ctx ends are cut off.
// The lot is closed by then.
func (l *lot) drain(ctx context.Context) {
	defer context.AfterFunc(ctx, l.cutOff)()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.parked) > 0 {
		l.fewer.Wait()
	}
	l.cut = true
}

// cutOff closes all connections.
func (l *lot) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for p := range l.parked {
		_ = p.conn.Close()
	}
}

// enter has a connection wait.
func (l *lot) enter(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_ = p.conn.Close()
	}
	l.parked[p] = struct{}{}
	go p.wait()
}

// leave is the end of what enter began.
func (l *lot) leave(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.parked, p)
	l.fewer.Broadcast()
}

// settle notes that a connection has its answer. It now waits for the next request, as
// long as others do, or is closed.
func (l *lot) settle(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.complete = true
	if p.last = p.last || l.isShut(); p.last {
		_ = p.conn.Close()
		return
	}
	_ = p.conn.SetReadDeadline(time.Now().Add(idleTimeout)) // one that fails is closed
	l.gate.rest(p.conn)
}

// takePiece returns an empty buffer, to be put back.
func (l *lot) takePiece() *bytes.Buffer {
	piece, _ := l.pieces.Get().(*bytes.Buffer) // there is nothing else in it
	piece.Reset()
	return piece
}

// putPiece keeps a buffer for others, unless it is large.
func (l *lot) putPiece(piece *bytes.Buffer) {
	if piece.Cap() <= maxPieceBytes {
		l.pieces.Put(piece)
	}
}

// maxPieceBytes is room for the header of an answer and a few steps.
const maxPieceBytes = 16 << 10

func (l *lot) isShut() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// goOn has the server read the next request, whose first bytes are there.
func (l *lot) goOn(conn net.Conn, first []byte) {
	l.turns.wait()
	next := &resumed{Conn: conn, first: first}
	conn = next
	if over, ok := next.Conn.(*tls.Conn); ok {
		conn = secure{next, over}
	}
	select {
	case l.ready <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// resumed is a connection whose next bytes were read before.
type resumed struct {
	net.Conn

	first []byte
}

// Read implements [net.Conn].
func (r *resumed) Read(text []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(text)
	}
	n := copy(text, r.first)
	r.first = r.first[n:]
	return n, nil
}

// origin returns the connection below, and what was read of it and not used yet.
func (r *resumed) origin() (net.Conn, []byte) { return r.Conn, r.first }

// secure is one over TLS, which requests show.
type secure struct {
	*resumed

	over *tls.Conn
}

// ConnectionState tells the server about the TLS.
func (s secure) ConnectionState() tls.ConnectionState { return s.over.ConnectionState() }

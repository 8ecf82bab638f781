package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

// responder is what a handler writes its answer to.
type responder struct {
	*echo.Response

	on    echo.Context
	lot   *lot
	begun time.Time
	from  netip.Prefix // for which the request is counted
}

// parkedKey is where a request has that its handler leaves the answer to somebody else.
const parkedKey = "parked"

// Park lets the handler return before it has answered, so that an answer which waits for
// something takes a connection and one shallow goroutine, and not the stack of the handler,
// the request and the buffers of both directions: a few KiB instead of some thirty.
//
// The answer is then written to w, by one goroutine at a time, and complete when end is
// called, which it is once. It has a body, which is chunked unless the Content-Length is
// set. The connection is used for the next request as ever, or closed where the header
// says "Connection: close" by now.
//
// If the client leaves before the answer is complete, gone is called, once; it must not
// block. End is to be called then too. A client that has sent its next request already is
// not seen to leave before something is written to it.
//
// The error wraps [errors.ErrUnsupported] where a connection cannot wait, as that of HTTP/2
// cannot, which has other requests too. The handler then is to answer itself.
func (r *responder) Park(gone func()) (w http.ResponseWriter, end func(), err error) {
	request := r.on.Request()
	if r.Committed || !parks(request) {
		return nil, nil, fmt.Errorf("park this request: %w", errors.ErrUnsupported)
	}
	conn, buffers, err := r.Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("park: %w", err)
	}
	r.on.Set(parkedKey, true)
	next, _ := buffers.Peek(buffers.Reader.Buffered()) // as much is there
	next = slices.Clone(next)
	if before, ok := conn.(interface{ origin() (net.Conn, []byte) }); ok {
		var rest []byte
		conn, rest = before.origin()
		next = append(next, rest...)
	}
	p := &parked{
		lot: r.lot, conn: conn, ctx: context.WithoutCancel(request.Context()), access: accessOf(r.on, r.begun), from: r.from,
		gone: gone, goesOn: !request.Close && r.Header().Get("Connection") != "close", next: next,
		answered: make(chan struct{}), header: r.Header(), until: time.Now().Add(2 * writeTimeout),
	}
	_ = conn.SetWriteDeadline(p.until) // one that fails is closed
	r.lot.enter(p)
	return p, p.end, nil
}

// parks reports whether a connection can wait: it has this request alone, all of which has
// been read. Who is at the other end of a unix socket is asked of a new connection only.
func parks(r *http.Request) bool {
	_, overTCP := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return overTCP && r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.Method == http.MethodGet && r.Body == http.NoBody
}

// parked is an answer that its handler has left to somebody else, and its connection. One
// goroutine reads from that, and one at a time writes.
type parked struct {
	lot      *lot
	conn     net.Conn
	ctx      context.Context // of the request, which is over
	access   access
	from     netip.Prefix // for which the request is counted
	gone     func()
	goesOn   bool   // the client may ask again
	next     []byte // what it has asked already; the reader's
	answered chan struct{}
	complete bool // answered is closed, or about to be; guarded by the lot's mutex

	// Up to the end these are the writer's.
	header http.Header
	status int       // 0 until that is decided
	begun  bool      // the header is written
	until  time.Time // what is written is to be taken
	timed  bool      // the writer says how long that may take
	length int64     // of what is still to be written; or chunked
	last   bool      // the connection ends with this answer
	failed bool      // what was written may have arrived in part
}

// chunked is the length of an answer that shows itself where it ends.
const chunked = -1

// wait reads until there is a next request, which then is the server's, or the client
// leaves.
func (p *parked) wait() {
	defer p.lot.leave(p)
	if p.hear() != nil {
		_ = p.conn.Close() // what is written now fails
		select {
		case <-p.answered:
		default:
			p.gone()
		}
		return
	}
	if <-p.answered; !p.last {
		p.lot.goOn(p.conn, p.next)
	}
}

// hear returns nil once the client asks again, or why it never does. What comes from one
// whose connection is to be closed is dropped: it knows that nobody answers.
//
// spec: RFC 9112 §9.6
func (p *parked) hear() error {
	for len(p.next) == 0 || !p.goesOn {
		var text [1]byte
		if _, err := p.conn.Read(text[:]); err != nil {
			return err
		}
		if p.goesOn {
			p.next = append(p.next, text[0])
		}
	}
	return nil
}

// Go runs a turn in another goroutine, with which this answer goes on. Clients that have
// their answer, and ask again when this was called, are heard when it has begun and there
// was time to take what it answers.
func (p *parked) Go(turn func()) { p.lot.turns.run(turn) }

// Header implements [http.ResponseWriter].
func (p *parked) Header() http.Header {
	if p.begun {
		return http.Header{} // it is too late
	}
	return p.header
}

// WriteHeader implements [http.ResponseWriter]. The header goes out with the first byte of
// the body.
//
// spec: RFC 9112 §6
func (p *parked) WriteHeader(status int) {
	if p.status != 0 {
		return
	}
	p.status, p.length = status, chunked
	if length, err := strconv.ParseInt(p.header.Get("Content-Length"), 10, 64); err == nil {
		p.length = length
	} else {
		p.header.Set("Transfer-Encoding", "chunked")
	}
	if p.last = !p.goesOn || p.lot.isShut(); p.last {
		p.header.Set("Connection", "close")
	}
}

// Write implements [http.ResponseWriter]. Nothing is kept back.
func (p *parked) Write(text []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.length != chunked && int64(len(text)) > p.length {
		return 0, http.ErrContentLength
	}
	if len(text) == 0 {
		return 0, nil
	}
	if err := p.send(text); err != nil {
		return 0, err
	}
	return len(text), nil
}

// send writes a part of the body in one piece, after the header where that is due. An empty
// one is the end of those that are chunked.
//
// spec: RFC 9112 §7.1
func (p *parked) send(text []byte) error {
	piece := p.lot.takePiece()
	defer p.lot.putPiece(piece)
	p.begin(piece)
	if p.length == chunked {
		piece.Write(strconv.AppendInt(piece.AvailableBuffer(), int64(len(text)), 16))
		piece.WriteString("\r\n")
		piece.Write(text)
		piece.WriteString("\r\n")
	} else {
		piece.Write(text)
		p.length -= int64(len(text))
	}
	_, err := p.conn.Write(piece.Bytes())
	p.failed = p.failed || err != nil
	return err
}

// begin writes the header, unless it was before.
func (p *parked) begin(piece *bytes.Buffer) {
	if p.begun {
		return
	}
	now := time.Now()
	if !p.timed && p.until.Sub(now) < writeTimeout { // else there is time enough, and many answers may be due at once
		_ = p.conn.SetWriteDeadline(now.Add(writeTimeout))
	}
	p.header.Set("Date", now.UTC().Format(http.TimeFormat))
	fmt.Fprintf(piece, "HTTP/1.1 %d %s\r\n", p.status, http.StatusText(p.status))
	_ = p.header.Write(piece) // a buffer takes all
	piece.WriteString("\r\n")
	p.begun, p.header = true, nil
}

// FlushError does nothing, which [http.ResponseController] asks of it.
func (*parked) FlushError() error { return nil }

// SetWriteDeadline is that of [http.ResponseController].
func (p *parked) SetWriteDeadline(deadline time.Time) error {
	p.timed = true
	return p.conn.SetWriteDeadline(deadline)
}

// end completes the answer. What cannot be completed is cut off.
func (p *parked) end() {
	if p.length == chunked && !p.failed {
		_ = p.send(nil) // the client is gone
	}
	p.last = p.last || p.failed || p.status == 0 || p.length > 0
	p.lot.gate.end(p.from)
	p.lot.settle(p)
	close(p.answered)
	logAccess(p.ctx, p.lot.log, p.access, p.status)
}

package bridgetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// Cut ends the link like a broken cable that the server notices.
func (f *Freeq) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
}

// Die ends the link like a crash of the server: the peer gets no notice, and its data on the
// connection is never read.
func (f *Freeq) Die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil {
		return
	}
	f.deaf[f.conn] = true
	f.conn, f.linked, f.highWater = nil, false, 0
	for channel := range f.members {
		f.members[channel] = map[string]string{}
	}
	f.note()
}

// The lock is held.
func (f *Freeq) drop() {
	if f.conn == nil {
		return
	}
	_ = f.conn.Close()
	f.conn, f.linked, f.highWater = nil, false, 0
	for channel := range f.members {
		f.members[channel] = map[string]string{}
	}
	f.note()
}

// Listen lets the peer dial an address of this machine until ctx ends, and returns the address.
func (f *Freeq) Listen(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close(); f.Cut() })
	go func() { //nolint:contextcheck // it ends with the connection, which ends with ctx
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(conn, false)
		}
	}()
	return listener.Addr().String(), nil
}

// Dial connects to the listening peer.
func (f *Freeq) Dial(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("dial the gateway: %w", err)
	}
	go f.serve(conn, true) //nolint:contextcheck // likewise
	return nil
}

// The other end counts as the configured peer, because a stream in memory proves no identity.
func (f *Freeq) serve(conn net.Conn, dialled bool) {
	defer conn.Close()
	if !f.admit(conn, dialled) {
		return
	}
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		f.mu.Lock()
		stall := f.stall
		f.stall = 0
		f.mu.Unlock()
		time.Sleep(stall)
		f.mu.Lock()
		if f.deaf[conn] && err == nil {
			f.mu.Unlock()
			continue
		}
		if f.conn != conn { // it was cut, or replaced
			f.mu.Unlock()
			return
		}
		if err != nil {
			f.drop()
			f.mu.Unlock()
			return
		}
		f.hear(strings.TrimRight(line, "\r\n"))
		f.note()
		f.mu.Unlock()
	}
}

// Of two connections, admit keeps the one dialled by the end with the smaller ID. A real server
// silently closes the other one, and its state of the peer outlives a replaced connection.
func (f *Freeq) admit(conn net.Conn, dialled bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.note()
	if f.conn != nil {
		if dialled != (f.id < f.cfg.Peer) {
			f.duplicates++
			return false
		}
		_ = f.conn.Close()
	}
	f.conn, f.dialled, f.linked, f.spoke = conn, dialled, false, false
	f.say(map[string]any{
		"type": "hello", "peer_id": f.id, "server_name": f.cfg.Name, "protocol_version": 2, "trust_level": "full",
		"capabilities": []string{"catchup", "act", "act_route"},
	})
	f.sayState()
	return true
}

// AwaitStanding blocks until the peer has greeted on a connection dialled by the server, or by the
// peer.
func (f *Freeq) AwaitStanding(ctx context.Context, dialled bool) error {
	return f.Await(ctx, "the connection that stands", func() bool { return f.conn != nil && f.linked && f.dialled == dialled })
}

// AwaitDuplicates blocks until the server has rejected n connections.
func (f *Freeq) AwaitDuplicates(ctx context.Context, n int) error {
	return f.Await(ctx, "a connection turned away", func() bool { return f.duplicates >= n })
}

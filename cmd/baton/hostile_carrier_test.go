package main_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// carry listens for plain connections and hands each to a function until the test ends.
func carry(t *testing.T, each func(ctx context.Context, near net.Conn)) (addr string) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer near.Close()
				stop := context.AfterFunc(ctx, func() { _ = near.Close() })
				defer stop()
				each(ctx, near)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// relayBytes copies bytes between two connections, until one ends.
func relayBytes(near, far net.Conn) {
	go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
	_, _ = io.Copy(far, near)
}

// overTLS returns an address at which a plain client reaches the listener with
// TLS.
func overTLS(t *testing.T, s *stage) string {
	t.Helper()
	return carry(t, func(ctx context.Context, near net.Conn) {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it signs itself
		far, err := dialer.DialContext(ctx, "tcp", s.ircTLS)
		if err != nil {
			return
		}
		defer far.Close()
		relayBytes(near, far)
	})
}

// overWebSocket returns an address at which a plain client reaches the
// listener over WebSocket.
func overWebSocket(t *testing.T, s *stage) string {
	t.Helper()
	return carryLines(t, func(ctx context.Context) (*websocket.Conn, error) {
		conn, response, err := websocket.Dial(ctx, strings.Replace(s.url(), "http", "ws", 1)+"/irc", &websocket.DialOptions{Subprotocols: []string{"binary.ircv3.net"}})
		if response != nil && response.Body != nil {
			_ = response.Body.Close()
		}
		return conn, err
	})
}

// carryLines is [carry] to a WebSocket, with one line a message.
func carryLines(t *testing.T, dial func(ctx context.Context) (*websocket.Conn, error)) (addr string) {
	t.Helper()
	return carry(t, func(ctx context.Context, near net.Conn) {
		far, err := dial(ctx)
		if err != nil {
			return
		}
		defer func() { _ = far.CloseNow() }()
		far.SetReadLimit(1 << 20)
		go func() {
			defer near.Close()
			for {
				_, line, err := far.Read(ctx)
				if err != nil {
					return
				}
				if _, err := near.Write(append(line, "\r\n"...)); err != nil {
					return
				}
			}
		}()
		lines := bufio.NewReaderSize(near, 2<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			if err := far.Write(ctx, websocket.MessageBinary, line[:len(line)-1]); err != nil {
				return
			}
		}
	})
}

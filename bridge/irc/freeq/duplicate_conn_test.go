package freeq_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// ordered returns the name of a key of this gateway whose endpoint id is smaller than
// that of the server in these tests, or larger.
func ordered(smaller bool) string {
	for n := 0; ; n++ {
		if name := "endpoint " + strconv.Itoa(n); (hexOf(name) < hexOf("their endpoint")) == smaller {
			return name
		}
	}
}

// both lets a link dial, and be dialled at an address, with the endpoint key of a name.
func both(name, listen string) func(*freeq.Config, *freeq.Deps) {
	return func(cfg *freeq.Config, deps *freeq.Deps) {
		cfg.Listen, deps.Endpoint = listen, signer("", seeded(name))
	}
}

// eitherOrder runs a test with a gateway whose id is the smaller one, and the larger.
func eitherOrder(t *testing.T, run func(t *testing.T, h *house, smaller bool, listen string)) {
	t.Helper()
	for name, smaller := range map[string]bool{"the gateway has the smaller id": true, "the server has the smaller id": false} {
		t.Run(name, func(t *testing.T) {
			listen := federationtest.FreeAddr(t)
			h := newHouse(t, both(ordered(smaller), listen))
			h.server.SetPeer(hexOf(ordered(smaller)))
			run(t, h, smaller, listen)
		})
	}
}

// supervise keeps the link running until the test is over.
func (h *house) supervise(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_ = h.link.Run(ctx, func() {})
			select {
			case <-h.link.Reconnected():
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-over
		_ = h.link.Close()
	})
}

// insist delivers a step, however often the link breaks meanwhile.
func (h *house) insist(t *testing.T, d federation.Delivery) {
	t.Helper()
	for ctx := patient(t); ; {
		err := h.link.Deliver(ctx, d)
		if err == nil {
			return
		}
		if _, later := errors.AsType[*federation.UnavailableError](err); !later || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// connect dials the gateway as its server does, and greets.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	var d net.Dialer
	for ctx := patient(t); ; {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			_, _ = conn.Write(append(marshal(map[string]any{"type": "hello", "peer_id": hexOf("their endpoint"), "server_name": theirs}), '\n'))
			return conn
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestDuplicateConnOfTheLargerIDIsClosed(t *testing.T) {
	eitherOrder(t, func(t *testing.T, h *house, smaller bool, listen string) {
		t.Helper()
		h.supervise(t)
		if err := h.server.AwaitStanding(patient(t), false); err != nil {
			t.Fatal(err)
		}
		h.dialled(t, listen)
		if smaller {
			if err := h.server.AwaitDuplicates(patient(t), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.server.AwaitStanding(patient(t), !smaller); err != nil {
			t.Fatal(err)
		}
		h.insist(t, h.offered(t, channel))
		h.expectNothingOdd(t)
	})
}

// The server of this test does not see to it itself that one connection is enough.
func TestDuplicateConnIsClosedOrReplacesTheFirst(t *testing.T) {
	eitherOrder(t, func(t *testing.T, h *house, smaller bool, listen string) {
		t.Helper()
		h.run(t)
		second := bufio.NewReader(connect(t, listen))
		if smaller { // the gateway dialled the first
			if line, err := second.ReadString('\n'); !errors.Is(err, io.EOF) {
				t.Errorf("the second says %q (%v)", line, err)
			}
			h.deliver(t, h.offered(t, channel))
			return
		}
		select {
		case err := <-h.ended:
			h.ended <- err
		case <-time.After(patience):
			t.Fatal("the first goes on")
		}
		select {
		case <-h.link.Reconnected():
		case <-time.After(patience):
			t.Fatal("the second does not wait for the next session")
		}
	})
}

func TestDuplicateConnYieldsAfterAFailedDial(t *testing.T) {
	silent := local(t) // takes connections, and says nothing
	taken := make(chan net.Conn, 1)
	go func() {
		if conn, err := silent.Accept(); err == nil {
			taken <- conn
		}
	}()
	listen, name := federationtest.FreeAddr(t), ordered(true)
	h := newHouse(t, both(name, listen), func(cfg *freeq.Config, _ *freeq.Deps) { cfg.Address = silent.Addr().String() })
	h.server.SetPeer(hexOf(name))
	h.supervise(t)
	dialled := <-taken
	_ = silent.Close()
	if greeting, err := bufio.NewReader(dialled).ReadString('\n'); err != nil { // the gateway uses it
		t.Fatalf("the connection of the gateway: %q (%v)", greeting, err)
	}
	connected := connect(t, listen) // which the gateway would rather not have
	if _, err := dialled.Write([]byte("not JSON\n")); err != nil {
		t.Fatal(err)
	}
	_ = dialled.Close()
	if greeting, err := bufio.NewReader(connected).ReadString('\n'); err != nil {
		t.Errorf("the connection of the peer: %q (%v)", greeting, err)
	}
}

func TestDuplicateConnOfAPortScanEndsNoLink(t *testing.T) {
	listen := federationtest.FreeAddr(t)
	h := newHouse(t, both(ordered(false), listen), func(cfg *freeq.Config, _ *freeq.Deps) { cfg.Address = "" })
	h.server.SetPeer(hexOf(ordered(false)))
	h.supervise(t)
	h.dialled(t, listen)
	if err := h.server.AwaitStanding(patient(t), true); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"", "GET / HTTP/1.1\r\n", `{"type":"hello","peer_id":"` + hexOf("stranger") + `","server_name":"x"}` + "\n"} {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, says)
		_ = conn.Close()
	}
	h.insist(t, h.offered(t, channel))
	if err := h.server.AwaitStanding(patient(t), true); err != nil {
		t.Error(err)
	}
	if got := h.server.Links(); got != 1 {
		t.Errorf("%d links, want the first alone", got)
	}
}

// dialled lets the server dial the gateway as soon as that listens.
func (h *house) dialled(t *testing.T, listen string) {
	t.Helper()
	for ctx := patient(t); ; {
		err := h.server.Dial(t.Context(), listen)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestDuplicateConnOfConcurrentDialsLeavesOne has both orders in it: one of
// the two has the smaller id.
func TestDuplicateConnOfConcurrentDialsLeavesOne(t *testing.T) {
	left, right := federationtest.FreeAddr(t), federationtest.FreeAddr(t)
	ends := []*house{twin(t, "left", "right", left, right), twin(t, "right", "left", right, left)}
	for _, h := range ends {
		h.supervise(t)
	}
	d := ends[0].offered(t, channel)
	d.View.Home = "left.test"
	ends[0].insist(t, d)
	if ev := ends[1].gateway.next(t); ev.ID != d.View.ID {
		t.Errorf("submitted %s", ev.ID)
	}
}

// twin returns one of two gateways that each take the other for a server.
func twin(t *testing.T, us, them, listen, address string) *house {
	t.Helper()
	return newHouse(t, func(cfg *freeq.Config, deps *freeq.Deps) {
		cfg.ServerName, cfg.EndpointID, cfg.PeerAPI = them+".test", hexOf(them), "https://"+them+".test"
		cfg.Address, cfg.Listen = address, listen
		deps.Home, deps.Endpoint = federation.HomeID(us+".test"), signer("", seeded(us))
	})
}

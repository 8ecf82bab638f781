package inspircd_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// caller is a server that dials.
type caller struct {
	*bridgetest.IRCd
	addr string // of the gateway
}

func newCaller(t *testing.T, cfg bridgetest.IRCdConfig, addr string) caller {
	t.Helper()
	peer := bridgetest.NewIRCd(cfg)
	t.Cleanup(func() {
		peer.Close()
		if err := peer.Err(); err != nil {
			t.Errorf("the gateway did wrong: %v", err)
		}
	})
	return caller{IRCd: peer, addr: addr}
}

// ring dials until the gateway listens.
func ring(t *testing.T, h house, peer caller) {
	t.Helper()
	for ctx := waiting(t); ; {
		err := peer.Dial(ctx, peer.addr)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("dial: %v\n%s", err, h.log)
		}
	}
}

// awaitLog waits until something is in the log.
func awaitLog(t *testing.T, h house, text string) {
	t.Helper()
	for ctx := waiting(t); !strings.Contains(h.log.String(), text); {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no %q in the log:\n%s", text, h.log)
		}
	}
}

// listening returns a house whose link waits for a server, and a server that knows its address.
func listening(t *testing.T, tweak func(*inspircd.Config, *bridgetest.IRCdConfig)) (house, caller) {
	t.Helper()
	cfg, peerCfg := testConfig(""), peerConfig()
	cfg.Listen = federationtest.FreeAddr(t)
	if tweak != nil {
		tweak(&cfg, &peerCfg)
	}
	h := newHouse(t, cfg)
	stop := keepRunning(h, func() {})
	t.Cleanup(func() {
		stop()
		if err := h.link.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h, newCaller(t, peerCfg, cfg.Listen)
}

// dialled is listening with the link up.
func dialled(t *testing.T, tweak func(*inspircd.Config, *bridgetest.IRCdConfig)) (house, caller) {
	t.Helper()
	h, peer := listening(t, tweak)
	ring(t, h, peer)
	if err := peer.Linked(waiting(t)); err != nil {
		t.Fatalf("link: %v\n%s", err, h.log)
	}
	return h, peer
}

func TestListenLinksToDiallingServers(t *testing.T) {
	t.Run("links to the server that dials, and carries steps both ways", func(t *testing.T) {
		h, peer := dialled(t, nil)
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "TAGMSG")
	})

	for name, tweak := range map[string]func(*bridgetest.IRCdConfig){
		"with another password": func(c *bridgetest.IRCdConfig) { c.SendPassword = "wrong" },
		"with another name":     func(c *bridgetest.IRCdConfig) { c.Name = "irc.other.example" },
	} {
		t.Run("turns away a server "+name+" and goes on waiting", func(t *testing.T) {
			h, peer := listening(t, nil)
			cfg := peerConfig()
			tweak(&cfg)
			stranger := newCaller(t, cfg, peer.addr)
			ring(t, h, stranger)
			if said := await(t, stranger, "ERROR").Params[0]; said != "Mismatched server name or password" {
				t.Errorf("said %q", said)
			}
			ring(t, h, peer)
			if err := peer.Linked(waiting(t)); err != nil {
				t.Fatalf("link: %v\n%s", err, h.log)
			}
		})
	}

	t.Run("serves the peer while a stranger says nothing", func(t *testing.T) {
		h, peer := listening(t, nil)
		var dialer net.Dialer
		var silent net.Conn
		for ctx := waiting(t); silent == nil; {
			var err error
			if silent, err = dialer.DialContext(ctx, "tcp", peer.addr); err != nil && ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _ = silent.Close() })
		ring(t, h, peer)
		if err := peer.Linked(waiting(t)); err != nil {
			t.Fatalf("link: %v\n%s", err, h.log)
		}
	})

	t.Run("turns away a second server with the right password, and keeps the first", func(t *testing.T) {
		h, peer := dialled(t, nil)
		second := newCaller(t, peerConfig(), peer.addr)
		ring(t, h, second)
		if said := await(t, second, "ERROR").Params[0]; !strings.Contains(said, "already exists") {
			t.Errorf("said %q", said)
		}
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t)
	})

	t.Run("takes the peer again after a loss, on the port that it never gave up", func(t *testing.T) {
		cfg := testConfig("")
		cfg.Listen = federationtest.FreeAddr(t)
		h := newHouse(t, cfg)
		t.Cleanup(func() { _ = h.link.Close() })
		peer := newCaller(t, peerConfig(), cfg.Listen)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- h.link.Run(ctx, func() {}) }()
		ring(t, h, peer)
		if err := peer.Linked(waiting(t)); err != nil {
			t.Fatal(err)
		}
		peer.Drop()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("error %v", err)
		}
		again := newCaller(t, peerConfig(), cfg.Listen) // no session accepts now
		if err := again.Dial(waiting(t), cfg.Listen); err != nil {
			t.Fatalf("the port was lost: %v", err)
		}
		go func() { ended <- h.link.Run(ctx, func() {}) }()
		if err := again.Linked(waiting(t)); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-ended
		var lc net.ListenConfig
		if l, err := lc.Listen(t.Context(), "tcp", cfg.Listen); err != nil || l.Close() != nil {
			t.Errorf("the port is kept after the end: %v", err)
		}
	})
}

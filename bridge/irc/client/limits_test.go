package client_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestUnregisteredConnectionTimesOut(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.RegistrationTimeout = time.Second
	dial(t, start(t, cfg).addr).until(t, "ERROR :Closing link: Registration timeout")
}

func TestSilentClientTimesOut(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.PingInterval = time.Second
	silent := dial(t, start(t, cfg).addr)
	silent.register(t, "silent", "")
	silent.until(t, "PING :gw.example")
	silent.until(t, "ERROR :Closing link: Ping timeout")
}

func TestSlowReaderIsDisconnected(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.SendQueueBytes = 64 << 10
	h := start(t, cfg)
	near, far := net.Pipe() // takes nothing unread
	h.link.Attach(t.Context(), far)
	slow := &peer{conn: near, lines: bufio.NewReader(near)}
	slow.register(t, "slow", "")
	peers := play(t, h, "fast joins\nwatch joins\nwatch > MONITOR + slow\nwatch < *730*")
	everyone := strings.Repeat("slow,", 10)
	for range 30 {
		peers["fast"].say(t, "PRIVMSG "+everyone+" :"+strings.Repeat("x", 400))
	}
	peers["watch"].until(t, "*731 watch :slow")
	peers["fast"].until(t, "*401 fast slow *")
	_ = near.Close()
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.MaxClients = 2
	h := start(t, cfg)
	play(t, h, "a joins\nb joins")
	dial(t, h.addr).until(t, "ERROR :Closing link: this server is full")
}

func TestRateLimitIsReportedOnce(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig(), func(d *client.Deps) {
		d.Limits = bridge.Limits{UserEventsPerMinute: 2}
	})
	play(t, h, `
		a joins standard-replies
		b joins
		a > PRIVMSG b :1
		a > PRIVMSG b :2
		a > PRIVMSG b :3
		a > PRIVMSG b :4
		a < :gw.example FAIL PRIVMSG RATE_LIMITED * :too many steps; wait a little
		b < *PRIVMSG b :1
		b < *PRIVMSG b :2`)
}

func TestOpenReturnsAllMistakes(t *testing.T) {
	t.Parallel()
	cfg := client.Config{Listen: "x", TLSListen: ":1", Network: "a b", Channels: []string{"#Ä"}, Dialect: "x"}
	_, err := client.Open(cfg, client.Deps{})
	for _, key := range []string{
		"listen", "tls_listen", "network", "channels", "dialect", "max_clients", "registration_timeout", "ping_interval", "send_queue_bytes",
	} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+key+": ") {
			t.Errorf("%s is not told of: %v", key, err)
		}
	}
}

func TestRunReturnsAnErrorForATakenPort(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	cfg := testConfig()
	cfg.Listen = h.addr
	if err := open(t, cfg).link.Run(t.Context(), func() { t.Error("it is up") }); err == nil {
		t.Error("no error")
	}
}

func TestShutdownIsSentToAllClients(t *testing.T) {
	t.Parallel()
	h := open(t, testConfig())
	ctx, cancel := context.WithCancel(t.Context())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.link.Run(ctx, func() { close(up) }) }()
	<-up
	p := dial(t, h.link.Describe().Negotiated["listen"])
	p.register(t, "alice", "")
	cancel()
	p.until(t, "ERROR :Closing link: the gateway ends")
	if err := <-ended; err == nil {
		t.Error("it does not say why it ended")
	}
}

func TestSlowReaderGetsMissedSteps(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.SendQueueBytes = 64 << 10
	h := start(t, cfg)
	for _, ev := range offers(bob, ada, 1, 2, 3) {
		if _, err := h.record.Append(t.Context(), federationtest.File(ev, federation.View{})); err != nil {
			t.Fatal(err)
		}
	}
	near, far := net.Pipe()
	h.link.Attach(t.Context(), far)
	slow := &peer{conn: near, lines: bufio.NewReader(near)}
	slow.login(t)
	slow.until(t, "*BATCH +* freeq.at/handoff") // and reads no more of it
	peers := play(t, h, "fast joins\nwatch joins\nwatch > MONITOR + ada\nwatch < *730*")
	everyone := strings.Repeat("ada,", 10)
	for range 30 {
		peers["fast"].say(t, "PRIVMSG "+everyone+" :"+strings.Repeat("x", 400))
	}
	peers["watch"].until(t, "*731 watch :ada")
	_ = near.Close()

	again := dial(t, h.addr)
	again.login(t)
	again.until(t, "*BATCH +* freeq.at/handoff")
	for _, id := range []string{"msg-1", "msg-2", "msg-3"} {
		if got := again.hear(t); !strings.Contains(got, "msgid="+id) {
			t.Errorf("%q comes where %s is next", got, id)
		}
	}
}

// login logs a client in as ada, and registers it, ready for its inbox.
func (p *peer) login(t *testing.T) {
	t.Helper()
	p.say(t, "CAP REQ :message-tags batch freeq.at/handoff", "AUTHENTICATE ATPROTO-CHALLENGE")
	p.until(t, "AUTHENTICATE *")
	p.say(t, answerTo(string(ada), "signed by "+string(ada)))
	p.until(t, "* 903 *")
	p.say(t, "NICK ada", "USER ada 0 * :ada", "CAP END")
	p.until(t, "* 376 *")
}

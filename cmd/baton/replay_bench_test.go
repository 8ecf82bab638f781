package main_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	ircclient "github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	agentregistry "github.com/baton-gateway/baton/federation/store/registry"
)

// replayed is how many steps wait for each returning reader.
const replayed = 1000

// headroom is that of a gateway before it collects garbage.
const headroom = 64 << 20

// readers is how many of them each step is for: filing them is most of the benchmark.
const readers = 25

// BenchmarkReplay has an agent come back to the server for IRC clients when 1,000 steps
// wait for it, which it acknowledges page by page: from its welcome to the last step. The
// record is SQLite's.
func BenchmarkReplay(b *testing.B) {
	defer runtime.KeepAlive(make([]byte, headroom))
	record, err := agentregistry.Open(b.Context(), filepath.Join(b.TempDir(), "baton.db"), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	defer record.Close()
	addr := serveIRC(b, record)
	n := 0
	for b.Loop() {
		b.StopTimer()
		if n%readers == 0 {
			fileFor(b, record, n)
		}
		conn, lines := comeBack(b, addr, n)
		b.StartTimer()
		readAll(b, conn, lines)
		b.StopTimer()
		if err := conn.Close(); err != nil {
			b.Fatal(err)
		}
		n++
		b.StartTimer()
	}
}

func readerDID(n int) federation.DID { return federationtest.Person(fmt.Sprintf("reader %d", n)) }

// fileFor files steps for the readers from the n-th on, many at a time.
func fileFor(b *testing.B, record *agentregistry.Record, n int) {
	b.Helper()
	var to []federation.DID
	for i := range readers {
		to = append(to, readerDID(n+i))
	}
	work := make(chan int)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range work {
				ev := federationtest.Offer(n*replayed+i+1, federationtest.Person("eliza"), to[0])
				ev.Fields["context"] = `{"notes":"` + strings.Repeat("x", 300) + `"}`
				f := federationtest.File(ev, federation.View{})
				f.Inboxes = to
				if _, err := record.Append(b.Context(), f); err != nil {
					b.Errorf("append: %v", err)
				}
			}
		})
	}
	for i := range replayed {
		work <- i
	}
	close(work)
	all.Wait()
}

// serveIRC runs a server for IRC clients on a record, which believes each client its DID.
func serveIRC(b *testing.B, record *agentregistry.Record) (addr string) {
	b.Helper()
	cfg := ircclient.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	link, err := ircclient.Open(cfg, ircclient.Deps{
		Ports: bridge.Ports{
			Home: "gw.test", Gateway: strangers{}, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
			Limits: bridge.Limits{}, PubSub: noWakes{},
			Keys: bridgetest.Keys{Prove: func(context.Context, federation.DID, []byte, []byte) (federation.PublicKey, federation.Verdict, error) {
				return federation.PublicKey{}, federation.Valid, nil
			}},
		},
		Record: record,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- link.Run(ctx, func() { close(up) }) }()
	b.Cleanup(func() { cancel(); <-ended })
	<-up
	return link.Describe().Negotiated["listen"]
}

// comeBack logs the n-th reader in, up to its welcome; its waiting steps come next. Each
// reader has a nick of its own, as the server may still hold the nick of the last one.
func comeBack(b *testing.B, addr string, n int) (net.Conn, *bufio.Reader) {
	b.Helper()
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	proof := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"did":%q,"signature":"AAAA"}`, readerDID(n)))
	if _, err := fmt.Fprintf(conn, "CAP REQ :message-tags batch server-time freeq.at/handoff\r\nAUTHENTICATE ATPROTO-CHALLENGE\r\nAUTHENTICATE %s\r\n"+
		"NICK reader%d\r\nUSER reader 0 * :x\r\nCAP END\r\n", proof, n); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReaderSize(conn, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case err != nil:
			b.Fatal(err)
		case strings.Contains(line, " 376 "):
			return conn, lines
		}
	}
}

// readAll reads the backlog, and answers the PING after each page.
func readAll(b *testing.B, conn net.Conn, lines *bufio.Reader) {
	b.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	for steps := 0; steps < replayed; {
		line, err := lines.ReadString('\n')
		if err != nil {
			b.Fatal(errors.Join(err, fmt.Errorf("after %d steps", steps)))
		}
		if strings.Contains(line, " TAGMSG ") {
			steps++
		}
		if _, token, ping := strings.Cut(line, "PING :"); ping {
			if _, err := fmt.Fprintf(conn, "PONG :%s", token); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// strangers is a gateway asked for names only.
type strangers struct{ bridge.Gateway }

// Name implements [bridge.Gateway].
func (strangers) Name(_ context.Context, did federation.DID) string { return did.Short() }

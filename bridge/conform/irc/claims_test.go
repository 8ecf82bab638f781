package irc_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/bridge/conform/irc"
)

// plainServer is a server that welcomes its clients without a message of the day, answers
// PING and QUIT, and claims only the listed capabilities.
func plainServer(t *testing.T, capabilities string) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { servePlain(conn, capabilities) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "irc://" + listener.Addr().String()
}

func servePlain(conn net.Conn, capabilities string) {
	defer func() { _ = conn.Close() }()
	nick := "*"
	for in := bufio.NewScanner(conn); in.Scan(); {
		command, rest, _ := strings.Cut(in.Text(), " ")
		switch command {
		case "CAP":
			if strings.HasPrefix(rest, "LS") {
				fmt.Fprintf(conn, ":irc.test CAP * LS :%s\r\n", capabilities)
			}
		case "NICK":
			nick = rest
		case "USER":
			fmt.Fprintf(conn, ":irc.test 001 %[1]s :Hello\r\n:irc.test 005 %[1]s NETWORK=Test :are supported\r\n:irc.test 422 %[1]s :There is no message of the day\r\n", nick)
		case "PING":
			fmt.Fprintf(conn, ":irc.test PONG irc.test %s\r\n", rest)
		case "QUIT":
			return
		}
	}
}

// TestClaimsSelectTheCasesOfOtherServers plays the cases on a server that can little.
func TestClaimsSelectTheCasesOfOtherServers(t *testing.T) {
	t.Parallel()
	results, err := irc.Run(t.Context(), irc.Config{URL: plainServer(t, "setname"), Key: key, Patience: 50 * time.Millisecond}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byCase := map[string]conform.Result{}
	for _, r := range results {
		byCase[r.Section+": "+r.Case] = r
	}
	for name, want := range map[string]string{
		"rfc2812 §3.7.2: PING is answered":                             "<nil>",
		"freeq SASL ATPROTO-CHALLENGE: a DID is proved, once":          "the server does not claim sasl=ATPROTO-CHALLENGE",
		"ircv3 whox: WHO with fields":                                  "the server does not claim WHOX",
		"ircv3 multi-prefix: all that a client is in a channel":        "the server does not claim multi-prefix",
		"ircv3 away-notify: a client that goes and comes back is told": "the server does not claim away-notify",
		"rfc2812 §3.3.2: a NOTICE gets no error":                       "<nil>",
		"ircv3 utf8-only: bytes that are no text":                      "the server does not claim UTF8ONLY",
	} {
		r, played := byCase[name]
		if got := fmt.Sprint(r.Err); !played || got != want || r.Skipped() != (want != "<nil>") {
			t.Errorf("%s: %s, skipped %v, want %s", name, got, r.Skipped(), want)
		}
	}
	for _, name := range []string{"ircv3 setname: a real name that changes", "rfc2812 §3.2.1: JOIN, NAMES and PART"} {
		if r := byCase[name]; r.Err == nil || r.Skipped() {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
}

func TestClaimsMatchCommandsAndParameters(t *testing.T) {
	t.Parallel()
	const line = "@time=2026-11-23T00:00:00.000Z;+x=a\\sb :irc.test 332 alice #room :what we talk about"
	for pattern, want := range map[string]bool{
		"332": true, "331|332 alice": true, "332 * #room :what * about": true, "@+x=a?b;time=*Z :irc.* 332": true,
		"331": false, "332 bob": false, "332 alice #room what": false, "@msgid=* 332": false, "@+x=b 332": false, ":other 332": false,
		"332 alice #room * *": false,
	} {
		if got := irc.Fits(pattern, line); got != want {
			t.Errorf("%q fits: %v", pattern, got)
		}
	}
}

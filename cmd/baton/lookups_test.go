package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// The contract of these tests.
const (
	othersWait = 3 * time.Second  // limit for a step of a user while other lookups block for five seconds or more
	relinkWait = 5 * time.Second  // limit for relinking a returned peer
	stopWait   = 10 * time.Second // at most, from SIGTERM to the end of the process
)

// square is a gateway linked to an IRC server, which can be away, and may ask hosts
// on the loopback for keys.
type square struct {
	*house

	ircd  *bridgetest.IRCd
	away  atomic.Bool
	stuck atomic.Bool // it answers nothing and closes no connection
}

// stubborn is a connection of an IRC server that may be stuck.
type stubborn struct {
	net.Conn
	*square

	over chan struct{} // closed at the end of the test
}

// Read passes on the gateway's data to a server, unless it is stuck.
func (c stubborn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.stuck.Load() {
		<-c.over
		return 0, net.ErrClosed
	}
	return n, err
}

// Close hangs up, unless the server is stuck.
func (c stubborn) Close() error {
	if c.stuck.Load() {
		return nil
	}
	return c.Conn.Close()
}

func newSquare(t *testing.T, users []string, tables ...string) *square {
	t.Helper()
	s := newLinkedSquare(t, users, tables...)
	s.ready(t)
	return s
}

// newLinkedSquare is newSquare for a gateway with other links, which never
// come up.
func newLinkedSquare(t *testing.T, users []string, tables ...string) *square {
	t.Helper()
	s := &square{house: newHouse(t)}
	s.keep(t, "lab.secret", "planted-secret")
	s.ircd = bridgetest.NewIRCd(bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-secret", RecvPassword: "planted-secret",
		Users: users, Channels: []string{"#ops"},
	})
	s.configure(t, append(tables, fmt.Sprintf(`[fetch]
allow_private = true
[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.secret"
recv_password_file = "lab.secret"
channels = ["#ops"]
`, s.door(t)))...)
	s.start(t)
	await(t, "the link to be up", func() bool { return s.counters(t)[`baton_link_up{link="lab",network="spanningtree"}`] == 1 })
	return s
}

// door returns the gateway's address of the IRC server. While the server is
// away, it hangs up.
func (s *square) door(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if s.away.Load() {
				_ = conn.Close()
				continue
			}
			running.Go(func() {
				defer conn.Close()
				s.ircd.Serve(stubborn{conn, s, over})
			})
		}
	})
	t.Cleanup(func() {
		close(over)
		s.stuck.Store(false)
		_ = listener.Close()
		s.ircd.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// offers has a user of the IRC server offer something as the DID of a key.
func (s *square) offers(t *testing.T, nick string, by federation.SigningKey) federation.Event {
	t.Helper()
	offer := sealOffer(t, by, "")
	s.ircd.Tagmsg(nick, "#ops", translate.Wire(offer, map[string]string{"from": string(by.DID)}))
	return offer
}

// linkState returns the state of the link as operators are shown it.
func (s *square) linkState(t *testing.T) string {
	t.Helper()
	var links struct {
		Items []struct{ Name, State string }
	}
	s.asks(t, &links, "link", "list")
	for _, link := range links.Items {
		if link.Name == "lab" {
			return link.State
		}
	}
	return ""
}

// outcome returns the outcome of a step from the log, "" while there is none.
func (s *square) outcome(t *testing.T, of federation.Event) string {
	t.Helper()
	for _, line := range s.logged(t) {
		if line["msg"] == "step judged" && line["handoff_id"] == of.Handoff.String() {
			outcome, _ := line["outcome"].(string)
			return outcome
		}
	}
	return ""
}

// deferred returns how many steps wait for keys.
func (s *square) deferred(t *testing.T) float64 {
	t.Helper()
	return s.counters(t)[`baton_deferred{network="spanningtree"}`]
}

// within fails the test unless something holds in time.
func within(t *testing.T, what string, limit time.Duration, begun time.Time, holds func() bool) {
	t.Helper()
	await(t, what, holds)
	if took := time.Since(begun); took > limit {
		t.Errorf("waited %s for %s, want at most %s", took.Round(time.Millisecond), what, limit)
	}
}

func TestLookupsOfOneUserKeepNoLinkDown(t *testing.T) {
	t.Parallel()
	s := newSquare(t, []string{"alice", "mallory"})
	signers := silentSigners(t, 60)
	for _, signer := range signers {
		s.offers(t, "mallory", signer)
	}
	first := s.offers(t, "alice", newKey(t)) // behind them on the wire: all were read
	within(t, "a step of another user", othersWait, time.Now(), func() bool { return s.outcome(t, first) == "filed" })

	s.away.Store(true)
	s.ircd.Drop()
	within(t, "the link not to be called up", relinkWait, time.Now(), func() bool { return s.linkState(t) == "dialling" })
	s.away.Store(false)
	within(t, "the link to be up again", relinkWait, time.Now(), func() bool { return s.linkState(t) == "up" })

	await(t, "each step to wait in the record", func() bool { return s.deferred(t) == float64(len(signers)) })
	second := s.offers(t, "alice", newKey(t))
	within(t, "a step on the new link", othersWait, time.Now(), func() bool { return s.outcome(t, second) == "filed" })
	stopped := time.Now()
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(stopped); took > stopWait {
		t.Errorf("SIGTERM took %s", took)
	}
}

func TestLookupsAtSilentHostsDelayNoOther(t *testing.T) {
	t.Parallel()
	const nicks, each = 17, 8
	users := []string{"alice"}
	for i := range nicks {
		users = append(users, fmt.Sprintf("mallory%d", i))
	}
	s := newSquare(t, users, offersOverREST)
	eliza := logIn(t, s.url())
	scout, amy := bridgetest.NewAgent(s.url(), "scout_7", bytes.Repeat([]byte{1}, 32)), bridgetest.NewAgent(s.url(), "amy_1", bytes.Repeat([]byte{2}, 32))
	if err := errors.Join(scout.Register(t.Context()), amy.Register(t.Context())); err != nil {
		t.Fatal(err)
	}
	signers := silentSigners(t, nicks*each)
	for i, signer := range signers {
		s.offers(t, users[1+i%nicks], signer)
	}
	for range 3 {
		offer := s.offers(t, "alice", newKey(t))
		within(t, "a step of another user", othersWait, time.Now(), func() bool { return s.outcome(t, offer) == "filed" })
	}
	begun := time.Now()
	eliza.offer(t, map[string]any{"title": "Cite three sources"})
	within(t, "a step over REST", othersWait, begun, func() bool { return true })
	begun = time.Now()
	status, answer, err := scout.Send(t.Context(), amy.Handle, "", map[string]any{
		"type": "at.freeq:handoff", "data": map[string]any{"handoff": map[string]any{"event": "offer", "title": "Cite three sources"}},
	})
	if err != nil || status != http.StatusCreated && status != http.StatusAccepted {
		t.Errorf("a step over AIRC is answered %d %v, %v", status, answer, err)
	}
	within(t, "a step over AIRC", othersWait, begun, func() bool { return true })
	await(t, "each step to wait in the record", func() bool { return s.deferred(t) == nicks*each })
	if n := strings.Count(s.told(t), "send it again"); n != 0 {
		t.Errorf("%d steps were refused, want that each waits", n)
	}
}

func TestLookupsOfLoginsAtSilentHostsDelayNoOther(t *testing.T) {
	t.Parallel()
	const logins = 10
	h := newHouse(t, "[fetch]\nallow_private = true")
	h.start(t)
	h.ready(t)
	stranger, host := &caller{url: h.url()}, newSilent(t)
	var asking sync.WaitGroup
	for i := range logins {
		did := fmt.Sprintf("%s:u%d", host.signer(t).DID, i)
		var given struct{ Challenge string }
		stranger.must(t, http.StatusOK, http.MethodPost, "auth/challenge", map[string]any{"did": did}, &given)
		request := stranger.request(t, http.MethodPost, "auth/token", map[string]any{"did": did, "challenge": given.Challenge, "signature": "AAAA"})
		asking.Go(func() {
			if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	await(t, "the host to be asked", func() bool { return host.called() == logins })
	begun := time.Now()
	logIn(t, h.url()).offer(t, map[string]any{"title": "Cite three sources"})
	within(t, "another login and a step", othersWait, begun, func() bool { return true })
	asking.Wait()
}

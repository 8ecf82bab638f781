package client

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"log/slog"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

const sweepEvery = time.Second

// After maxTurns events, their output is written. One write can then carry the lines of a busy
// channel.
const maxTurns = 256

// The goroutine in run owns a server; others use [server.post].
type server struct {
	link    *Link
	ports   []port
	log     *slog.Logger
	name    string
	salt    []byte // of cloaked addresses
	started time.Time
	table   map[string]command

	connected map[*user]bool
	admission admission
	nicks     map[string]*user
	accounts  map[federation.DID]map[*user]bool
	watchers  map[string]map[*user]bool // by folded nick
	channels  map[string]*channel
	most      int // maximum registered at a time
	unwritten []*user
	flights   int
	remotes   remotes
	announce  func(relayed *federation.DID, c bridge.PresenceChange)
	missed    map[string]federation.DID // absent recipients of text, by folded nick
	listed    []string                  // as last listed for clients
	batches   uint64

	departed []departed

	lookups chan struct{} // one token per history query

	chat chan *chatLine // for other links, to be filed in this order

	todo    chan func()
	running fault.Group // readers, and goroutines serving a client
	writers fault.Group
	ended   chan struct{}
}

func newServer(l *Link, ports []port) *server {
	s := &server{
		link: l, ports: ports, log: l.log, name: string(l.ports.Home), started: time.Now(), table: commands(), salt: make([]byte, sha256.Size),
		connected: map[*user]bool{}, admission: newAdmission(), nicks: map[string]*user{},
		accounts: map[federation.DID]map[*user]bool{}, watchers: map[string]map[*user]bool{}, channels: map[string]*channel{},
		remotes: remotes{users: map[federation.DID]*user{}, wants: map[*user]string{}},
		missed:  map[string]federation.DID{},
		lookups: make(chan struct{}, maxLookups), chat: make(chan *chatLine, maxChatLines), todo: make(chan func()), ended: make(chan struct{}),
	}
	_, _ = rand.Read(s.salt)
	s.listed = l.listed(versionWithValues, nil)
	for _, name := range l.cfg.Channels {
		venue, _ := channelName(name)
		s.channels[venue] = newChannel(name, s.started)
		s.channels[venue].lasting = true
	}
	return s
}

// run returns the contained panic or nil.
func (s *server) run(ctx context.Context) error {
	err := fault.Catch(func() error { s.loop(ctx); return nil })
	said := fault.Catch(func() error { s.announceEnd(); return nil })
	s.end()
	return cmp.Or(err, said)
}

func (s *server) loop(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	announcer := irc.NewAnnouncer(s.link.Name(), s.link.ports.Presence, s.running.Go)
	s.announce = func(relayed *federation.DID, c bridge.PresenceChange) { announcer.Announce(ctx, relayed, c) }
	s.running.Go(func() { s.fileChat(ctx) })
	s.running.Go(func() {
		irc.WatchPresence(ctx, s.link.ports.Presence, s.link.presenceEvery, s.ended, s.ask, s.remoteDIDs, s.departRemote)
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			s.sweep(time.Now())
		case do := <-s.todo:
			do()
			s.more()
		}
		s.flush()
	}
}

func (s *server) more() {
	for range maxTurns {
		select {
		case do := <-s.todo:
			do()
		default:
			return
		}
	}
}

// post does not wait for the call. It returns false if the owner has ended.
func (s *server) post(do func()) bool {
	select {
	case s.todo <- do:
		return true
	case <-s.ended:
		return false
	}
}

// ask waits until the owner has run do, and reports whether it did.
func (s *server) ask(do func()) bool {
	done := make(chan bool, 1)
	call := func() {
		called := false
		defer func() { done <- called }()
		do()
		called = true
	}
	return s.post(call) && <-done
}

// announceEnd gives the clients a moment to read the line.
func (s *server) announceEnd() {
	for u := range s.connected {
		s.put(u, textMessage("", "ERROR", "Closing link: the gateway ends"), "")
	}
	s.flush()
	s.land(time.After(lastWords))
}

func (s *server) end() {
	close(s.ended)
	for u := range s.connected {
		_ = u.wire.Close()
	}
	s.running.Wait()
	s.writers.Wait()
}

func (s *server) land(late <-chan time.Time) {
	for s.flights > 0 {
		select {
		case do := <-s.todo:
			do()
			s.flush()
		case <-late:
			return
		}
	}
}

const lastWords = time.Second

// A cloak is stable while the server runs, and not reversible.
func (s *server) cloak(addr string) string {
	sum := hmac.New(sha256.New, s.salt)
	sum.Write([]byte(addr))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum.Sum(nil)))[:16] + ".ip"
}

func (s *server) handleLine(ctx context.Context, u *user, m ircmsg.Message, why wrong) {
	defer func() { u.turn <- u.work }()
	u.work = nil
	if u.over {
		return
	}
	u.lastInput, u.asked = time.Now(), false
	s.link.Hear(u.lastInput)
	s.contain(ctx, u, func() {
		s.open(u, m)
		if why == "" {
			s.dispatch(ctx, u, m)
		} else {
			s.refuseLine(ctx, u, m, why)
		}
		if u.work == nil {
			s.close(u)
		}
	})
}

// A panic ends only that client's connection.
func (s *server) contain(ctx context.Context, u *user, do func()) {
	err := fault.Catch(func() error { do(); return nil })
	if s.link.ports.Metrics.Fault(ctx, s.log, "client of link "+s.link.Name(), err) {
		u.work = nil
		s.quit(u, "an internal error")
	}
}

func (s *server) dispatch(ctx context.Context, u *user, m ircmsg.Message) {
	c, known := s.table[m.Command]
	switch {
	case m.Command == "":
	case !known && !u.welcome:
		s.reply(u, errNotRegistered, "You have not registered")
	case !known:
		s.reply(u, errUnknownCommand, m.Command, "Unknown command")
	case !u.welcome && !c.early:
		s.reply(u, errNotRegistered, "You have not registered")
	case len(m.Params) < c.params:
		s.reply(u, errNeedMoreParams, m.Command, "Not enough parameters")
	default:
		c.run(s, ctx, u, m)
	}
}

func (s *server) refuseLine(ctx context.Context, u *user, m ircmsg.Message, why wrong) {
	s.link.ports.Metrics.BadInput.WithLabelValues(network, s.link.Name(), string(why)).Inc()
	s.log.LogAttrs(ctx, slog.LevelDebug, "unreadable line", slog.String("reason", string(why)))
	switch why {
	case tooLong:
		s.reply(u, errInputTooLong, "Input line was too long")
	case notUTF8:
		s.failAlways(u, "*", "INVALID_UTF8", "", "Text here is UTF-8; the line was not delivered") // announced by UTF8ONLY
	case unreadable, malformed:
		s.fail(u, orStar(m.Command), "INVALID_MESSAGE", "", "The line could not be read")
	}
}

func (s *server) sweep(now time.Time) {
	s.notifyChanges()
	for u := range s.connected {
		silent := now.Sub(u.lastInput)
		switch {
		case !u.welcome && now.Sub(u.since) >= s.link.cfg.RegistrationTimeout:
			s.quit(u, "Registration timeout")
		case !u.welcome, u.work != nil: // its reader is busy, and would not see an answer
		case u.asked && silent >= 2*s.link.cfg.PingInterval:
			s.quit(u, "Ping timeout")
		case !u.asked && silent >= s.link.cfg.PingInterval:
			u.asked = true
			s.put(u, textMessage("", "PING", s.name), "")
		}
	}
}

// Package bridgetest has peers for tests and for the demonstration: programs that
// speak a network's protocol from the other side and fail on the unexpected.
//
// An [IRCd] is a server to link to and needs nothing installed; an [InspIRCd] is
// the real one; an [IRCClient] is a user of either. Each may be used concurrently.
package bridgetest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// IRCdConfig describes an [IRCd] and the one server that may link to it.
type IRCdConfig struct {
	Listen       string // "" = a free port on the loopback
	Name, SID    string
	LinkName     string   // the gateway's server name
	SendPassword string   // what this server sends
	RecvPassword string   // what it wants to be sent
	Plaintext    bool     // offer no CHALLENGE
	Tagless      bool     // load no module for message tags
	Users        []string // nicks
	Channels     []string // with all users in them
}

// IRCd is a small IRC server that a gateway can link to: it speaks spanning tree
// 1205 over a socket as InspIRCd 3.15 does, with users and channels of its own and
// no listener for clients. It ends the link on whatever the real one ends it for,
// and where that one only loses something, or lets harm be done, it does so too
// and [IRCd.Err] says it.
type IRCd struct {
	cfg      IRCdConfig
	started  int64
	listener net.Listener
	running  sync.WaitGroup
	received *messages

	mu        sync.Mutex
	conn      net.Conn
	out       chan string // to the linked server; nil while there is none
	gateway   string      // SID of the linked server
	linked    chan struct{}
	users     map[string]string // ours, nick to UUID
	guests    map[string]*guest // theirs, by UUID
	channels  map[string]*ircdChannel
	heldPongs int // kept back; -1 while none are to be
	msgids    int
	errs      []error
}

// guest is a user of the linked server.
type guest struct {
	nick string
	ts   int64
}

type ircdChannel struct {
	ts     int64
	guests map[string]bool
}

// ListenIRCd starts a server. It ends with ctx, or by [IRCd.Close].
func ListenIRCd(ctx context.Context, cfg IRCdConfig) (*IRCd, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cmp.Or(cfg.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("listen for server links: %w", err)
	}
	d := NewIRCd(cfg)
	d.listener = listener
	d.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.running.Go(func() { d.Serve(conn) })
		}
	})
	context.AfterFunc(ctx, d.Close)
	return d, nil
}

// NewIRCd returns a server without a listener: [IRCd.Serve] gives it connections.
func NewIRCd(cfg IRCdConfig) *IRCd {
	d := &IRCd{
		cfg: cfg, started: time.Now().Unix(), received: newMessages(), linked: make(chan struct{}),
		users: map[string]string{}, guests: map[string]*guest{}, channels: map[string]*ircdChannel{}, heldPongs: -1,
	}
	for i, nick := range cfg.Users {
		d.users[nick] = fmt.Sprintf("%sAAAAA%c", cfg.SID, 'A'+i)
	}
	for _, name := range cfg.Channels {
		d.channels[strings.ToLower(name)] = &ircdChannel{ts: d.started - 60, guests: map[string]bool{}}
	}
	return d
}

// Addr returns where the server listens for links.
func (d *IRCd) Addr() string { return d.listener.Addr().String() }

// Close ends the server and its link, and waits for both.
func (d *IRCd) Close() {
	if d.listener != nil {
		_ = d.listener.Close()
	}
	d.Drop()
	d.running.Wait()
	d.received.end(net.ErrClosed)
}

// Drop cuts the connection without a word.
func (d *IRCd) Drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// Linked waits until the gateway has ended its burst.
func (d *IRCd) Linked(ctx context.Context) error {
	d.mu.Lock()
	linked := d.linked
	d.mu.Unlock()
	select {
	case <-linked:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("wait for the gateway's link: %w", context.Cause(ctx)), d.Err())
	}
}

// Next waits for a message of the gateway, each of which it returns once at most.
// PING and PONG are not among them.
func (d *IRCd) Next(ctx context.Context, match func(IRCMessage) bool) (IRCMessage, error) {
	m, err := d.received.next(ctx, match)
	if err != nil {
		return m, errors.Join(err, d.Err())
	}
	return m, nil
}

// Received returns all messages of the gateway that no [IRCd.Next] took, in order.
func (d *IRCd) Received() []IRCMessage { return d.received.all() }

// Err returns all that the gateway did wrong.
func (d *IRCd) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.errs...)
}

// Send writes a line to the gateway as it is.
func (d *IRCd) Send(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put("%s", line)
}

// Say writes "COMMAND params" to the gateway, from a user.
func (d *IRCd) Say(nick, line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put("@msgid=%s :%s %s", d.mintID(), d.users[nick], line)
}

// Tagmsg writes a message of tags alone to a channel, and returns its id. As on the
// real server, it reaches the gateway only if that has a user in the channel.
func (d *IRCd) Tagmsg(nick, channel string, tags map[string]string) (msgid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	msgid = d.mintID()
	m := ircmsg.MakeMessage(tags, d.users[nick], "TAGMSG", channel)
	m.SetTag("msgid", msgid)
	m.SetTag("time", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	text, err := m.Line()
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("write TAGMSG: %w", err))
		return msgid
	}
	if ch := d.channels[strings.ToLower(channel)]; ch != nil && len(ch.guests) > 0 {
		d.put("%s", strings.TrimSpace(text))
	}
	return msgid
}

// HoldPongs stops answering PING, as if what came before were not read yet, or
// answers those that were held.
func (d *IRCd) HoldPongs(hold bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hold {
		d.heldPongs = 0
		return
	}
	for range d.heldPongs {
		d.put(":%s PONG %s", d.cfg.SID, d.gateway)
	}
	d.heldPongs = -1
}

// Kill throws a user of the gateway off the network.
func (d *IRCd) Kill(by, uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(uuid)
	d.put(":%s KILL %s :Killed (%s (out))", d.users[by], uuid, by)
}

// Kick throws a user of the gateway out of a channel.
func (d *IRCd) Kick(by, channel, uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.channels[strings.ToLower(channel)].guests, uuid)
	d.put(":%s KICK %s %s 1 :out", d.users[by], channel, uuid)
}

// Remake ends a channel and makes it again, younger, with all users in it.
func (d *IRCd) Remake(channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ch := d.channels[strings.ToLower(channel)]
	ch.ts += 30
	clear(ch.guests)
	var members []string
	for i, nick := range d.cfg.Users {
		members = append(members, fmt.Sprintf("o,%s:%d", d.users[nick], i))
	}
	d.put(":%s FJOIN %s %d +nt :%s", d.cfg.SID, channel, ch.ts, strings.Join(members, " "))
}

// UUID returns the id of one of the server's users.
func (d *IRCd) UUID(nick string) string { return d.users[nick] }

// mintID returns a message id. The caller holds the lock, here and below.
func (d *IRCd) mintID() string {
	d.msgids++
	return fmt.Sprintf("%s~%d~%d", d.cfg.SID, d.started, d.msgids)
}

func (d *IRCd) put(format string, args ...any) {
	if d.out != nil {
		d.out <- fmt.Sprintf(format, args...)
	}
}

// ircdQueue is how many lines may wait for a gateway that does not read: more than
// any test writes.
const ircdQueue = 1 << 14

// errSaid ends a link after an ERROR.
var errSaid = errors.New("bridgetest: link ended with ERROR")

// Serve speaks with a gateway until the connection ends.
func (d *IRCd) Serve(conn net.Conn) {
	out := make(chan string, ircdQueue)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for text := range out {
			if _, err := conn.Write([]byte(text + "\n")); err != nil {
				return
			}
		}
	}()
	peer := &ircdPeer{d: d, out: out, challenge: rand.Text()[:20]}
	peer.say("CAPAB START 1205")
	reader := bufio.NewReader(conn)
	for {
		text, err := reader.ReadString('\n')
		if err == nil {
			err = peer.line(conn, strings.TrimRight(text, "\r\n"))
		}
		if err != nil {
			break
		}
	}
	d.unlink(conn)
	close(out)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // a gateway that is gone reads no ERROR
	<-written
	_ = conn.Close()
}

// unlink forgets all that was behind a connection.
func (d *IRCd) unlink(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != conn {
		return
	}
	d.conn, d.out, d.linked = nil, nil, make(chan struct{})
	d.heldPongs = min(d.heldPongs, 0)
	clear(d.guests)
	for _, ch := range d.channels {
		clear(ch.guests)
	}
}

func (d *IRCd) forget(uuid string) {
	delete(d.guests, uuid)
	for _, ch := range d.channels {
		delete(ch.guests, uuid)
	}
}

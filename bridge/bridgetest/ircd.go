// Package bridgetest has peers for tests and the demonstration: programs that speak a network's
// protocol from the other side and fail on the unexpected.
//
// An [IRCd] is a simulated server for links, and needs no installed program. An [InspIRCd] is a
// real server. An [IRCClient] is a user of either. Each may be used concurrently.
package bridgetest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// IRCdConfig describes an [IRCd] and the one server that may link to it.
type IRCdConfig struct {
	Listen       string // "" = a free port on the loopback
	Name, SID    string
	LinkName     string      // the gateway's server name
	SendPassword string      // sent by this server
	RecvPassword string      // expected from the peer
	TLS          *tls.Config // of links in both directions; nil for plain text
	Plaintext    bool        // no CHALLENGE is offered
	Tagless      bool        // without the module for message tags
	Protocol     int         // 1206, as InspIRCd 4, or 1205, as InspIRCd 3; 0 means 1205
	Users        []string
	Channels     []string      // all users are in all of them
	ChannelModes string        // of all channels; "" means +nt
	Skew         time.Duration // how far this server's clock is ahead of ours
}

// IRCd is a small IRC server that a gateway can link to, or that links to one with [IRCd.Dial]. It
// implements spanning tree 1205 or 1206 like InspIRCd 3.15 or 4.11, without a listener for clients.
// It ends the link if the real server would. Mistakes that the real server tolerates have the same
// effect here, and [IRCd.Err] reports them.
type IRCd struct {
	cfg      IRCdConfig
	started  int64
	listener net.Listener
	running  sync.WaitGroup
	received *messages

	mu        sync.Mutex
	conn      net.Conn          // while linked
	open      map[net.Conn]bool // of peers, including peers not yet linked
	closed    bool
	out       chan string // to the linked server; nil while there is none
	gateway   string      // SID of the linked server
	linked    chan struct{}
	users     map[string]string // ours, nick to UUID
	minted    int               // number of UUIDs assigned
	guests    map[string]*guest // theirs, by UUID
	channels  map[string]*ircdChannel
	heldPongs int // number of answers held back; -1 to hold none
	lose      int // number of steps of a connection before the server loses everything; 0 for never
	lost      int
	msgids    int
	errs      []error
}

type guest struct {
	nick string
	ts   int64
}

type ircdChannel struct {
	ts      int64
	modes   string
	guests  map[string]string // membership IDs
	members map[string]bool   // nicks of the server's own users
}

const oldProtocol = 1205

const burstWait = 10 * time.Second

// ListenIRCd starts a server, which ends with ctx or by [IRCd.Close].
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
			if cfg.TLS != nil {
				conn = tls.Server(conn, cfg.TLS)
			}
			d.running.Go(func() { d.Serve(conn) })
		}
	})
	context.AfterFunc(ctx, d.Close)
	return d, nil
}

// NewIRCd returns a server without a listener, for [IRCd.Serve].
func NewIRCd(cfg IRCdConfig) *IRCd {
	cfg.Protocol = cmp.Or(cfg.Protocol, oldProtocol)
	d := &IRCd{
		cfg: cfg, started: time.Now().Unix(), received: newMessages(), linked: make(chan struct{}),
		open: map[net.Conn]bool{}, users: map[string]string{}, guests: map[string]*guest{}, channels: map[string]*ircdChannel{}, heldPongs: -1,
	}
	for _, nick := range cfg.Users {
		d.mintUser(nick)
	}
	for _, name := range cfg.Channels {
		ch := &ircdChannel{ts: d.started - 60, modes: cmp.Or(cfg.ChannelModes, "+nt"), guests: map[string]string{}, members: map[string]bool{}}
		for _, nick := range cfg.Users {
			ch.members[nick] = true
		}
		d.channels[strings.ToLower(name)] = ch
	}
	return d
}

func (d *IRCd) mintUser(nick string) {
	n := d.minted
	d.users[nick] = fmt.Sprintf("%sAAAA%c%c", d.cfg.SID, 'A'+n/26, 'A'+n%26)
	d.minted++
}

// Dial links the server to a listening gateway. It returns once connected; the link continues as
// with [IRCd.Serve].
func (d *IRCd) Dial(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("dial gateway: %w", err)
	}
	if d.cfg.TLS != nil {
		conn = tls.Client(conn, d.cfg.TLS)
	}
	d.running.Go(func() { d.serve(conn, true) })
	return nil
}

// Addr returns the server's listen address for links.
func (d *IRCd) Addr() string { return d.listener.Addr().String() }

// Close ends the server and its link, and waits for both.
func (d *IRCd) Close() {
	if d.listener != nil {
		_ = d.listener.Close()
	}
	d.mu.Lock()
	d.closed = true
	for conn := range d.open { // including peers not yet linked
		_ = conn.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
	d.received.end(net.ErrClosed)
}

// Drop cuts the connection without notice.
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

// Next waits for a matching message of the gateway other than PING and PONG, and removes it.
func (d *IRCd) Next(ctx context.Context, match func(IRCMessage) bool) (IRCMessage, error) {
	m, err := d.received.next(ctx, match)
	if err != nil {
		return m, errors.Join(err, d.Err())
	}
	return m, nil
}

// Received returns all messages of the gateway not returned by [IRCd.Next], in order.
func (d *IRCd) Received() []IRCMessage { return d.received.all() }

// Err returns all mistakes of the gateway.
func (d *IRCd) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.errs...)
}

// Send writes a line to the gateway unchanged.
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

// Tagmsg writes a message of tags without text to a channel or a nick of the gateway, and returns
// its ID. As on a real server, it reaches the gateway only if the gateway has a user there. It
// waits for the burst of a linking gateway, which may report the link as up before this server has
// read its users.
func (d *IRCd) Tagmsg(nick, target string, tags map[string]string) (msgid string) {
	d.mu.Lock()
	if linked := d.linked; d.conn != nil {
		d.mu.Unlock()
		select {
		case <-linked:
		case <-time.After(burstWait):
		}
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	msgid = d.mintID()
	ch, uuid := d.channels[strings.ToLower(target)], d.guestNamed(target)
	if uuid != "" {
		target = uuid
	}
	m := ircmsg.MakeMessage(tags, d.users[nick], "TAGMSG", target)
	m.SetTag("msgid", msgid)
	m.SetTag("time", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	text, err := m.Line()
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("write TAGMSG: %w", err))
		return msgid
	}
	if uuid != "" || ch != nil && len(ch.guests) > 0 {
		d.put("%s", strings.TrimSpace(text))
	}
	return msgid
}

func (d *IRCd) guestNamed(nick string) string {
	for uuid, g := range d.guests {
		if strings.EqualFold(g.nick, nick) {
			return uuid
		}
	}
	return ""
}

// Connect adds a user of the server.
func (d *IRCd) Connect(nick string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mintUser(nick)
	d.put("%s", d.uid(nick))
}

// Rename changes the nick of one of the server's users.
func (d *IRCd) Rename(nick, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users[to] = d.users[nick]
	delete(d.users, nick)
	d.put(":%s NICK %s %d", d.users[to], to, time.Now().Unix())
}

// Quit removes one of the server's users.
func (d *IRCd) Quit(nick string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(":%s QUIT :Quit: bye", d.users[nick])
	delete(d.users, nick)
	for _, ch := range d.channels {
		delete(ch.members, nick)
	}
}

// Enter joins one of the server's users to a channel. The user becomes its operator if the channel
// is new.
func (d *IRCd) Enter(nick, channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ch := d.channels[strings.ToLower(channel)]; ch != nil {
		ch.members[nick] = true
		d.put(":%s IJOIN %s 7", d.users[nick], channel)
		return
	}
	ch := &ircdChannel{ts: time.Now().Unix(), guests: map[string]string{}, members: map[string]bool{nick: true}}
	d.channels[strings.ToLower(channel)] = ch
	d.put(":%s FJOIN %s %d +nt :o,%s:7", d.cfg.SID, channel, ch.ts, d.users[nick])
}

// Leave removes one of the server's users from a channel.
func (d *IRCd) Leave(nick, channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.channels[strings.ToLower(channel)].members, nick)
	d.put(":%s PART %s", d.users[nick], channel)
}

// The lock is held.
func (d *IRCd) uid(nick string) string {
	return fmt.Sprintf(":%s UID %s %d %s 127.0.0.1 127.0.0.1 %s 127.0.0.1 %d +s +Ll :real %s",
		d.cfg.SID, d.users[nick], d.started-50, nick, d.idents(nick), d.started-50, nick)
}

// 1206 has the real and the displayed user name.
func (d *IRCd) idents(ident string) string {
	if d.cfg.Protocol == oldProtocol {
		return ident
	}
	return ident + " " + ident
}

// The lock is held.
func (d *IRCd) members() string {
	var members []string
	for i, nick := range slices.Sorted(maps.Keys(d.users)) {
		members = append(members, fmt.Sprintf("o,%s:%d", d.users[nick], i))
	}
	return strings.Join(members, " ")
}

// Lose makes the server silently lose everything after a number of steps of each connection. The
// connection ends with the next query.
func (d *IRCd) Lose(after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose = after
}

// Lost returns the number of lost steps.
func (d *IRCd) Lost() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// HoldPongs holds back answers to PING, as if earlier lines were still unread, or sends the held
// ones.
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

// Kill disconnects a user of the gateway from the network.
func (d *IRCd) Kill(by, uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(uuid)
	d.put(":%s KILL %s :Killed (%s (out))", d.users[by], uuid, by)
}

// Kick removes a user of the gateway from a channel.
func (d *IRCd) Kick(by, channel, uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	guests := d.channels[strings.ToLower(channel)].guests
	d.put(":%s KICK %s %s %s :out", d.users[by], channel, uuid, guests[uuid])
	delete(guests, uuid)
}

// Remake recreates a channel with a newer creation time and all its users.
func (d *IRCd) Remake(channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ch := d.channels[strings.ToLower(channel)]
	ch.ts += 30
	clear(ch.guests)
	d.put(":%s FJOIN %s %d +nt :%s", d.cfg.SID, channel, ch.ts, d.members())
}

// Age returns the creation time of a channel, in Unix seconds.
func (d *IRCd) Age(channel string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channels[strings.ToLower(channel)].ts
}

// Modes sets the modes of a channel for the next burst.
func (d *IRCd) Modes(channel, modes string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.channels[strings.ToLower(channel)].modes = modes
}

// Older announces an earlier creation time of the channel, by some seconds. This cancels its modes.
func (d *IRCd) Older(channel string, seconds int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ch := d.channels[strings.ToLower(channel)]
	ch.ts -= seconds
	d.put(":%s FJOIN %s %d +nt :%s", d.cfg.SID, channel, ch.ts, d.members())
}

// UUID returns the ID of one of the server's users.
func (d *IRCd) UUID(nick string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users[nick]
}

// The lock is held, here and below.
func (d *IRCd) mintID() string {
	d.msgids++
	return fmt.Sprintf("%s~%d~%d", d.cfg.SID, d.started, d.msgids)
}

func (d *IRCd) put(format string, args ...any) {
	if d.out != nil {
		d.out <- fmt.Sprintf(format, args...)
	}
}

// ircdQueue bounds the lines queued for a gateway that does not read. No test writes more.
const ircdQueue = 1 << 14

var errSaid = errors.New("bridgetest: link ended with ERROR")

// Serve serves the connection of a gateway until it ends.
func (d *IRCd) Serve(conn net.Conn) { d.serve(conn, false) }

func (d *IRCd) serve(conn net.Conn, dialled bool) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		_ = conn.Close()
		return
	}
	d.open[conn] = true
	d.mu.Unlock()
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
	peer := &ircdPeer{d: d, out: out, dialled: dialled, challenge: rand.Text()[:20]}
	peer.say("CAPAB START %d", d.cfg.Protocol)
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
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // a lost gateway reads no ERROR
	<-written
	_ = conn.Close()
}

func (d *IRCd) unlink(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, conn)
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

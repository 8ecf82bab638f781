package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// ircd is an IRC server for one link, with one user and one channel. It implements the part of
// spanning tree 1205 needed by the demonstration. A link authenticates with a password, sent over
// loopback in plain text.
type ircd struct {
	listener net.Listener
	secret   string
	started  int64
	received chan ircmsg.Message // TAGMSG of the gateway, oldest first
	running  sync.WaitGroup

	mu    sync.Mutex
	conn  net.Conn // of the linked gateway; nil before
	uuids map[string]string
	err   error // reason for the end of the link
}

const (
	ircdName = "irc.demo.example"
	ircdSID  = "1DE"
	personID = ircdSID + "AAAAAA"
)

// The caller closes the server.
func listenIRCd(ctx context.Context, secret string) (*ircd, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the gateway: %w", err)
	}
	d := &ircd{
		listener: listener, secret: secret, started: time.Now().Unix(),
		received: make(chan ircmsg.Message, 64), uuids: map[string]string{},
	}
	d.running.Go(func() {
		conn, err := listener.Accept()
		if err == nil {
			err = d.serve(conn)
		}
		d.end(err)
	})
	return d, nil
}

func (d *ircd) addr() string { return d.listener.Addr().String() }

func (d *ircd) close() {
	_ = d.listener.Close()
	d.mu.Lock()
	if d.conn != nil {
		_ = d.conn.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
}

func (d *ircd) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = errors.Join(err, net.ErrClosed)
	close(d.received)
}

func (d *ircd) next(ctx context.Context, tag, value string) (ircmsg.Message, error) {
	for {
		select {
		case m, ok := <-d.received:
			if !ok {
				return m, fmt.Errorf("link of the IRC server: %w", d.err)
			}
			if _, got := m.GetTag(tag); got == value {
				return m, nil
			}
		case <-ctx.Done():
			return ircmsg.Message{}, fmt.Errorf("wait for %s=%s on IRC: %w", tag, value, context.Cause(ctx))
		}
	}
}

func (d *ircd) tagmsg(target string, tags map[string]string) error {
	d.mu.Lock()
	if uuid, ok := d.uuids[strings.ToLower(target)]; ok {
		target = uuid
	}
	d.mu.Unlock()
	m := ircmsg.MakeMessage(tags, personID, "TAGMSG", target)
	text, err := m.Line()
	if err != nil {
		return fmt.Errorf("write TAGMSG: %w", err)
	}
	return d.send("%s", strings.TrimSpace(text))
}

func (d *ircd) send(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := fmt.Fprintf(d.conn, format+"\n", args...)
	return err
}

func (d *ircd) serve(conn net.Conn) error {
	d.mu.Lock()
	d.conn = conn
	d.mu.Unlock()
	defer func() { _ = conn.Close() }()
	if err := d.send("CAPAB START 1205"); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		m, err := ircmsg.ParseLine(lines.Text())
		if err == nil {
			err = d.handle(m)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func (d *ircd) handle(m ircmsg.Message) error {
	switch {
	case m.Command == "CAPAB" && m.Params[0] == "START":
		return d.send("CAPAB MODULES :m_cloaking.so m_ircv3_ctctags.so\nCAPAB MODSUPPORT :m_services_account.so\n" +
			"CAPAB CAPABILITIES :NICKMAX=30 CHANMAX=64 IDENTMAX=10 MAXREAL=128 MAXHOST=64 MAXLINE=512 CASEMAPPING=rfc1459\nCAPAB END")
	case m.Command == "SERVER" && len(m.Params) == 5:
		if m.Params[1] != d.secret {
			return errors.New("the gateway sent another password")
		}
		return d.send("SERVER %s %s 0 %s :the demonstration", ircdName, d.secret, ircdSID)
	case m.Command == "BURST":
		return d.burst()
	case m.Command == "UID" && len(m.Params) > 2:
		d.mu.Lock()
		d.uuids[strings.ToLower(m.Params[2])] = m.Params[0]
		d.mu.Unlock()
	case m.Command == "PING":
		return d.send(":%s PONG %s", ircdSID, m.Source)
	case m.Command == "TAGMSG":
		d.received <- m
	case m.Command == "SQUIT":
		return errors.New("the gateway left") // it waits until the connection is closed
	case m.Command == "ERROR":
		return fmt.Errorf("the gateway says %q", m.Params)
	}
	return nil
}

func (d *ircd) burst() error {
	at := d.started - 60
	return d.send(":%[1]s BURST %[7]d\n:%[1]s SINFO version :InspIRCd-3. %[3]s :\n"+
		":%[1]s UID %[4]s %[2]d %[5]s 127.0.0.1 127.0.0.1 %[5]s 127.0.0.1 %[2]d +s +Ll :real %[5]s\n"+
		":%[1]s FJOIN %[6]s %[2]d +nt :o,%[4]s:0\n:%[1]s ENDBURST", ircdSID, at, ircdName, personID, person, channel, time.Now().Unix())
}

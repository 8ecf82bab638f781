package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// room is a guest of an XMPP server in biboumi's room for the channel of an IRC server. It rejoins
// after an outage of biboumi or the IRC server.
type room struct {
	conn   net.Conn
	decode *xml.Decoder
	jid    string // of the room
	tally  *tally

	writing sync.Mutex
	joined  chan struct{} // closed after the first join
	once    sync.Once
}

// The XMPP addresses of biboumi's component, and of the IRC server at biboumi.
const (
	component = "irc.localhost"
	ircServer = "127.0.0.1@" + component
	nick      = "ann"
)

func joinRoom(ctx context.Context, addr string, port int, t *tally) (*room, error) {
	conn, err := net.Dial("tcp", addr) //nolint:noctx // the loopback answers at once
	if err != nil {
		return nil, err
	}
	r := &room{conn: conn, decode: xml.NewDecoder(conn), jid: channel + "%" + ircServer, tally: t, joined: make(chan struct{})}
	if err := conn.SetDeadline(time.Now().Add(startTime)); err != nil {
		return nil, err
	}
	if err := r.login(); err != nil {
		return nil, fmt.Errorf("log in at the XMPP server: %w", err)
	}
	if err := until(ctx, func() error { return r.configure(port) }); err != nil {
		return nil, fmt.Errorf("configure biboumi: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	go func() { _ = r.read() }() // it ends with the server
	for {
		if err := r.enter(); err != nil {
			return nil, err
		}
		select {
		case <-r.joined:
			return r, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(enterWait):
		}
	}
}

const enterWait = 200 * time.Millisecond

type stanza struct {
	XMLName xml.Name
	From    string `xml:"from,attr"`
	Type    string `xml:"type,attr"`
	Body    string `xml:"body"`
	Command struct {
		Session string `xml:"sessionid,attr"`
		Status  string `xml:"status,attr"`
	} `xml:"http://jabber.org/protocol/commands command"`
}

func (r *room) write(format string, values ...any) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	_, err := fmt.Fprintf(r.conn, format, values...)
	return err
}

func (r *room) next() (s stanza, err error) {
	for {
		token, err := r.decode.Token()
		if err != nil {
			return s, err
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local != "stream" {
			return s, r.decode.DecodeElement(&s, &start)
		}
	}
}

func (r *room) ask(name, format string, values ...any) (stanza, error) {
	if err := r.write(format, values...); err != nil {
		return stanza{}, err
	}
	for {
		s, err := r.next()
		if err != nil || s.XMLName.Local == name {
			return s, err
		}
	}
}

func (r *room) login() error {
	const open = `<stream:stream to="localhost" version="1.0" xmlns="jabber:client" xmlns:stream="http://etherx.jabber.org/streams">`
	if _, err := r.ask("features", open); err != nil {
		return err
	}
	if _, err := r.ask("success", `<auth xmlns="urn:ietf:params:xml:ns:xmpp-sasl" mechanism="ANONYMOUS"/>`); err != nil {
		return err
	}
	r.decode = xml.NewDecoder(r.conn)
	if _, err := r.ask("features", open); err != nil {
		return err
	}
	if _, err := r.ask("iq", `<iq type="set" id="bind"><bind xmlns="urn:ietf:params:xml:ns:xmpp-bind"/></iq>`); err != nil {
		return err
	}
	return r.write("<presence/>")
}

// configure makes biboumi use the port of the IRC server without TLS, and write lines at once. By
// default it writes one line per second.
func (r *room) configure(port int) error {
	const command = `<iq type="set" id="%s" to="` + ircServer + `"><command xmlns="http://jabber.org/protocol/commands" node="configure" %s</command></iq>`
	form, err := r.ask("iq", command, "form", `action="execute">`)
	if err != nil {
		return &finalError{err}
	}
	if form.Type != "result" {
		return errors.New("biboumi offers no configuration")
	}
	const field = `<field var="%s"><value>%s</value></field>`
	fields := fmt.Sprintf(field+field+field, "ports", strconv.Itoa(port), "tls_ports", "", "throttle_limit", "-1")
	answer, err := r.ask("iq", command, "submit",
		fmt.Sprintf(`sessionid="%s" action="complete"><x xmlns="jabber:x:data" type="submit">%s</x>`, form.Command.Session, fields))
	if err != nil {
		return &finalError{err}
	}
	if answer.Type != "result" || answer.Command.Status != "completed" {
		return fmt.Errorf("biboumi answers %q %q", answer.Type, answer.Command.Status)
	}
	return nil
}

func (r *room) enter() error {
	return r.write(`<presence to="%s/%s"><x xmlns="http://jabber.org/protocol/muc"/></presence>`, r.jid, nick)
}

func (r *room) read() error {
	lost := time.Time{}
	for {
		s, err := r.next()
		if err != nil {
			return err
		}
		own := s.From == r.jid+"/"+nick
		switch {
		case s.XMLName.Local == "presence" && own && s.Type == "":
			r.once.Do(func() { close(r.joined) })
			r.tally.bridgeIs(true)
			lost = time.Time{}
		case s.XMLName.Local == "presence" && own, s.Type == "error":
			if lost.IsZero() {
				r.tally.bridgeIs(false)
			}
			if time.Since(lost) < enterWait {
				continue
			}
			lost = time.Now()
			time.AfterFunc(enterWait, func() { _ = r.enter() }) // after an error, the next stanza retries
		case s.XMLName.Local == "message" && own:
			if a, ok := numberIn(s.Body); ok {
				r.tally.accepted(a)
			}
		}
	}
}

func (r *room) say(text string) error {
	return r.write(`<message type="groupchat" to="%s"><body>%s</body></message>`, r.jid, text)
}

// offer implements sender. XMPP has no IRC tags, so only the title is sent.
func (r *room) offer(title string) error { return r.say(title) }

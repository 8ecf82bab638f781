package bench

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/federation"
	"baton/translate"
)

// betweenCrossings keeps the steps apart: 50 a second.
const betweenCrossings = 20 * time.Millisecond

// measureLatency measures how long one step is on its way through a gateway that does nothing
// else: from the write of its text until its reader has it, which is after it is on disk.
func (r *run) measureLatency(ctx context.Context) (err error) {
	dir, err := r.folder("relay")
	if err != nil {
		return err
	}
	floor, err := openRelay(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.Close()) }()
	g, err := r.openGateway(ctx, "latency")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	c := &crossing{bare: floor, pairs: map[string]*pair{}, plot: Plot{Title: "How long one step is on its way", X: "percentile, as 1 in n", Y: "milliseconds"}}
	for client := range r.clients {
		if err := c.open(ctx, g, client); err != nil {
			return err
		}
		err := c.crossAll(ctx, r.irc)
		if err := errors.Join(err, c.hangUp()); err != nil {
			return err
		}
	}
	c.summarize(r.report)
	return nil
}

// crossing is an IRC client that offers, one that reads, and an agent that waits for its inbox.
type crossing struct {
	bare       *relay
	alice, bob *ircClient
	scholar    *caller
	poster     *connection // of the agent
	stream     *reader
	pairs      map[string]*pair
	names      []string // of the pairs, in order
	plot       Plot
}

// pair is how long a kind of step took, and what stands for it without a gateway.
type pair struct {
	floor      string
	took, bare []time.Duration
}

// open connects all of them. The server reads so many lines of one client at once and then no
// faster than people type, so that each round has new clients.
func (c *crossing) open(ctx context.Context, g *gateway, round int) (err error) {
	if c.alice, err = dialIRC(ctx, g.irc, fmt.Sprintf("alice%d", round)); err != nil {
		return err
	}
	if c.bob, err = dialIRC(ctx, g.irc, fmt.Sprintf("bob%d", round)); err != nil {
		return err
	}
	if c.scholar, err = logIn(ctx, g.public); err != nil {
		return err
	}
	if c.poster, err = dial(ctx, g.public); err != nil {
		return err
	}
	c.stream, err = c.scholar.watch(ctx)
	return err
}

func (c *crossing) hangUp() error {
	return errors.Join(c.alice.Close(), c.bob.Close(), c.poster.Close(), c.stream.Close())
}

// The names of the crossings, and of their floors.
const (
	toAgent    = "IRC client to an agent that waits"
	toClient   = "agent to an IRC client"
	amongIRC   = "IRC client to IRC client"
	bareRelay  = "sockets and one write to the disk"
	privateMsg = "a message that is not filed"
)

// crossAll sends so many steps of each kind, and as many times what stands for them.
func (c *crossing) crossAll(ctx context.Context, times int) error {
	for i := range times {
		for _, each := range []func(context.Context, int) error{c.crossFromIRC, c.crossFromAgent} {
			time.Sleep(betweenCrossings)
			if err := each(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// crossFromIRC has alice offer something to the agent in the channel, where bob sees it too,
// and say something there.
func (c *crossing) crossFromIRC(ctx context.Context, n int) error {
	offer, err := c.alice.offer(ctx, c.scholar.key.DID)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := c.alice.say(offer.line); err != nil {
		return err
	}
	seen, err := c.bob.await(" NOTICE ", offer.id)
	if err != nil {
		return err
	}
	arrived, err := c.stream.await("data: ", offer.id)
	if err != nil {
		return err
	}
	bare, err := c.bare.cross()
	if err != nil {
		return err
	}
	c.note(toAgent, bareRelay, arrived.at.Sub(begun), bare)
	text := fmt.Sprintf("text%dx", n)
	spoken := time.Now()
	if err := c.alice.say("PRIVMSG " + channel + " :" + text + "\r\n"); err != nil {
		return err
	}
	heard, err := c.bob.await("PRIVMSG", text)
	if err != nil {
		return err
	}
	c.note(amongIRC, privateMsg, seen.at.Sub(begun), heard.at.Sub(spoken))
	return nil
}

// crossFromAgent has the agent offer something in the channel.
func (c *crossing) crossFromAgent(ctx context.Context, _ int) error {
	request, id, err := c.scholar.postIn(ctx, c.alice.key.DID, channel)
	if err != nil {
		return err
	}
	begun := time.Now()
	if _, err := c.poster.send(request); err != nil {
		return err
	}
	seen, err := c.alice.await(id)
	if err != nil {
		return err
	}
	bare, err := c.bare.cross()
	if err != nil {
		return err
	}
	c.note(toClient, bareRelay, seen.at.Sub(begun), bare)
	return nil
}

func (c *crossing) note(name, floor string, took, bare time.Duration) {
	p := c.pairs[name]
	if p == nil {
		p = &pair{floor: floor}
		c.pairs[name] = p
		c.names = append(c.names, name)
	}
	p.took, p.bare = append(p.took, took), append(p.bare, bare)
}

// summarize adds the rows and the plot.
func (c *crossing) summarize(report *Report) {
	for _, name := range c.names {
		p := c.pairs[name]
		for _, percent := range []float64{50, 99} {
			goal := "<= 2.0"
			if percent > 50 && p.floor == bareRelay {
				goal = "<= 2.5"
			}
			report.add(Row{
				What: fmt.Sprintf("%s, p%.0f", name, percent), Value: milliseconds(percentile(p.took, percent)), Unit: "ms",
				Floor: p.floor, Bare: milliseconds(percentile(p.bare, percent)), Goal: goal,
			})
		}
		c.plot.Series = append(c.plot.Series, tail(name, p.took))
	}
	c.plot.Series = append(c.plot.Series, tail(bareRelay, c.pairs[toAgent].bare))
	report.Plots = append(report.Plots, c.plot)
}

// tail returns how long the slowest of n take, for more and more.
func tail(name string, took []time.Duration) Series {
	s := Series{Name: name}
	for _, n := range []float64{2, 4, 10, 20, 50, 100} {
		s.Points = append(s.Points, [2]float64{n, milliseconds(percentile(took, 100-100/n))})
	}
	return s
}

// ircClient is a client of the server for IRC clients.
type ircClient struct {
	*reader

	conn net.Conn
	key  federation.SigningKey
}

// dialIRC connects a client, logs it in, and has it join the channel.
func dialIRC(ctx context.Context, address, nick string) (_ *ircClient, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &ircClient{conn: conn, reader: read(conn, conn.Close, conn), key: newKey()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("log %s in on IRC: %w", nick, err), c.Close())
		}
	}()
	challenge, err := c.ask("AUTHENTICATE ATPROTO-CHALLENGE\r\n", "AUTHENTICATE ")
	if err != nil {
		return nil, err
	}
	proof, err := c.prove(ctx, challenge.text)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct{ say, until string }{
		{"AUTHENTICATE " + proof + "\r\n", " 903 "},
		{"CAP REQ message-tags\r\nNICK " + nick + "\r\nUSER " + nick + " 0 * :" + nick + "\r\nCAP END\r\n", " 001 "},
		{"JOIN " + channel + "\r\n", " 366 "},
	} {
		if _, err := c.ask(step.say, step.until); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// prove answers a challenge with a signature, as the server takes it.
func (c *ircClient) prove(ctx context.Context, line string) (string, error) {
	words := strings.Fields(line)
	document, err := base64.RawURLEncoding.DecodeString(words[len(words)-1])
	if err != nil {
		return "", fmt.Errorf("read challenge: %w", err)
	}
	signature, err := c.key.Sign(ctx, document)
	if err != nil {
		return "", err
	}
	answer, err := json.Marshal(map[string]string{"did": string(c.key.DID), "signature": base64.RawURLEncoding.EncodeToString(signature)})
	return base64.RawURLEncoding.EncodeToString(answer), err
}

// ask says something and returns the first line after it that contains a text.
func (c *ircClient) ask(line, until string) (timed, error) {
	if err := c.say(line); err != nil {
		return timed{}, err
	}
	return c.await(until)
}

func (c *ircClient) say(line string) error {
	_, err := c.conn.Write([]byte(line))
	return err
}

// spoken is an offer as a client writes it.
type spoken struct{ id, line string }

// offer returns a signed offer to an agent, in the channel.
func (c *ircClient) offer(ctx context.Context, to federation.DID) (spoken, error) {
	ev, err := newOffer(ctx, c.key, to, channel)
	if err != nil {
		return spoken{}, err
	}
	m := ircmsg.MakeMessage(translate.Wire(ev, nil), "", "TAGMSG", channel)
	line, err := m.Line()
	return spoken{ev.ID.String(), line}, err
}

// reader reads lines, and notes when each came.
type reader struct {
	lines chan timed
	close func() error
}

type timed struct {
	text string
	at   time.Time
}

// maxAhead is how many lines a reader reads before they are looked at.
const maxAhead = 4096

// read reads lines of a connection until it ends. It answers the PINGs of an IRC server, which
// count as proof that its lines arrived; pongs is nil for other servers. Close the reader.
func read(from io.Reader, hangUp func() error, pongs io.Writer) *reader {
	r := &reader{lines: make(chan timed, maxAhead), close: hangUp}
	go func() {
		defer close(r.lines)
		scanner := bufio.NewScanner(from)
		for scanner.Scan() {
			line := timed{scanner.Text(), time.Now()}
			if proof, isPing := strings.CutPrefix(line.text, "PING "); isPing && pongs != nil {
				if _, err := io.WriteString(pongs, "PONG "+proof+"\r\n"); err != nil {
					return
				}
			}
			r.lines <- line
		}
	}()
	return r
}

// await returns the next line that contains all of some texts.
func (r *reader) await(texts ...string) (timed, error) {
	deadline := time.After(patience)
	for {
		select {
		case line, open := <-r.lines:
			if !open {
				return timed{}, fmt.Errorf("the connection ended before %q", texts)
			}
			if containsAll(line.text, texts) {
				return line, nil
			}
		case <-deadline:
			return timed{}, fmt.Errorf("%q did not come", texts)
		}
	}
}

func containsAll(line string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return false
		}
	}
	return true
}

// Close ends the connection, and waits until no line is read any more.
func (r *reader) Close() error {
	err := r.close()
	for range r.lines { //nolint:revive // the lines that were read ahead
	}
	return err
}

// watch streams the inbox of an agent.
func (c *caller) watch(ctx context.Context) (*reader, error) {
	request, err := c.request(ctx, http.MethodGet, "inbox/stream", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	r := read(response.Body, response.Body.Close, nil)
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("watch inbox: %s", response.Status), r.Close())
	}
	return r, nil
}

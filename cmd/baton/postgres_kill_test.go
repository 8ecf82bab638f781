//go:build interop && long

package main_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// The points at which the server of the record is killed, and the gateway lives on.
const (
	whileServing = "serving" // a step is written, and the server never told to commit it
	whenServed   = "served"  // it is committed, and the gateway never told
)

// postgresKills is how many there are, so that each point has its turn.
const postgresKills = 39

// The gateway is killed at each point of the path of a step, and so is the server of its
// record: by the carrier of the messages between the two.
func TestPostgresKillsLoseNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := &line{server: server}
	g := newGauntlet(t, 0, "[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"")
	line.gauntlet = g
	g.keep(t, "dsn", strings.Replace(server.Schema(t), server.Folder(), line.listen(t), 1))
	g.points = append(deaths(), whileServing, whenServed)
	g.outside = append(g.outside, whileFiling, whileSettling, whileReading, whileServing, whenServed)
	g.mend = func() bool { return line.mend(t) }
	g.introduce(t)
	for g.killed < postgresKills {
		g.carry(t)
	}
	g.spare(t)
	g.judge(t)
}

// line is the connection between a gateway and the server of its record.
type line struct {
	*gauntlet
	server *postgrestest.Server

	mu   sync.Mutex
	shot bool // the server is dead
}

// listen returns the folder in which the gateway finds a socket as of a server.
func (l *line) listen(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "baton-line-") //nolint:usetesting // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "unix", filepath.Join(folder, postgrestest.Socket))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { l.connect(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// connect carries one connection of the gateway to the server, and back.
func (l *line) connect(gateway net.Conn) {
	defer gateway.Close()
	server, err := net.Dial("unix", filepath.Join(l.server.Folder(), postgrestest.Socket)) //nolint:noctx // it ends with the gateway's
	if err != nil {
		return
	}
	talk := &talk{line: l, queries: map[string]string{}}
	var back sync.WaitGroup
	back.Go(func() {
		_ = talk.answers(gateway, server)
		_ = gateway.Close()
	})
	_ = talk.asks(server, gateway)
	_ = server.Close()
	back.Wait()
}

// talk is one connection.
type talk struct {
	*line

	queries map[string]string // parsed queries, by name
	changes []string          // queries of this transaction, nil outside of one

	mu     sync.Mutex
	unsaid bool // the server must not be heard to have committed
}

// asks passes on each message to the server, unless a process has to die over it.
//
// spec: PostgreSQL "Message Formats"
func (c *talk) asks(to io.Writer, from io.Reader) error {
	first := true // which has no type
	for {
		message, err := readMessage(from, first)
		if err != nil {
			return err
		}
		if !first && !c.hears(message) {
			return errors.New("somebody died")
		}
		if _, err := to.Write(message); err != nil {
			return err
		}
		first = false
	}
}

func readMessage(from io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
	_, err := io.ReadFull(from, rest)
	return slices.Concat(head, rest), err
}

// hears notes a query, and reports whether to pass it on.
func (c *talk) hears(message []byte) bool {
	texts := strings.SplitN(string(message[5:]), "\x00", 3)
	switch message[0] {
	case 'P': // parse: a name, and a query
		c.queries[texts[0]] = texts[1]
	case 'B': // bind: the name of the portal, and that of a query
		switch query := c.queries[texts[1]]; {
		case query == "BEGIN":
			c.changes = []string{}
		case query == "COMMIT":
			changes := c.changes
			c.changes = nil
			return c.commits(changes)
		case c.changes != nil:
			c.changes = append(c.changes, query)
		}
	}
	return true
}

// commits kills the process whose time it is, when a transaction is about to be committed.
func (c *talk) commits(changes []string) bool {
	for point, wanted := range map[string][]string{
		whileFiling:   {"INSERT INTO event "},
		whileSettling: {"UPDATE delivery SET state "},
		whileReading:  {"UPDATE message ", "UPDATE agent ", "UPDATE inbox "},
	} {
		if began(changes, wanted) && c.dies(point) {
			_ = c.process.Process.Kill()
			return false
		}
	}
	if !began(changes, []string{"INSERT INTO event "}) {
		return true
	}
	if c.dies(whileServing) {
		c.shoot()
		return false
	}
	if c.dies(whenServed) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unsaid = true
	}
	return true
}

// began reports whether any query begins with any of some words.
func began(queries, words []string) bool {
	for _, query := range queries {
		for _, word := range words {
			if strings.HasPrefix(query, word) {
				return true
			}
		}
	}
	return false
}

// answers passes on the server's answers, until it is killed over one.
func (c *talk) answers(to io.Writer, from io.Reader) error {
	said := make([]byte, 64<<10)
	for {
		n, err := from.Read(said)
		if err != nil {
			return err
		}
		c.mu.Lock()
		unsaid := c.unsaid
		c.mu.Unlock()
		if unsaid && bytes.Contains(said[:n], []byte("COMMIT\x00")) {
			c.shoot()
			return errors.New("the server died")
		}
		if _, err := to.Write(said[:n]); err != nil {
			return err
		}
	}
}

// shoot kills the server.
func (l *line) shoot() {
	l.server.Shoot()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shot = true
}

// mend restarts a killed server, and waits until the gateway works again by
// itself.
func (l *line) mend(t *testing.T) bool {
	t.Helper()
	l.mu.Lock()
	shot := l.shot
	l.shot = false
	l.mu.Unlock()
	if !shot {
		return false
	}
	await(t, "the gateway to miss the record", func() bool {
		status, _ := l.ask(t, "/readyz")
		return status != 200
	})
	l.server.Kill(t)
	l.server.Run(t)
	await(t, fmt.Sprintf("the gateway to go on after the server died while %s", l.point), func() bool {
		status, _ := l.ask(t, "/readyz")
		return status == 200
	})
	return true
}

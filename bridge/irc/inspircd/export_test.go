package inspircd

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"github.com/baton-gateway/baton/bridge/irc"
)

// SetDial gives a link another way to its peer.
func (l *Link) SetDial(dial func(ctx context.Context) (net.Conn, error)) { l.dial = dial }

// Limits that tests go to.
const (
	MaxLineBytes = maxLineBytes
	MaxSilence   = maxSilence
	MaxPseudos   = irc.MaxPseudoClients
	MaxSteps     = maxSteps
	MaxVisits    = maxVisits
	FirstReturn  = firstReturn
)

// Prove is the proof of a password.
func Prove(password, challenge string) string { return prove(password, challenge) }

// Read has a session act on lines of a linked peer, and returns its output.
func Read(ctx context.Context, l *Link, protocol int, lines []string) string {
	ours, theirs := net.Pipe()
	var written bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&written, theirs) })
	s := newSession(l, ours)
	s.protocol, s.up, s.Submitting = version(protocol), func() {}, ctx
	s.net.peer, s.net.servers["1AA"] = "1AA", ""
	s.Start()
	for _, text := range lines {
		if s.handleLine(ctx, line{text: text}) != nil {
			break
		}
	}
	s.publish()
	s.lastWord(":" + s.sid() + " SQUIT " + s.sid())
	s.link.live.Store(nil)
	s.End()
	reading.Wait()
	l.roster.leave()
	return written.String()
}

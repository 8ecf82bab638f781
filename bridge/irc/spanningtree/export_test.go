package spanningtree

import (
	"context"
	"net"

	"baton/bridge/irc"
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

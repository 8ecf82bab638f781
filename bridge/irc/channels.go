package irc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"baton/federation"
	"baton/translate"
)

// Channels are the channels of a link: what this federation calls each, and what it is
// called on that network. Make them with [ParseChannels]; they never change.
type Channels struct {
	here    []string // venues of this federation
	there   []string // the same as venues on the network
	spelled []string // the same as the configuration spells them
}

// called stands in the configuration between the two names of a channel.
const called = " as "

// ParseChannels reads the channels of a link: each is a name, or two names as in
// "#ops as #agents" for a channel of this federation that has another name there, of at
// most that many bytes. Its error says what is wrong with the first that is none.
func ParseChannels(entries []string, maxBytes int) (Channels, error) {
	var c Channels
	if len(entries) == 0 {
		return c, errors.New(`want at least one, as in ["#ops"]`)
	}
	for _, entry := range entries {
		name, spelled, two := strings.Cut(entry, called)
		if !two {
			spelled = name
		}
		here, ok := channel(name, maxBytes)
		there, okThere := channel(spelled, maxBytes)
		switch {
		case !ok || !okThere:
			return c, fmt.Errorf("%q is no channel: want \"#\" and up to %d bytes without space or comma", entry, maxBytes-1)
		case slices.Contains(c.here, here) || slices.Contains(c.there, there):
			return c, fmt.Errorf("%q is there twice", entry)
		}
		c.here, c.there, c.spelled = append(c.here, here), append(c.there, there), append(c.spelled, spelled)
	}
	return c, nil
}

func channel(name string, maxBytes int) (venue string, ok bool) {
	venue, ok = translate.Channel(name)
	return venue, ok && len(name) >= 2 && len(name) <= maxBytes && !strings.ContainsFunc(name, unicode.IsControl)
}

// Here returns the channels as venues of this federation.
func (c Channels) Here() []string { return slices.Clone(c.here) }

// There returns the channels as venues on the network, in the same order.
func (c Channels) There() []string { return slices.Clone(c.there) }

// Spelled returns the channels as the configuration spells their names on the network,
// in the same order.
func (c Channels) Spelled() []string { return slices.Clone(c.spelled) }

// Out returns the venue on the network of one of this federation. What is no channel of
// the link is the same on both sides.
func (c Channels) Out(here string) (there string) {
	if i := slices.Index(c.here, here); i >= 0 {
		return c.there[i]
	}
	return here
}

// Place returns where a step belongs that was signed for a venue on the network: the zero
// Place where that says it itself.
func (c Channels) Place(there string) federation.Place {
	if here, ok := c.In(there); ok && here != there {
		return federation.Place{Venue: here}
	}
	return federation.Place{}
}

// In returns the venue of this federation of one on the network, false for one that is
// no channel of the link.
func (c Channels) In(there string) (here string, ok bool) {
	i := slices.Index(c.there, there)
	if i < 0 {
		return "", false
	}
	return c.here[i], true
}

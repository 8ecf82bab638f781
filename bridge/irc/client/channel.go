package client

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// Bounds of one channel and of the channels of one client.
const (
	maxChannelBytes = 64   // of a name
	maxChannels     = 50   // that one client is in
	maxRooms        = 8192 // channels at a time, at some hundred bytes each
	maxBans         = 64   // of one channel
	maxKeyBytes     = 32
	maxInvited      = 64 // channels that one client is invited to at a time
	maxOperators    = 64 // DIDs that are operators of one channel again when they come back
)

// member is what a client is in a channel.
type member struct {
	operator, voice bool
}

// prefix returns the signs before a nick: the highest, or all of them.
func (m member) prefix(all bool) string {
	switch {
	case m.operator && m.voice && all:
		return "@+"
	case m.operator:
		return "@"
	case m.voice:
		return "+"
	}
	return ""
}

// ban is one mask whose clients stay out.
type ban struct {
	mask, by string
	at       time.Time
}

// channel is a place to talk.
type channel struct {
	name      string
	made      time.Time
	lasting   bool // it is one of the configuration: there without members, and without operators
	members   map[*user]*member
	topic     string
	topicBy   string
	topicAt   time.Time
	modes     map[byte]bool // of i, m, n, s and t
	key       string
	limit     int // members; 0 for none
	bans      []ban
	operators map[federation.DID]bool // when they come back
}

func newChannel(name string, now time.Time) *channel {
	return &channel{
		name: name, made: now, members: map[*user]*member{}, modes: map[byte]bool{'n': true, 't': true},
		operators: map[federation.DID]bool{},
	}
}

// everyone yields the members.
func (c *channel) everyone(yield func(*user) bool) {
	for u := range c.members {
		if !yield(u) {
			return
		}
	}
}

// others yields the members but one.
func (c *channel) others(not *user) iter.Seq[*user] {
	return func(yield func(*user) bool) {
		for u := range c.members {
			if u != not && !yield(u) {
				return
			}
		}
	}
}

// banned reports whether a client is kept out.
func (c *channel) banned(u *user) bool {
	return slices.ContainsFunc(c.bans, func(b ban) bool { return u.matches(b.mask) })
}

// speaks reports whether a client may say something in a channel.
func (c *channel) speaks(u *user) bool {
	m := c.members[u]
	switch {
	case m == nil && c.modes['n']:
		return false
	case m != nil && (m.operator || m.voice):
		return true
	}
	return !c.modes['m'] && !c.banned(u)
}

// seen reports whether a client is told that a channel is there.
func (c *channel) seen(u *user) bool { return !c.modes['s'] || c.members[u] != nil }

// modeString returns the modes of a channel, with their parameters. Only members are
// told the key.
func (c *channel) modeString(member bool) []string {
	letters := "+" + string(slices.Sorted(maps.Keys(c.modes)))
	var params []string
	if c.key != "" {
		letters += "k"
		params = append(params, "*")
		if member {
			params[0] = c.key
		}
	}
	if c.limit > 0 {
		letters += "l"
		params = append(params, itoa(c.limit))
	}
	return append([]string{letters}, params...)
}

// names returns the members as NAMES lists them to a client, in pieces that fit a line.
func (c *channel) names(to *user) []string {
	var lines []string
	line := ""
	for _, u := range slices.SortedFunc(maps.Keys(c.members), func(a, b *user) int { return strings.Compare(a.nick, b.nick) }) {
		if u.invisible && c.members[to] == nil {
			continue
		}
		name := c.members[u].prefix(to.caps.has(capMultiPrefix)) + u.nick
		if to.caps.has(capUserhost) {
			name = c.members[u].prefix(to.caps.has(capMultiPrefix)) + u.mask()
		}
		if len(line)+len(name) > maxListBytes {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+name, " ")
	}
	return append(lines, line)
}

// maxListBytes bounds a list of names in one line, beside the longest numeric that
// has one.
const maxListBytes = 350

package client

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// The goroutine of the server owns all fields of a user except wire and turn.
type user struct {
	wire   wire
	turn   chan func()  // work for the reader, sent once per line; may be nil
	addr   string       // without the port
	from   netip.Prefix // address for limits; zero if a proxy hides it
	host   string
	secure bool
	// handshaking is set during the TLS handshake, when nothing can be written.
	handshaking bool

	nick, ident, real string
	welcome           bool
	negotiating       bool
	version           int
	caps              capability
	account           federation.DID // "" for a guest
	relayed           federation.DID // DID of its last relayed text, or ""
	remote            federation.DID // set only for a user of another network, which has no connection
	holder            string         // distinguishes a guest from later users of its nick; "" until requested

	away      string
	invisible bool
	bot       bool
	channels  map[string]*channel
	invited   map[string]bool
	watching  map[string]bool      // folded nicks
	markers   map[string]time.Time // read positions, see markerKey

	since     time.Time
	lastInput time.Time
	spoke     time.Time
	asked     bool
	meter     irc.Meter
	work      func() // the reader's work for the current line, or nil
	later     []*later
	multiline *multiline
	answer    *answers // to the current labelled command, or nil
	seen      irc.Recent
	pages     uint64 // inbox pages sent, over all replays
	replay    *replay
	proofs    map[string]chan<- error // pending deliveries, by the token of the PING after them

	login    *login
	unwatch  func()
	bound    string // login name: its DID, certificate fingerprint or token name
	failures int

	pending []byte
	flying  int           // bytes with the writer
	written chan struct{} // closed once all pending lines are written; nil without a waiter
	dirty   bool
	full    bool // its queue overflowed; nothing more is added
	over    bool // removed; nothing more is added
}

type answers struct {
	label    string
	messages []message
}

func (u *user) named() string {
	if u.nick == "" {
		return "*"
	}
	return u.nick
}

func (u *user) mask() string { return u.nick + "!" + u.ident + "@" + u.host }

func (u *user) accountName() string {
	if u.account == "" {
		return "*"
	}
	return string(u.account)
}

func (u *user) textMessage(command string, params ...string) message {
	m := textMessage(u.mask(), command, params...)
	m.account, m.bot = string(u.account), u.bot
	return m
}

func (u *user) newMessage(command string, params ...string) message {
	m := u.textMessage(command, params...)
	m.trailing = false
	return m
}

// A mask has the form nick!user@host with * and ?, or is a DID.
func (u *user) matches(mask string) bool {
	if strings.HasPrefix(mask, "did:") {
		return mask == string(u.account)
	}
	return federation.Glob(fold(mask), fold(u.mask()))
}

// fullMask completes a mask: "x" is x!*@*, "x@y" is *!x@y.
func fullMask(mask string) string {
	if strings.HasPrefix(mask, "did:") {
		return mask
	}
	nick, rest, bang := strings.Cut(mask, "!")
	if !bang && strings.Contains(mask, "@") {
		nick, rest = "*", mask
	}
	ident, host, _ := strings.Cut(rest, "@")
	return orStar(nick) + "!" + orStar(ident) + "@" + orStar(host)
}

func orStar(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

const (
	maxChannelBytes = 64
	maxChannels     = 50   // per client
	maxRooms        = 8192 // at a time, at some hundred bytes each
	maxBans         = 64   // per channel, over all lists
	maxKeyBytes     = 32
	maxInvited      = 64
	maxOperators    = 64 // see channel.operators
)

type member struct {
	operator, voice bool
}

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

type ban struct {
	mask, by string
	at       time.Time
}

type channel struct {
	name      string
	made      time.Time
	last      time.Time
	lasting   bool // configured: exists without members, and has no operators
	members   map[*user]*member
	topic     string
	topicBy   string
	topicAt   time.Time
	modes     map[byte]bool // subset of i, m, n, s and t
	key       string
	limit     int                     // 0 for none
	masks     map[byte][]ban          // by mode, see maskLists
	operators map[federation.DID]bool // they become operators on return
}

func newChannel(name string, now time.Time) *channel {
	return &channel{
		name: name, made: now, members: map[*user]*member{}, masks: map[byte][]ban{}, modes: map[byte]bool{'n': true, 't': true},
		operators: map[federation.DID]bool{},
	}
}

func (c *channel) everyone(yield func(*user) bool) {
	for u := range c.members {
		if !yield(u) {
			return
		}
	}
}

func (c *channel) others(not *user) iter.Seq[*user] {
	return func(yield func(*user) bool) {
		for u := range c.members {
			if u != not && !yield(u) {
				return
			}
		}
	}
}

func (c *channel) lists(mode byte, u *user) bool {
	return slices.ContainsFunc(c.masks[mode], func(b ban) bool { return u.matches(b.mask) })
}

func (c *channel) banned(u *user) bool { return c.lists('b', u) && !c.lists('e', u) }

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

func (c *channel) seen(u *user) bool { return !c.modes['s'] || c.members[u] != nil }

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

// A list fits one line with the longest numeric.
const maxListBytes = 350

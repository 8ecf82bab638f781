package client

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// user is one connected client. All of it is the owner's but for wire and turn.
type user struct {
	wire   wire
	turn   chan func()  // from the owner to the reader, once for each line: what is to be done before the next; nil for nothing
	addr   string       // where it connects from, without the port
	from   netip.Prefix // the same as limits count it; zero if a proxy hides it
	host   string       // as others see it
	secure bool         // over TLS
	// handshaking is set during the TLS handshake, in which nothing can be written.
	handshaking bool

	nick, ident, real string
	welcome           bool           // registered
	negotiating       bool           // capabilities, before it is
	version           int            // of the negotiation
	caps              capability     // that it has
	account           federation.DID // that it proved to be; "" for a guest
	relayed           federation.DID // under which its text was relayed last; "" for none
	remote            federation.DID // of a user of another network, which has no connection here; "" for a client
	holder            string         // distinguishes a guest from later users of its nick; "" until asked for

	away      string // why it is; "" while it is not
	invisible bool
	bot       bool                 // it says that it is a program
	channels  map[string]*channel  // by venue
	invited   map[string]bool      // venues that it may come into
	watching  map[string]bool      // folded nicks
	markers   map[string]time.Time // up to when it has read, see markerKey

	since     time.Time // when it connected
	heard     time.Time // when it last said anything
	spoke     time.Time // when it last sent a message to another user or a channel
	asked     bool      // whether it lives, since it was heard
	meter     irc.Meter
	work      func()     // what the line that is acted on leaves to the reader; nil for nothing
	later     []*later   // that the work does
	multiline *multiline // that it is sending; nil for none
	answer    *answers   // to the labelled command that is acted on; nil without one
	seen      irc.Recent
	pages     uint64                  // of its inbox that it was sent, over all replays
	replay    *replay                 // of its inbox; nil for none
	proofs    map[string]chan<- error // of text that it was sent, by the token of the PING behind it

	login    *login // under way; nil for none
	unwatch  func() // ends the watch of its proof; nil without one
	bound    string // the name that it logged in with: its DID, the fingerprint of its certificate, or the name of its token
	failures int    // of logins

	pending []byte        // not given to the writer yet
	flying  int           // bytes that the writer has
	written chan struct{} // closed once all pending lines are written; nil without a waiter
	dirty   bool          // it is on the list of clients to be flushed
	full    bool          // too much waited for it, and nothing more is added
	over    bool          // it is none of ours any more: what is pending is its last
}

// answers collects what one labelled command is answered.
type answers struct {
	label    string
	messages []message
}

// named returns what a client is called in messages to it: "*" before it has a nick.
func (u *user) named() string {
	if u.nick == "" {
		return "*"
	}
	return u.nick
}

// mask returns the source of what a client says.
func (u *user) mask() string { return u.nick + "!" + u.ident + "@" + u.host }

// accountName returns the account as it stands where "*" is none.
func (u *user) accountName() string {
	if u.account == "" {
		return "*"
	}
	return string(u.account)
}

// says returns a message of this client's whose last parameter is text.
func (u *user) says(command string, params ...string) message {
	m := says(u.mask(), command, params...)
	m.account, m.bot = string(u.account), u.bot
	return m
}

// tells returns a message of this client's without text.
func (u *user) tells(command string, params ...string) message {
	m := u.says(command, params...)
	m.trailing = false
	return m
}

// matches reports whether a mask names a client: of the form nick!user@host with * and ?, or
// a DID.
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

// Bounds of one channel and of the channels of one client.
const (
	maxChannelBytes = 64   // of a name
	maxChannels     = 50   // that one client is in
	maxRooms        = 8192 // channels at a time, at some hundred bytes each
	maxBans         = 64   // masks in the lists of one channel
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

// ban is one mask of a list of a channel.
type ban struct {
	mask, by string
	at       time.Time
}

// channel is a place to talk.
type channel struct {
	name      string
	made      time.Time
	last      time.Time // of its newest message, see stamp
	lasting   bool      // it is one of the configuration: there without members, and without operators
	members   map[*user]*member
	topic     string
	topicBy   string
	topicAt   time.Time
	modes     map[byte]bool // of i, m, n, s and t
	key       string
	limit     int                     // members; 0 for none
	masks     map[byte][]ban          // by mode, see maskLists
	operators map[federation.DID]bool // when they come back
}

func newChannel(name string, now time.Time) *channel {
	return &channel{
		name: name, made: now, members: map[*user]*member{}, masks: map[byte][]ban{}, modes: map[byte]bool{'n': true, 't': true},
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

// lists reports whether a list of masks names a client.
func (c *channel) lists(mode byte, u *user) bool {
	return slices.ContainsFunc(c.masks[mode], func(b ban) bool { return u.matches(b.mask) })
}

// banned reports whether a client is kept out.
func (c *channel) banned(u *user) bool { return c.lists('b', u) && !c.lists('e', u) }

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

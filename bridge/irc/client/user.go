package client

import (
	"net/netip"
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
	from   netip.Prefix // the same as limits count it; zero where a proxy hides it
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

	away      string // why it is; "" while it is not
	invisible bool
	channels  map[string]*channel // by venue
	invited   map[string]bool     // venues that it may come into
	watching  map[string]bool     // folded nicks

	since  time.Time // when it connected
	heard  time.Time // when it last said anything
	spoke  time.Time // when it last sent a message to another user or a channel
	asked  bool      // whether it lives, since it was heard
	meter  irc.Meter
	work   func()   // what the line that is acted on leaves to the reader; nil for nothing
	later  []*later // that the work does
	answer *answers // to the labelled command that is acted on; nil without one
	seen   irc.Recent
	pages  uint64                  // of its inbox that it was sent, over all replays
	replay *replay                 // of its inbox; nil for none
	proofs map[string]chan<- error // of text that it was sent, by the token of the PING behind it

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
	m.account = string(u.account)
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

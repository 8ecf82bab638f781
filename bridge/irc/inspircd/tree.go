package inspircd

import (
	"strconv"
	"strings"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Limits of a server that announces none: the defaults of InspIRCd 3.15.
const (
	defaultNickBytes  = 30
	defaultIdentBytes = 10
	defaultHostBytes  = 64
	defaultRealBytes  = 128
	defaultChanBytes  = 64
)

// The module that provides TAGMSG: in 1205, and from 1206 on.
const (
	tagModule      = "m_ircv3_ctctags.so"
	tagModuleNewer = "ircv3_ctctags"
)

// A tree lasts as long as the connection and is as large as the network.
type tree struct {
	peer      string // SID
	challenge string
	tagmsg    bool
	ascii     bool // casemapping; else rfc1459

	nickBytes, identBytes, hostBytes, realBytes, chanBytes int

	modes map[byte]chanMode // channel modes, by letter

	servers  map[string]string // SID to that of the server before it; "" for the peer
	users    map[string]*user
	nicks    map[string]string         // folded nick to UUID
	signers  map[federation.DID]string // UUID of the last signing user
	accounts map[string]string         // to the UUID of the user that logged in last
	channels map[string]*channel
	left     func(*user)
}

type user struct {
	nick    string
	ident   string
	signon  string // as written by its server
	account string
	away    string
	relayed federation.DID // of its last relayed text, or ""
	signer  federation.DID // of its last step, or ""
	meter   irc.Meter
}

type channel struct {
	venue   string
	name    string
	ts      int64 // creation time, unix seconds; zero while it does not exist
	ours    bool
	members map[string]bool
	visited bool
	met     bool // had a member since the link came up
	awaited bool // an open offer waits for a member
	rules   rules
	kept    map[*pseudo]bool // kept out by the modes of the channel
}

func newTree(channels []string) *tree {
	t := &tree{
		nickBytes: defaultNickBytes, identBytes: defaultIdentBytes, hostBytes: defaultHostBytes, realBytes: defaultRealBytes,
		chanBytes: defaultChanBytes, modes: defaultModes(),
		servers: map[string]string{}, users: map[string]*user{}, nicks: map[string]string{},
		left: func(*user) {}, signers: map[federation.DID]string{}, accounts: map[string]string{}, channels: map[string]*channel{},
	}
	for _, name := range channels {
		venue, _ := translate.Channel(name)
		t.channels[venue] = &channel{
			venue: venue, name: name, members: map[string]bool{}, rules: newRules(), kept: map[*pseudo]bool{},
		}
	}
	return t
}

func (t *tree) capabilities(list, items string) {
	for item := range strings.FieldsSeq(items) {
		name, value, _ := strings.Cut(item, "=")
		switch list {
		case "MODULES", "MODSUPPORT":
			t.module(name, true)
		case "CHANMODES":
			t.chanMode(name, value)
		case "CAPABILITIES":
			t.capability(name, value)
		}
	}
}

func (t *tree) module(name string, loaded bool) {
	if name == tagModule || name == tagModuleNewer {
		t.tagmsg = loaded
	}
}

func (t *tree) capability(name, value string) {
	limit := func(into *int) {
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			*into = n
		}
	}
	switch name {
	case "CHALLENGE":
		t.challenge = value
	case "CASEMAPPING":
		t.ascii = value == "ascii"
	case "NICKMAX", "MAXNICK":
		limit(&t.nickBytes)
	case "IDENTMAX", "MAXUSER":
		limit(&t.identBytes)
	case "MAXHOST":
		limit(&t.hostBytes)
	case "MAXREAL":
		limit(&t.realBytes)
	case "CHANMAX", "MAXCHANNEL":
		limit(&t.chanBytes)
	}
}

// spec: rfc1459 §2.2
func (t *tree) fold(nick string) string {
	last := byte('^')
	if t.ascii {
		last = 'Z'
	}
	folded := []byte(nick)
	for i, c := range folded {
		if 'A' <= c && c <= last {
			folded[i] = c + 'a' - 'A'
		}
	}
	return string(folded)
}

// Our own server and users are not valid sources, because our lines are never sent back.
func (t *tree) knows(source string) bool {
	if len(source) == sidBytes {
		_, known := t.servers[source]
		return known
	}
	_, known := t.users[source]
	return known
}

func (t *tree) owner(nick string) string { return t.nicks[t.fold(nick)] }

func (t *tree) name(uuid, old, nick string) {
	t.forget(uuid, old)
	t.nicks[t.fold(nick)] = uuid
}

func (t *tree) forget(uuid, nick string) {
	if folded := t.fold(nick); t.nicks[folded] == uuid {
		delete(t.nicks, folded)
	}
}

func (t *tree) rename(uuid, nick string) {
	u := t.users[uuid]
	if u == nil {
		u = &user{}
		t.users[uuid] = u
	}
	t.name(uuid, u.nick, nick)
	u.nick = nick
}

// A user represents one DID at a time, so there are at most as many entries as users.
func (t *tree) signed(uuid string, did federation.DID) {
	u := t.users[uuid]
	if u == nil {
		return // left in the meantime
	}
	t.unsign(uuid)
	u.signer = did
	t.signers[did] = uuid
}

func (t *tree) unsign(uuid string) {
	if did := t.users[uuid].signer; t.signers[did] == uuid {
		delete(t.signers, did)
	}
}

// find prefers the last user that signed as a DID, then a user with one of its accounts, then the
// user with the given nick.
func (t *tree) find(did federation.DID, accounts []string, nick string) string {
	if uuid := t.signers[did]; uuid != "" {
		return uuid
	}
	for _, account := range accounts {
		if uuid := t.accounts[account]; uuid != "" {
			return uuid
		}
	}
	if uuid := t.owner(nick); t.users[uuid] != nil {
		return uuid
	}
	return ""
}

func (t *tree) quit(uuid string) {
	u := t.users[uuid]
	if u == nil {
		return
	}
	for _, ch := range t.channels {
		delete(ch.members, uuid)
	}
	t.unsign(uuid)
	t.logIn(uuid, "")
	t.forget(uuid, u.nick)
	delete(t.users, uuid)
	t.left(u)
}

// The servers behind it and their users send no QUIT.
func (t *tree) split(sid string) {
	gone := map[string]bool{sid: true}
	for grown := true; grown; {
		grown = false
		for server, before := range t.servers {
			if gone[before] && !gone[server] {
				gone[server], grown = true, true
			}
		}
	}
	for server := range gone {
		delete(t.servers, server)
	}
	for uuid := range t.users {
		if gone[uuid[:sidBytes]] {
			t.quit(uuid)
		}
	}
}

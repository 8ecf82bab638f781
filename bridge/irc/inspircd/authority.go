package inspircd

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/baton-gateway/baton/federation"
)

// Each server enforces channel modes only for its own users. These rules for the users of this
// gateway are the same as InspIRCd's for clients. Users of this gateway are never logged in to an
// account of the network.

// A bar is the reason why a user may not join a channel or speak in it, or "".
type bar string

const (
	removed     bar = "services of the network took the user out; they or an invitation let it back"
	longName    bar = "the name is longer than that network allows"
	inviteOnly  bar = "it is for invited users (+i): invite the user"
	hasKey      bar = "it has a key (+k): invite the user"
	full        bar = "it is full (+l): raise the limit, or invite the user"
	banned      bar = "the user is banned (+b)"
	registered  bar = "it is for users with an account of that network (+R)"
	moderated   bar = "it is moderated (+m): give the user voice"
	muted       bar = "users without an account of that network may not speak (+M): give the user voice"
	outsideOnly bar = "the user is not there (+n)"
)

func (s *session) entry(p *pseudo, ch *channel) bar {
	r := ch.rules
	switch {
	case len(ch.name) > s.net.chanBytes:
		return longName
	case ch.ts == 0 || p.memberships[ch.venue].age == ch.ts:
		return "" // creates the channel, or returns from a split as a member
	case r.flags[regInviteMode]:
		return registered
	case p.removed[ch.venue]:
		return removed
	case r.flags[inviteOnlyMode] && !s.listed(p, ch, inviteExceptMode, ""):
		return inviteOnly
	case r.flags[keyMode]:
		return hasKey
	case r.limit > 0 && s.population(ch) >= r.limit:
		return full
	case s.listed(p, ch, banMode, "") && !s.listed(p, ch, banExceptionMode, ""):
		return banned
	}
	return ""
}

func (s *session) speech(p *pseudo, ch *channel) bar {
	if !p.In[ch.venue] && ch.rules.flags[noOutsideMode] {
		return cmp.Or(s.entry(p, ch), outsideOnly)
	}
	return s.voice(p, ch)
}

func (s *session) voice(p *pseudo, ch *channel) bar {
	r := ch.rules
	switch {
	case s.rank(p, ch) >= voiceRank:
		return ""
	case r.flags[moderatedMode]:
		return moderated
	case r.flags[regModeratedMode]:
		return muted
	case s.listed(p, ch, banExceptionMode, "") || s.listed(p, ch, banExceptionMode, muteBan):
		return ""
	case s.listed(p, ch, banMode, "") || s.listed(p, ch, banMode, muteBan):
		return banned
	}
	return ""
}

func (s *session) rank(p *pseudo, ch *channel) int {
	highest := 0
	if held := p.memberships[ch.venue]; held.age == ch.ts {
		for _, letter := range []byte(held.status) {
			highest = max(highest, s.net.modes[letter].rank)
		}
	}
	return highest
}

func (s *session) population(ch *channel) int {
	n := len(ch.members)
	for _, p := range s.link.roster.byUUID {
		if p.In[ch.venue] {
			n++
		}
	}
	return n
}

const muteBan = "mute"

// A mask with any other extended ban matches none of our users.
func extbans() map[string]string {
	return map[string]string{
		"m": muteBan, muteBan: muteBan, "U": "unauthed", "unauthed": "unauthed",
		"r": "realname", "realname": "realname", "s": "server", "server": "server", "R": "account", "account": "account",
	}
}

// With an acting ban such as [muteBan], only masks of that ban count. Without one, only masks
// without an acting ban count.
func (s *session) listed(p *pseudo, ch *channel, mode, acting string) bool {
	for mask := range ch.rules.masks[mode] {
		kind, rest, is := strings.Cut(mask, ":")
		mutes := is && extbans()[kind] == muteBan
		switch {
		case mutes != (acting == muteBan):
		case mutes && s.matches(p, rest), !mutes && s.matches(p, mask):
			return true
		}
	}
	return false
}

// From version 1206 on, a "!" before an extended ban negates it.
func (s *session) matches(p *pseudo, mask string) bool {
	kind, rest, is := strings.Cut(mask, ":")
	kind, negated := strings.CutPrefix(kind, "!")
	name := ""
	if is {
		name = extbans()[kind]
	}
	home := string(s.link.ports.Home)
	switch name {
	case "unauthed":
		return s.matchesHost(p, rest) != negated
	case "realname":
		return s.glob(rest, p.real) != negated
	case "server":
		return s.glob(rest, home) != negated
	case "account":
		return negated
	}
	return s.matchesHost(p, mask)
}

// The host of a mask may be that of this gateway, or a network that contains its users' address.
func (s *session) matchesHost(p *pseudo, mask string) bool {
	user := p.Nick + "!" + clip(p.ident, s.net.identBytes) + "@"
	if s.glob(mask, user+s.host()) || s.glob(mask, user+pseudoIP) {
		return true
	}
	at := strings.LastIndexByte(mask, '@')
	if at < 0 {
		return false
	}
	prefix, err := netip.ParsePrefix(mask[at+1:])
	return err == nil && prefix.Contains(netip.MustParseAddr(pseudoIP)) && s.glob(mask[:at+1], user)
}

func (s *session) glob(pattern, text string) bool {
	return federation.Glob(s.net.fold(pattern), s.net.fold(text))
}

func (s *session) host() string { return clip(string(s.link.ports.Home), s.net.hostBytes) }

func (s *session) readmit(ch *channel) {
	for p := range ch.kept {
		if s.link.roster.byUUID[p.uuid] != p || !p.here || p.In[ch.venue] {
			delete(ch.kept, p)
		} else if s.linked {
			s.admit(p, ch)
		}
	}
}

func (s *session) admit(p *pseudo, ch *channel) {
	if s.entry(p, ch) != "" {
		ch.kept[p], s.changed = true, true
		return
	}
	delete(ch.kept, p)
	s.join(p, ch)
}

func (b bar) refusal(r *outbound, link, channel, nick string) error {
	detail := fmt.Sprintf("%s of %s takes no step of %s: %s", channel, link, nick, string(b))
	return &federation.RefusalError{Code: federation.PolicyDenied, Event: r.event, Handoff: r.ref, Detail: detail}
}

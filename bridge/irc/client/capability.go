package client

import (
	"slices"
	"strings"
	"time"

	"baton/translate"
)

// capability is one of what a client may ask for. A set of them is their sum.
type capability uint32

// The capabilities.
//
// spec: ircv3 capability-negotiation; handofftag "The client's side"
const (
	capAccountNotify capability = 1 << iota
	capAccountTag
	capAwayNotify
	capBatch
	capNotify
	capChghost
	capHistory
	capPlayback
	capEcho
	capExtendedJoin
	capAct
	capHandoff
	capMsgsig
	capInviteNotify
	capLabels
	capTags
	capMultiPrefix
	capSASL
	capTime
	capSetname
	capReplies
	capUserhost
)

// offered is a capability as it is offered.
type offered struct {
	name  string
	bit   capability
	value string // for clients that negotiate by version 302; "" for none
}

// capabilities returns all offered capabilities, by name, without the values that depend on
// the configuration. The chghost of a client never changes here; the capability is there for
// clients that request it with others.
func capabilities() []offered {
	return []offered{
		{"account-notify", capAccountNotify, ""},
		{"account-tag", capAccountTag, ""},
		{"away-notify", capAwayNotify, ""},
		{"batch", capBatch, ""},
		{"cap-notify", capNotify, ""},
		{"chghost", capChghost, ""},
		{"draft/chathistory", capHistory, ""},
		{"draft/event-playback", capPlayback, ""},
		{"echo-message", capEcho, ""},
		{"extended-join", capExtendedJoin, ""},
		{"freeq.at/act", capAct, ""},
		{"freeq.at/handoff", capHandoff, ""},
		{"freeq.at/msgsig", capMsgsig, ""},
		{"invite-notify", capInviteNotify, ""},
		{"labeled-response", capLabels, ""},
		{"message-tags", capTags, ""},
		{"multi-prefix", capMultiPrefix, ""},
		{"sasl", capSASL, ""},
		{"server-time", capTime, ""},
		{"setname", capSetname, ""},
		{"standard-replies", capReplies, ""},
		{"userhost-in-names", capUserhost, ""},
	}
}

// has reports whether a client asked for a capability, and got it.
func (c capability) has(one capability) bool { return c&one != 0 }

// names returns the capabilities of a set as a client is told them.
func (c capability) names() []string {
	var names []string
	for _, o := range capabilities() {
		if c.has(o.bit) {
			names = append(names, o.name)
		}
	}
	return names
}

// listed returns all capabilities, with their values where the version has some. The
// mechanisms are the ones of the connection.
func (l *Link) listed(version int, mechanisms []string) []string {
	var names []string
	for _, o := range capabilities() {
		if o.bit == capSASL {
			o.value = strings.Join(mechanisms, ",")
		}
		if o.bit == capHandoff {
			o.value = l.handoffLimits()
		}
		if o.value != "" && version >= versionWithValues {
			o.name += "=" + o.value
		}
		names = append(names, o.name)
	}
	return names
}

// handoffLimits returns what offers are held to: the bytes of an inline context, and how
// many seconds from now a deadline may be.
func (l *Link) handoffLimits() string {
	value := "context=" + itoa(translate.MaxContextBytes)
	if limit := l.ports.Limits.Current().MaxDeadline; limit > 0 {
		value += ",deadline=" + itoa(int(limit/time.Second))
	}
	return value
}

// tellChanges tells clients that want to know of capabilities whose values are others
// since they were listed last, as after a reload.
//
// spec: ircv3 capability-negotiation "cap-notify"
func (s *server) tellChanges() {
	now := s.link.listed(versionWithValues, nil)
	changed := slices.DeleteFunc(slices.Clone(now), func(each string) bool { return slices.Contains(s.listed, each) })
	s.listed = now
	if len(changed) == 0 {
		return
	}
	for u := range s.connected {
		if u.caps.has(capNotify) {
			s.send(u, says(s.name, "CAP", u.named(), "NEW", strings.Join(changed, " ")))
		}
	}
}

// versionWithValues is the version of negotiation from which on capabilities have
// values, and changes are told without being asked for.
const versionWithValues = 302

// change reads a CAP REQ: what to add, what to take away. It is refused as a whole
// where one of its names is not known.
func (c capability) change(request string) (after capability, ok bool) {
	after = c
	for name := range strings.FieldsSeq(request) {
		name, off := strings.CutPrefix(name, "-")
		at := slices.IndexFunc(capabilities(), func(o offered) bool { return o.name == name })
		switch {
		case at < 0:
			return c, false
		case off:
			after &^= capabilities()[at].bit
		default:
			after |= capabilities()[at].bit
		}
	}
	return after, true
}

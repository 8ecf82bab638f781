// Package irc holds what all dialects of IRC share: the line that people read
// beside each step, nicks for users without one on a network, the limits that IRC
// puts on text and tags, steps written again for a link that cannot have them as
// they were signed, and the venue of what is said in private.
//
// Server links share a [Session] (one connection, its owner, and the steps that it
// judges), a [Roster] of pseudo-clients, and the deliveries' way into a session ([Pass]).
// All dialects share the commands to the gateway's own user ([ChatOps]) and the replies to
// users ([Replies]).
//
// It speaks no protocol. Each protocol has a folder of its own below this one.
//
// It follows the IRCv3 message-tags specification for the limits on tags, RFC
// 2812 §2.3.1 for nicks, and the handoff tag profile, "Humans", for the line.
//
// All functions may be called concurrently; each type states what it allows.
package irc

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/federation"
)

const (
	// MaxTextBytes bounds the text of one line that this program writes for people.
	// A line has 510 bytes, of which the longest names of a user, a host and a channel
	// take 182; servers cut the rest in the middle of a character.
	MaxTextBytes = 320

	// MaxTagBytes bounds the client-only tags of one message, escaped, between "@"
	// and the space. Servers leave out, without an error, the tags that do not fit.
	//
	// spec: ircv3 message-tags "Size limit"
	MaxTagBytes = ircmsg.MaxlenClientTagData

	// MaxTags bounds the number of tags of one message. Servers pass on 64, and
	// add up to three of their own: msgid, time, account.
	MaxTags = 61
)

// LineSuffix makes the message ID of the line for people from that of its step: unlike it, and
// the same on all servers of a network.
const LineSuffix = ".line"

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Text returns a string as it may stand in a line for people: as [Plain], cut at a
// character's border to at most [MaxTextBytes].
func Text(s string) string {
	return Cut(Plain(s), MaxTextBytes)
}

// Plain returns a string as [federation.PlainText], without space around it.
func Plain(s string) string { return strings.TrimSpace(federation.PlainText(s)) }

// Cut returns a string of at most that many bytes, at least three, that ends in
// "…" where something was cut. It never splits a character.
func Cut(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	end := maxBytes - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// CheckTags returns an error that says what is wrong with the tags of a message
// that a server would not carry whole.
func CheckTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return fmt.Errorf("%d tags, of which %d are carried", len(tags), MaxTags)
	}
	for _, value := range tags {
		if strings.ContainsRune(value, 0) {
			return errors.New("a tag with a NUL, which ends lines")
		}
	}
	m := ircmsg.MakeMessage(tags, "", "TAGMSG", "#")
	if _, err := m.LineBytesStrict(false, 0); err != nil {
		return fmt.Errorf("tags of more than %d bytes, or not in UTF-8", MaxTagBytes)
	}
	return nil
}

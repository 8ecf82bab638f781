// Package irc contains the parts common to all IRC dialects: the readable line for each step, nicks
// for users of other networks, and the limits of IRC on text and tags. It also renders steps for
// links that cannot carry the signed form, and determines the venue of private messages.
//
// Server links share a [Session] (one connection, its owner, and its steps) and a [Roster] of
// pseudo-clients. All dialects share the commands to the gateway's own user ([ChatOps]) and the
// replies to users ([Replies]).
//
// The package implements no protocol. Each protocol has its own subfolder.
//
// Limits on tags follow IRCv3 message-tags, and nicks follow RFC 2812 §2.3.1. The line follows
// "Humans" in the handoff tag profile.
//
// All functions may be called concurrently. For methods, see each type.
package irc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/federation"
)

const (
	// MaxTextBytes bounds the text of one readable line. A line has 510 bytes, up to 182 of which are
	// names of a user, a host and a channel. Servers truncate the rest, even within a character.
	MaxTextBytes = 320

	// MaxTagBytes bounds the client-only tags of one message, escaped, between "@" and the space.
	// Servers silently drop excess tags.
	//
	// spec: ircv3 message-tags "Size limit"
	MaxTagBytes = ircmsg.MaxlenClientTagData

	// MaxTags is the maximum number of tags per message. Servers forward 64, including up to three of
	// their own: msgid, time and account.
	MaxTags = 61
)

// LineSuffix is appended to the message ID of a step to get that of its readable line. The ID is thus
// the same on all servers of a network.
const LineSuffix = ".line"

const ellipsis = "…"

// Text returns a string as [Plain], truncated between characters to at most [MaxTextBytes].
func Text(s string) string {
	return Cut(Plain(s), MaxTextBytes)
}

// Plain returns a string as [federation.PlainText], without formatting codes or surrounding space.
func Plain(s string) string {
	return strings.TrimSpace(federation.PlainText(Unformatted(ToUTF8(s))))
}

// Cut truncates a string to maxBytes, which must be at least three. A truncated string ends in "…".
// Cut never splits a character.
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

// CheckTags returns an error for tags that a server would truncate or drop.
func CheckTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return fmt.Errorf("%d tags, at most %d are carried", len(tags), MaxTags)
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

// ErrLineTooLong is returned by [ReadLine] for a line over the limit. The next line can still be
// read.
var ErrLineTooLong = errors.New("irc: line too long")

// ReadLine returns one line without its line ending, which counts towards maxBytes. It blocks until
// the line is complete. It discards a longer line. Errors other than [ErrLineTooLong] come from the
// reader.
func ReadLine(r *bufio.Reader, maxBytes int) ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxBytes; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case long:
			return nil, ErrLineTooLong
		}
		return bytes.TrimRight(text, "\r\n"), nil
	}
}

// Meter rate-limits the messages of one user, with a bucket that starts full with one minute's
// worth. The zero Meter is ready to use. It is not safe for concurrent use.
type Meter struct {
	bucket   *rate.Limiter
	notified bool
}

// Take counts one step. It reports whether the step is allowed and, if not, whether to notify the
// user. Only the first refused step since the bucket was full needs a notice. A limit of zero means
// no limit.
func (m *Meter) Take(perMinute int, now time.Time) (ok, tell bool) {
	if perMinute <= 0 {
		return true, false
	}
	if m.bucket == nil {
		m.bucket = rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
	}
	if m.bucket.TokensAt(now) >= float64(perMinute) {
		m.notified = false
	}
	if m.bucket.AllowN(now, 1) {
		return true, false
	}
	tell = !m.notified
	m.notified = true
	return false, tell
}

// Recent is a bounded set of the last added IDs. It is not safe for concurrent use.
type Recent struct {
	Most int // capacity; must be positive

	ids  map[string]bool
	ring []string
	next int
}

// Has reports whether the set contains an ID.
func (r *Recent) Has(id string) bool { return r.ids[id] }

// Add adds an ID, and reports whether it is new. In a full set, it replaces the oldest.
func (r *Recent) Add(id string) bool {
	if r.ids[id] {
		return false
	}
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	if len(r.ring) < r.Most {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % r.Most
	}
	r.ids[id] = true
	return true
}

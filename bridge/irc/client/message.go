package client

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"
)

// timeLayout is that of the time tag.
//
// spec: ircv3 server-time
const timeLayout = "2006-01-02T15:04:05.000Z"

// message is one message on its way to clients. What each of them sees of it depends
// on the capabilities that it asked for.
type message struct {
	source   string
	account  string            // of the sender; "" for none
	tags     map[string]string // by full name; client-only ones, which are passed on
	msgid    string            // "" for none
	at       time.Time         // zero for now
	batch    string            // reference of the batch that it is part of; "" for none
	command  string
	params   []string
	trailing bool // the last parameter is text, and has its colon even where it needs none
}

// says returns a message whose last parameter is text.
func says(source, command string, params ...string) message {
	return message{source: source, command: command, params: params, trailing: true}
}

// tells returns a message without text.
func tells(source, command string, params ...string) message {
	return message{source: source, command: command, params: params}
}

// seenBy returns which of the capabilities change how a message looks.
func seenBy(c capability) capability {
	return c & (capTags | capTime | capAccountTag | capBatch | capLabels)
}

// line returns a message as a client with these capabilities is sent it, with the
// label of the command that it answers, "" for none. A message that cannot be written
// whole is cut at the end of a character.
func (m message) line(c capability, label string, now time.Time) []byte {
	out := ircmsg.MakeMessage(nil, m.source, m.command, m.params...)
	if c.has(capTags) {
		for name, value := range m.tags {
			out.SetTag(name, value)
		}
		if m.msgid != "" {
			out.SetTag("msgid", m.msgid)
		}
	}
	if c.has(capTime) {
		at := m.at
		if at.IsZero() {
			at = now
		}
		out.SetTag("time", at.UTC().Format(timeLayout))
	}
	if c.has(capAccountTag) && m.account != "" {
		out.SetTag("account", m.account)
	}
	if c.has(capBatch) && m.batch != "" {
		out.SetTag("batch", m.batch)
	}
	if c.has(capLabels) && label != "" {
		out.SetTag("label", label)
	}
	if m.trailing {
		out.ForceTrailing()
	}
	text, _ := out.LineBytesStrict(false, maxBodyBytes) // what does not fit is cut; of a parameter that no line can hold there is none
	return text
}

// clean returns a text as a parameter that ends no line.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\r', '\n', 0:
			return ' '
		}
		return r
	}, s)
}

// validText reports whether a line is UTF-8, which all text here is.
//
// spec: ircv3 utf8-only
func validText(s string) bool { return utf8.ValidString(s) }

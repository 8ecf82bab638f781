package client_test

import (
	"bufio"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/bridge/irc/client"
)

// FuzzRead holds the reader to its bounds, whatever comes: each line is acted on or refused for one
// of four reasons, and a parsed one fits a line.
func FuzzRead(f *testing.F) {
	f.Add("NICK a\r\nUSER a 0 * :b\r\n")
	f.Add("@+a=\\:\\s\\\\;b PRIVMSG #x :y\n")
	f.Add("@" + strings.Repeat("+t;", 2000) + " TAGMSG x\n\xff\n" + strings.Repeat("x", 5000) + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := bufio.NewReaderSize(strings.NewReader(text), 16)
		for {
			line, err := irc.ReadLine(r, client.MaxInputBytes)
			if err != nil && !errors.Is(err, irc.ErrLineTooLong) {
				return
			}
			if len(line) > client.MaxInputBytes {
				t.Fatalf("a line of %d bytes", len(line))
			}
			m, why := client.Parse(string(line), err)
			switch why {
			case "", "too_long", "malformed", "not_utf8", "unreadable_tags":
			default:
				t.Fatalf("refused for %q", why)
			}
			if err != nil && why != "too_long" {
				t.Fatalf("a line that is too long is refused for %q", why)
			}
			if strings.ContainsAny(strings.Join(m.Params, ""), "\r\n\x00") && why == "" {
				t.Fatalf("a parameter ends lines: %q", m.Params)
			}
		}
	})
}

// FuzzTags compares the tags of a message with those at the other end.
func FuzzTags(f *testing.F) {
	f.Add("+a", "b c;d\\e\r\n", "msgid", "x")
	f.Add("+freeq.at/handoff-task", "ü \\", "+x", "")
	f.Fuzz(func(t *testing.T, name, value, other, another string) {
		if name == "" || other == "" || strings.Contains(value+another, "\x00") {
			return // no message has it by the time of writing
		}
		tags := map[string]string{name: value, other: another}
		line := client.Line(tags)
		if len(line) == 0 {
			return // a tag that no line can hold
		}
		m, err := ircmsg.ParseLine(strings.TrimRight(string(line), "\r\n"))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if diff := cmp.Diff(tags, maps.Clone(m.AllTags())); diff != "" {
			t.Errorf("%q (-sent +read):\n%s", line, diff)
		}
	})
}

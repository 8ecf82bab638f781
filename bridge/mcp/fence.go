package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// fence is the text of other parties inside its fence of three lines. The opening line names where
// the text comes from; none of that is text of a party.
type fence struct {
	handoff, event, from, verdict, provenance string
	untrusted                                 untrusted
}

// untrusted is what other parties wrote, by its name.
type untrusted map[string]any

// add adds a text unless it is empty.
func (u untrusted) add(name, text string) {
	if text != "" {
		u[name] = text
	}
}

// String returns the three lines of the fence, "" where there is nothing inside.
func (f fence) String() string {
	if len(f.untrusted) == 0 {
		return ""
	}
	var tag strings.Builder
	for _, a := range [][2]string{{"handoff", f.handoff}, {"event", f.event}, {"from", f.from}, {"verdict", f.verdict}, {"provenance", f.provenance}} {
		if a[1] != "" {
			fmt.Fprintf(&tag, ` %s="%s"`, a[0], strings.ReplaceAll(escape(a[1]), `"`, `\u0022`))
		}
	}
	text, err := json.Marshal(f.untrusted)
	if err != nil {
		return ""
	}
	return "<external_message" + tag.String() + ">\n" + escape(string(text)) + "\n</external_message>\n"
}

// escape returns JSON, or a part of it, on one line without the characters that could end a fence,
// break its line, or hide text from people: each is \uXXXX.
func escape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == '\\' && i+1 < len(text) {
			b.WriteString(escapeOf(text[i+1]))
			i += 2
			continue
		}
		if hidden(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		} else {
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// escapeOf returns an escape sequence of JSON in its long form where that is a control character.
func escapeOf(second byte) string {
	if i := strings.IndexByte("bfnrt", second); i >= 0 {
		return fmt.Sprintf(`\u%04x`, "\b\f\n\r\t"[i])
	}
	return `\` + string(rune(second))
}

// hidden reports whether a character has no place in a fence: it is markup or a control character,
// or it reorders or hides text, as bidirectional marks and tags do.
func hidden(r rune) bool {
	switch r {
	case '<', '>', '&', '\u2028', '\u2029', utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector)
}

// maxPlain bounds a plain name.
const maxPlain = 64

// plain reports whether a name chosen by another party is only a name: one word of letters, digits
// and the marks that nicknames have.
func plain(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./[]\\`^{|}", r)
	}
	return name != "" && len(name) <= maxPlain && !strings.ContainsFunc(name, odd)
}

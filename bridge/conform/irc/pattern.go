package irc

import (
	"slices"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/federation"
)

// pattern matches a server's line by its command and first parameters, and by its tags and source
// if a case names them. Servers may choose the rest, such as the text of numerics and further
// parameters.
type pattern struct {
	tags     map[string]string // globs of their values
	source   string            // a glob; "" for any
	commands []string          // one of these
	params   []string          // globs
}

// A pattern is a line of IRC with globs, and with "|" between commands.
func parsePattern(text string) pattern {
	p := pattern{tags: map[string]string{}}
	if tags, ok := strings.CutPrefix(text, "@"); ok {
		tags, text, _ = strings.Cut(tags, " ")
		for tag := range strings.SplitSeq(tags, ";") {
			name, value, _ := strings.Cut(tag, "=")
			p.tags[name] = value
		}
	}
	if source, ok := strings.CutPrefix(text, ":"); ok {
		p.source, text, _ = strings.Cut(source, " ")
	}
	text, last, hasLast := strings.Cut(" "+text, " :")
	words := strings.Fields(text)
	if hasLast {
		words = append(words, last)
	}
	p.commands, p.params = strings.Split(words[0], "|"), words[1:]
	return p
}

func (p pattern) fits(line string) bool {
	m, err := ircmsg.ParseLine(line)
	if err != nil || !slices.Contains(p.commands, m.Command) || len(m.Params) < len(p.params) {
		return false
	}
	if p.source != "" && !federation.Glob(p.source, m.Source) {
		return false
	}
	for name, value := range p.tags {
		if has, got := m.GetTag(name); !has || !federation.Glob(value, got) {
			return false
		}
	}
	for i, param := range p.params {
		if !federation.Glob(param, m.Params[i]) {
			return false
		}
	}
	return true
}

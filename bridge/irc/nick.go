package irc

import (
	"iter"
	"strings"

	"baton/federation"
)

// shortHash is how many characters of a DID's hash tell two owners of one name
// apart in the first try.
const shortHash = 4

// Nicks yields the nicks for a DID on a network where nicks have at most that
// many bytes, the best first: its name with the suffix; then that cut, with "_"
// and ever more of the DID's hash. The caller takes the first that is free, and
// has something else ready for when none is.
//
// A name that is no nick is made one: other characters become "_", and a "_" goes
// before a leading digit. A DID without a name is called by the last word of a did:web, else
// "agent" and the begin of its hash.
func Nicks(name, suffix string, did federation.DID, maxBytes int) iter.Seq[string] {
	hash := did.Hash()
	if name == did.Short() {
		name = nameless(did)
	}
	base := sanitiseNick(name) + suffix
	return func(yield func(string) bool) {
		if len(base) <= maxBytes && !yield(base) {
			return
		}
		for n := shortHash; n <= len(hash) && n+2 <= maxBytes; n++ {
			cut := base[:min(len(base), maxBytes-n-1)]
			if !yield(cut + "_" + hash[:n]) {
				return
			}
		}
	}
}

// nameless returns what a DID without a name is called: "scout" for did:web:gw.example:scout and
// did:web:scout.example.
func nameless(did federation.DID) string {
	if did.Method() != "web" {
		return "agent-" + did.Hash()[:shortHash]
	}
	parts := strings.Split(string(did), ":")[2:] // a host, and a path
	if len(parts) > 1 {
		return parts[len(parts)-1]
	}
	host, _, _ := strings.Cut(parts[0], ".")
	return host
}

// ValidNick reports whether a string may be a nick on any server.
//
// spec: rfc2812 §2.3.1
func ValidNick(s string) bool {
	return s != "" && s == sanitiseNick(s)
}

// ValidNickSuffix reports whether a string may end any nick.
func ValidNickSuffix(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !nickRune(r) }) < 0
}

func sanitiseNick(name string) string {
	var b strings.Builder
	for _, r := range Plain(name) {
		switch {
		case nickRune(r):
			b.WriteRune(r)
		case r != '…': // which only says that a name was cut
			b.WriteByte('_')
		}
	}
	nick := b.String()
	if nick == "" || nick[0] == '-' || '0' <= nick[0] && nick[0] <= '9' {
		return "_" + nick
	}
	return nick
}

// nickRune tells whether a character may stand in a nick, after the first.
func nickRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return strings.ContainsRune("[]\\`_^{|}-", r)
}

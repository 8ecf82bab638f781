package federation

import "strings"

// maxNameBytes bounds the name of a kind, verb or state: metrics have verbs as a
// label, and lines for people hold all three.
const maxNameBytes = 32

// ValidName reports whether a text can name a kind, a verb or a state: up to 32
// lower-case letters, digits, "-" and "_", the first a letter.
func ValidName(text string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return text != "" && len(text) <= maxNameBytes && text[0] >= 'a' && text[0] <= 'z' && !strings.ContainsFunc(text, odd)
}

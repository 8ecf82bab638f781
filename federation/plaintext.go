package federation

import (
	"strings"
	"unicode"
)

// PlainText returns a text as people are shown it: one line of valid UTF-8 without control
// characters, ESC among them, and without characters that show nothing, reorder what is
// beside them or end a line. Signed bytes never pass through it.
//
// Removed are the categories Cc and Cf (zero-width characters, marks and overrides of
// direction, soft hyphens), U+2028 and U+2029, plane 14 (tag characters and the variation
// selectors there) and letters without a shape. A joined emoji falls apart into its parts.
func PlainText(s string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// hidden reports whether a character has no shape of its own.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || inTagPlane(r) || isFiller(r)
}

// inTagPlane reports whether a character is of plane 14, which has tags and variation
// selectors: both can carry a text that no reader sees.
func inTagPlane(r rune) bool { return r >= 0xE0000 && r <= 0xEFFFF }

// isFiller reports whether a character is a letter that shows nothing, or the unassigned
// place between the invisible operators.
func isFiller(r rune) bool {
	switch r {
	case 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0:
		return true
	}
	return false
}

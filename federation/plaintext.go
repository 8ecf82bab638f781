package federation

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/bidi"
)

// PlainText returns the displayed form of a text: one line of valid UTF-8 without control, invisible or
// reordering characters (see README.md, "Text for people"). Never use it for signed bytes.
//
// spec: UTR #36 §3.5; UTS #39 §3.1.1; UAX #44 Default_Ignorable_Code_Point
func PlainText(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7F }) < 0 {
		return s
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	rightToLeft := strings.ContainsFunc(s, isRightToLeft)
	var b strings.Builder
	last := rune(-1)
	for state := -1; s != ""; {
		var cluster string
		cluster, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if isTagFlag(cluster) {
			b.WriteString(cluster)
			last = tagEnd
			continue
		}
		runes := []rune(cluster)
		for i, r := range runes {
			switch {
			case divides(r):
				r = ' '
			case ignorable(r) && !shows(runes, i, last) && (!rightToLeft || !isMark(r)):
				continue
			}
			b.WriteRune(r)
			last = r
		}
	}
	return b.String()
}

func divides(r rune) bool {
	return '\t' <= r && r <= '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// An ignorable character has no shape of its own.
func ignorable(r rune) bool {
	switch {
	case unicode.Is(unicode.Cc, r), r >= 0xE0000 && r <= 0xEFFFF: // plane 14 can hide text
		return true
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r), r >= 0x13430 && r <= 0x13440: // visible
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Shows reports whether an ignorable character changes the shape of its neighbours. The argument
// last is the previously kept character, or -1 if there is none.
//
// spec: UAX #31 §2.3.1; UTS #51 ED-16
func shows(cluster []rune, i int, last rune) bool {
	r := cluster[i]
	switch {
	case last < 0, unicode.IsSpace(last), ignorable(last) && !unicode.Is(unicode.Variation_Selector, last):
		return false // without a base, or repeated
	case r == zeroWidthJoiner && i+1 < len(cluster) && unicode.IsSymbol(cluster[i+1]):
		return true // part of one emoji: other symbols are separate clusters
	case ignorable(last):
		return false
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return unicode.In(cluster[0], joining()...)
	case r == 0x180E, r >= 0x180B && r <= 0x180F:
		return unicode.Is(unicode.Mongolian, last)
	case r >= 0xE0100 && r <= 0xE01EF:
		return unicode.Is(unicode.Ideographic, last)
	}
	return r >= 0xFE00 && r <= 0xFE0F
}

const (
	zeroWidthNonJoiner = '\u200C'
	zeroWidthJoiner    = '\u200D'
	tagEnd             = '\U000E007F'
)

// A joiner changes the shape of letters in scripts with cursive letters or a virama.
//
// spec: UAX #31 §2.3.1, A1, A2 and B
func joining() []*unicode.RangeTable {
	return []*unicode.RangeTable{
		unicode.Adlam, unicode.Arabic, unicode.Hanifi_Rohingya, unicode.Mandaic, unicode.Manichaean, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Syriac,
		unicode.Balinese, unicode.Bengali, unicode.Chakma, unicode.Devanagari, unicode.Gujarati, unicode.Gurmukhi, unicode.Javanese, unicode.Kannada,
		unicode.Khmer, unicode.Malayalam, unicode.Myanmar, unicode.Oriya, unicode.Sinhala, unicode.Sundanese, unicode.Tai_Tham, unicode.Tamil, unicode.Telugu, unicode.Tibetan,
	}
}

// spec: UTS #51 ED-27: England, Scotland, Wales
func isTagFlag(cluster string) bool {
	tags, isFlag := strings.CutPrefix(cluster, "\U0001F3F4")
	if !isFlag {
		return false
	}
	switch strings.Map(func(r rune) rune { return r - 0xE0000 }, tags) {
	case "gbeng\x7F", "gbsct\x7F", "gbwls\x7F":
		return true
	}
	return false
}

func isMark(r rune) bool { return r == 0x200E || r == 0x200F || r == 0x061C }

func isRightToLeft(r rune) bool {
	properties, _ := bidi.LookupRune(r)
	return unicode.IsLetter(r) && (properties.Class() == bidi.R || properties.Class() == bidi.AL)
}

// SplitText splits a text into parts of at most maxBytes bytes. A line starts a new part, and empty
// lines are omitted. Parts end at a space if possible, and never within a user-perceived character.
func SplitText(text string, maxBytes int) []string {
	var parts []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for len(line) > maxBytes {
			end := lineEnd(line, maxBytes)
			parts = append(parts, strings.TrimRight(line[:end], " "))
			line = line[end:]
		}
		if strings.TrimSpace(line) != "" {
			parts = append(parts, line)
		}
	}
	return parts
}

func lineEnd(line string, maxBytes int) int {
	end, rest, state := 0, line, -1
	for {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if end+len(cluster) > maxBytes {
			break
		}
		end += len(cluster)
	}
	if end == 0 { // one character with more marks than fit
		for end = maxBytes; end > 1 && !utf8.RuneStart(line[end]); end-- {
		}
	}
	if space := strings.LastIndexByte(line[:end], ' '); space >= end/2 {
		return space + 1
	}
	return end
}

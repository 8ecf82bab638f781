package irc

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/encoding/charmap"

	"github.com/baton-gateway/baton/federation"
)

// IRC formatting codes. All except reset and the colours are toggles.
//
// spec: modern.ircdocs.horse/formatting
const (
	codeBold      = '\x02'
	codeColour    = '\x03' // followed by up to two digits, a comma and two more
	codeHexColour = '\x04' // followed by six hexadecimal digits, a comma and six more
	codeReset     = '\x0F'
	codeMonospace = '\x11'
	codeReverse   = '\x16'
	codeItalics   = '\x1D'
	codeStrike    = '\x1E'
	codeUnderline = '\x1F'
)

func codeBytes(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case codeColour:
		return 1 + colourBytes(s[1:], 1, 2, isDigit)
	case codeHexColour:
		return 1 + colourBytes(s[1:], 6, 6, isHexDigit)
	case codeBold, codeReset, codeMonospace, codeReverse, codeItalics, codeStrike, codeUnderline:
		return 1
	}
	return 0
}

func colourBytes(s string, least, most int, digit func(byte) bool) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && n < most && digit(s[n]) {
			n++
		}
		if n < least {
			return 0
		}
		return n
	}
	first := digits(s)
	if first == 0 || first == len(s) || s[first] != ',' {
		return first
	}
	if second := digits(s[first+1:]); second > 0 {
		return first + 1 + second
	}
	return first
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHexDigit(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func runs(s string) func(yield func(run string, isCode bool) bool) {
	return func(yield func(string, bool) bool) {
		for s != "" {
			n, isCode := codeBytes(s), true
			if n == 0 {
				isCode = false
				for n < len(s) && codeBytes(s[n:]) == 0 {
					n++
				}
			}
			if !yield(s[:n], isCode) {
				return
			}
			s = s[n:]
		}
	}
}

// Unformatted returns a text without formatting codes and their digits.
func Unformatted(s string) string {
	var b strings.Builder
	for run, isCode := range runs(s) {
		if !isCode {
			b.WriteString(run)
		}
	}
	return b.String()
}

// clean returns one line as [federation.PlainText], but keeps its formatting codes.
func clean(s string) string {
	var b strings.Builder
	for run, isCode := range runs(ToUTF8(s)) {
		if !isCode {
			run = federation.PlainText(run)
		}
		b.WriteString(run)
	}
	return b.String()
}

// ToUTF8 returns a text from a network whose clients choose the encoding. It decodes invalid UTF-8 as
// Windows-1252, unless only the last character is truncated.
func ToUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	for cut := 1; cut < utf8.UTFMax && cut < len(s); cut++ {
		head, tail := s[:len(s)-cut], s[len(s)-cut:]
		if utf8.ValidString(head) && !utf8.FullRuneInString(tail) {
			return head
		}
	}
	text, err := charmap.Windows1252.NewDecoder().String(s)
	if err != nil {
		return strings.ToValidUTF8(s, string(utf8.RuneError))
	}
	return text
}

type format struct {
	on     string
	colour string // with its digits, or ""
}

func (f *format) apply(code string) {
	switch {
	case code[0] == codeReset:
		*f = format{}
	case code[0] != codeColour && code[0] != codeHexColour:
		if before, after, on := strings.Cut(f.on, code); on {
			f.on = before + after
			return
		}
		f.on += code
	case len(code) == 1:
		f.colour = ""
	default:
		f.colour = code
	}
}

func (f *format) resume(text string) string {
	colour := f.colour
	if digits := strings.TrimLeft(colour, string(rune(codeColour))); colour != "" && digits != colour {
		foreground, background, two := strings.Cut(digits, ",")
		if colour = string(rune(codeColour)) + twoDigits(foreground); two {
			colour += "," + twoDigits(background)
		}
	}
	if colour != "" && !strings.Contains(colour, ",") && strings.HasPrefix(text, ",") {
		colour += "\x02\x02" // ends the code without any effect
	}
	return f.on + colour + text
}

// twoDigits pads a colour, so that a following digit does not become part of it.
func twoDigits(colour string) string {
	if len(colour) == 1 {
		return "0" + colour
	}
	return colour
}

// SplitFormatted is [federation.SplitText] for a text with formatting codes. A part has at most
// maxBytes, which is at least 64. Each part begins with the formatting in effect at the end of the
// previous part.
func SplitFormatted(text string, maxBytes int) []string {
	if Unformatted(text) == text {
		return federation.SplitText(text, maxBytes)
	}
	var parts []string
	add := func(part string) {
		if strings.TrimSpace(Unformatted(part)) != "" {
			parts = append(parts, part)
		}
	}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for len(line) > maxBytes {
			end, in := formattedEnd(line, maxBytes)
			add(strings.TrimRight(line[:end], " "))
			line = in.resume(line[end:])
		}
		add(line)
	}
	return parts
}

func formattedEnd(line string, maxBytes int) (end int, in format) {
	atSpace, inSpace, shown := 0, format{}, false
	for end < len(line) {
		code := line[end : end+codeBytes(line[end:])]
		token := code
		if code == "" {
			token, _, _, _ = uniseg.FirstGraphemeClusterInString(line[end:], -1)
		}
		for code == "" && !shown && end+len(token) > maxBytes { // a character with more combining marks than fit a line
			_, last := utf8.DecodeLastRuneInString(token)
			token = token[:len(token)-last]
		}
		if end+len(token) > maxBytes {
			break
		}
		end += len(token)
		switch {
		case code != "":
			in.apply(code)
		case token == " ":
			atSpace, inSpace, shown = end, in, true
		default:
			shown = true
		}
	}
	if atSpace > end/2 {
		return atSpace, inSpace
	}
	return end, in
}

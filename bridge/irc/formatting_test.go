package irc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func TestUnformattedRemovesEachCodeWithItsDigits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "": "", "\x02b\x1Di\x1Fu\x1Es\x11m\x16r\x0F": "biusmr",
		"\x0304,02red": "red", "\x034red": "red", "\x03red": "red", "\x0304,red": ",red", "\x03123": "3", "\x031,234": "4", "\x03,4x": ",4x",
		"\x04ff00AAred": "red", "\x04ff00aa,00ff00red": "red", "\x04ff00a": "ff00a", "\x04FF00AA,00ff0": ",00ff0", "99\x03": "99",
	} {
		if got := irc.Unformatted(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSplitFormattedCarriesTheFormattingIntoTheNextPart(t *testing.T) {
	t.Parallel()
	words, rest := strings.Repeat("word ", 12), "and the end"
	first := strings.TrimSpace(words)
	for text, want := range map[string][]string{
		"\x02" + words + rest:                             {"\x02" + first, "\x02" + rest},
		"\x02\x1D\x02" + words + rest:                     {"\x02\x1D\x02" + first, "\x1D" + rest},
		"\x034" + words + rest:                            {"\x034" + first, "\x0304" + rest},
		"\x0304,2" + words + rest:                         {"\x0304,2" + first[5:], "\x0304,02word " + rest},
		"\x0304" + words + "5 apples":                     {"\x0304" + first, "\x03045 apples"},
		"\x0304" + words + ",5 apples":                    {"\x0304" + first, "\x0304\x02\x02,5 apples"},
		"\x04ff0000\x1F" + words + rest:                   {"\x04ff0000\x1F" + first[5:], "\x1F\x04ff0000word " + rest},
		"\x0304\x02" + words[:20] + "\x0F" + words + rest: {"\x0304\x02" + words[:20] + "\x0F" + strings.TrimSpace(words[:35]), words[35:] + rest},
		"\x02one\ntwo":                                    {"\x02one", "two"}, // the end of a line ends its formatting
		"\x02" + strings.Repeat("👩\u200D🚀", 6):            {"\x02" + strings.Repeat("👩\u200D🚀", 5), "\x02👩\u200D🚀"},
		strings.Repeat("\x02", 65) + "x":                  {"\x02x"},
		"\x02" + first + "\x0304":                         {"\x02" + first + "\x0304"},
	} {
		got := irc.SplitFormatted(text, 64)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzSplitFormatted(f *testing.F) {
	f.Add("\x0304,02red\x02 and bold" + strings.Repeat("e\u0301 ", 40))
	f.Add(strings.Repeat("\x03", 90) + strings.Repeat("a\u0308", 90))
	f.Add("a" + strings.Repeat("\u0308", 90) + "\x1Db")
	f.Add(strings.Repeat("a\u0308", 20) + "\n\xe2\x80\n\x88")
	// Broken characters may form another space when a space between them is removed.
	squeeze := func(s string) string {
		for {
			squeezed := strings.Join(strings.Fields(s), "")
			if squeezed == s {
				return s
			}
			s = squeezed
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var shown strings.Builder
		for _, part := range irc.SplitFormatted(text, 64) {
			if len(part) > 64 {
				t.Errorf("a part has %d bytes: %q", len(part), part)
			}
			shown.WriteString(irc.Unformatted(part))
		}
		if got, want := squeeze(shown.String()), squeeze(irc.Unformatted(text)); got != want {
			t.Errorf("%q shows %q, want %q", text, got, want)
		}
	})
}

func TestFormattedIgnoresFormattingOfOtherText(t *testing.T) {
	t.Parallel()
	for formatted, want := range map[string]string{
		"\x0304hello": "\x0304hello", "\x0304goodbye": "hello", "": "hello", strings.Repeat("\x02", 1<<20) + "hello": "hello", "\x02hello\x1b": "hello",
	} {
		line := federation.Text{Body: "hello", Fields: map[string]string{federation.Formatted: formatted}}
		if _, got := irc.ChatLine(line, true); got != want {
			t.Errorf("%.20q is shown as %q", formatted, got)
		}
		if _, got := irc.ChatLine(line, false); got != "hello" {
			t.Errorf("without formatting %.20q is shown as %q", formatted, got)
		}
	}
}

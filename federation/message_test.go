package federation_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
)

func TestTextIsSplitWhereNoCharacterIsCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"one line":                       {"one line"},
		"two\nlines\r\n":                 {"two", "lines"},
		"\n \n":                          nil,
		"aaaa bbbb cccc":                 {"aaaa", "bbbb", "cccc"},
		"aaaaaaaaaa":                     {"aaaaaaaa", "aa"},
		"ääää":                           {"ääää"},
		"xääääx":                         {"xäää", "äx"},
		"\U0001F600\U0001F600\U0001F600": {"\U0001F600\U0001F600", "\U0001F600"},
	} {
		if diff := cmp.Diff(want, federation.SplitText(text, 8)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	long := strings.Repeat("ä€\U0001F600 ", 400)
	for _, part := range federation.SplitText(long, 400) {
		if len(part) > 400 || !utf8.ValidString(part) {
			t.Errorf("%d bytes, valid %t", len(part), utf8.ValidString(part))
		}
	}
}

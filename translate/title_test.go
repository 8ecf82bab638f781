package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

func TestFitTitleHasASpaceForEachControlCharacter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Fix\tlogin\tpage":      "Fix login page",
		"Fix\r\nlogin\npage\n":  "Fix  login page",
		"a\u2028b\u2029c\u0085": "a b c",
		"a\x00b\x1bc\x7fd":      "a b c d",
		" \t ":                  "",
		"a\xffb":                "a\uFFFDb",
		"ünïcödé – 日本語 😀":       "ünïcödé – 日本語 😀",
	} {
		if title, context, losses := translate.FitTitle(text, "{}"); title != want || context != "{}" || losses != nil {
			t.Errorf("%q is %q, context %s, losses %v; want %q", text, title, context, losses, want)
		}
	}
}

func TestFitTitleCountsCharactersAndAWireBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, title, wire string }{
		{strings.Repeat("ü", 150), strings.Repeat("ü", 150), strings.Repeat("ü", 150)},
		{strings.Repeat("ü", 151), strings.Repeat("ü", 151), strings.Repeat("ü", 150)},
		{strings.Repeat("語", 300), strings.Repeat("語", 300), strings.Repeat("語", 100)},
		{strings.Repeat("😀", 301), strings.Repeat("😀", 300), strings.Repeat("😀", 75)},
		{"x" + strings.Repeat("語", 100), "x" + strings.Repeat("語", 100), "x" + strings.Repeat("語", 99)},
	} {
		for wire, fit := range map[string]func(text, context string) (string, string, []federation.Loss){
			test.title: translate.FitTitle, test.wire: translate.FitWireTitle,
		} {
			title, context, losses := fit(test.text, "")
			if cut := wire != test.text; title != wire || federation.Loses(losses, "title") != cut || (context == `{"description":"`+test.text+`"}`) != cut {
				t.Errorf("%s becomes %q, context %s, losses %v; want %q", test.text, title, context, losses, wire)
			}
		}
	}
}

func TestFitTitleKeepsTheFullTextOfACutTitle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Fix\tthe \"login\" page\n", 100) // 2,000 characters
	said, _ := json.Marshal(long)                            //nolint:errchkjson // a string has a JSON form
	cut := strings.TrimSpace(strings.NewReplacer("\t", " ", "\n", " ").Replace(long)[:translate.MaxTitleChars])
	full := `"description":` + string(said)
	for context, want := range map[string]string{
		"":                         `{` + full + `}`,
		"{ }":                      `{` + full + `}`,
		`{"a":1.50}`:               `{"a":1.50,` + full + `}`,
		`["a"]`:                    `{"context":["a"],` + full + `}`,
		`{"description":"short"}`:  `{"context":{"description":"short"},` + full + `}`,
		`{` + full + `}`:           `{` + full + `}`,
		"https://example.test/ctx": "https://example.test/ctx",
	} {
		title, fitted, losses := translate.FitTitle(long, context)
		if title != cut || fitted != want || !federation.Loses(losses, "title") {
			t.Errorf("context %s: title %q, losses %v\n%s", context, title, losses, cmp.Diff(want, fitted))
		}
	}
}

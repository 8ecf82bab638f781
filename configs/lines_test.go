package configs_test

import (
	"regexp"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/configs"
)

func TestLinesLocateEachKey(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want map[string]int
	}{
		"a key of the file itself":       {"a = 1", map[string]int{"a": 1}},
		"a key of a table":               {"# first\n[t] # here\n\na = 1\n", map[string]int{"t": 2, "t.a": 4}},
		"a table of a table":             {"[t.u]\na = 1", map[string]int{"t": 1, "t.u": 1, "t.u.a": 2}},
		"a dotted key":                   {"[t]\nu.a = 1\nu.b = 2", map[string]int{"t": 1, "t.u": 2, "t.u.a": 2, "t.u.b": 3}},
		"space around every part":        {" [ t . u ] \n\ta\t=\t1", map[string]int{"t": 1, "t.u": 1, "t.u.a": 2}},
		"lines that end as on Windows":   {"[t]\r\na = 1\r\nb = 2\r\n", map[string]int{"t": 1, "t.a": 2, "t.b": 3}},
		"a file with a byte order mark":  {"\ufeffa = 1", map[string]int{"a": 1}},
		"quoted keys":                    {"'a b' = 1\n\"c\\u002Ed\" = 2", map[string]int{`"a b"`: 1, `"c.d"`: 2}},
		"what looks like keys in a text": {"a = \"b = 1 # [c]\"\nd = 'e = \"'", map[string]int{"a": 1, "d": 2}},
		"a text of many lines": {
			"a = \"\"\"\nb = 1\n\\\"\"\" still\n\"\"\"\"\"\nc = 1", map[string]int{"a": 1, "c": 5},
		},
		"a literal text of many lines": {"a = '''\nb = '1'\\'''\nc = 1", map[string]int{"a": 1, "c": 3}},
		"a list over many lines": {
			"a = [ # b = 1\n  '[', \"]\",\n  1979-05-27 07:32:00,\n]\nc = 1",
			map[string]int{"a": 1, "a[0]": 2, "a[1]": 2, "a[2]": 3, "c": 5},
		},
		"a table in one line": {
			"a = { b = 1, c.d = [2] }\ne = {}", map[string]int{"a": 1, "a.b": 1, "a.c": 1, "a.c.d": 1, "a.c.d[0]": 1, "e": 2},
		},
		"tables given many times": {
			"[[t]]\na = 1\n[[t]]\n[t.u]\na = 2\n[[t.v]]\na = 3\n[[t.v]]\na = 4",
			map[string]int{
				"t": 1, "t[0]": 1, "t[0].a": 2, "t[1]": 3, "t[1].u": 4, "t[1].u.a": 5,
				"t[1].v": 6, "t[1].v[0]": 6, "t[1].v[0].a": 7, "t[1].v[1]": 8, "t[1].v[1].a": 9,
			},
		},
		"tables in a list": {
			"t = [{a = 1},\n {a = 2}]", map[string]int{"t": 1, "t[0]": 1, "t[0].a": 1, "t[1]": 2, "t[1].a": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, configs.IndexLines(test.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzLines holds the line index against the library that parses the file: both
// must see the same keys in any valid text.
func FuzzLines(f *testing.F) {
	f.Add(configs.Reference())
	f.Add("[[t]]\na.b = [{c = 1}, {c = '''\n'''}]\n[t.\"u v\"]\nw = \"\"\"\"\"\"\nx = 1e3 # y = 2")
	f.Add("a = [[1, 2], [\"]\"]]\nb = {c = {d = 'e'}}\n[f]\n'' = 07:32:00")
	f.Add("\xfe\xffa = 1")
	f.Add("'a[0]' = [[1]]")
	f.Add(`'""' = """\\""""""` + "\nb = 1")
	item := regexp.MustCompile(`("(?:[^"\\]|\\.)*")|\[\d+\]`) // a quoted key may look like one, and stays
	f.Fuzz(func(t *testing.T, text string) {
		var document map[string]any
		md, err := toml.Decode(text, &document)
		if err != nil {
			return
		}
		want, got := map[string]bool{}, map[string]bool{}
		for _, key := range md.Keys() {
			for n := range key {
				want[key[:n+1].String()] = true
			}
		}
		for path := range configs.IndexLines(text) {
			got[item.ReplaceAllString(path, "$1")] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}

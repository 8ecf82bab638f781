package federationtest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// NamesRead checks that a decoder of peer input matches member names exactly, at any depth. It
// decodes the document with a name in another case, instead of or beside the exact member. The
// result must be that of an unknown name, or an error for a repeated member. The function decode
// returns the decoded value. Values of free members are arbitrary JSON.
func NamesRead(t *testing.T, document string, decode func(text []byte) (any, error), free ...string) {
	t.Helper()
	if _, err := decode([]byte(document)); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	walked := 0
	each(jsontext.Value(document), free, func(name string, rebuilt func(members ...string) string) {
		t.Helper()
		walked++
		if got, err := decode([]byte(rebuilt(name, name))); err == nil {
			t.Errorf("%q twice is read as %+v", name, got)
		}
		for _, other := range otherCases(name) {
			for _, names := range [][2][]string{{{other}, {"x-unknown"}}, {{name, other}, {name, "x-unknown"}}, {{other, name}, {"x-unknown", name}}} {
				got, err := decode([]byte(rebuilt(names[0]...)))
				want, wantErr := decode([]byte(rebuilt(names[1]...)))
				if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("members %q are read as %+v, %v; want %+v, %v", names[0], got, err, want, wantErr)
				}
			}
		}
	})
	if walked == 0 {
		t.Errorf("%s has no members", document)
	}
}

func otherCases(name string) []string {
	cases := []string{strings.ToUpper(name), strings.ReplaceAll(name, "s", "ſ"), strings.ReplaceAll(name, "k", "\u212a")}
	for i, r := range name {
		if unicode.IsLower(r) {
			cases = append(cases, name[:i]+strings.ToUpper(name[i:i+1])+name[i+1:])
			break
		}
	}
	var others []string
	for _, other := range cases {
		if other != name {
			others = append(others, other)
		}
	}
	return others
}

// Free values are skipped. The function rebuilt returns the whole value with that member renamed to
// each of the given names.
func each(value jsontext.Value, free []string, f func(name string, rebuilt func(members ...string) string)) {
	switch value.Kind() { //nolint:exhaustive // other values have no members
	case '{':
		var members []struct {
			name  string
			value jsontext.Value
		}
		decoder := jsontext.NewDecoder(strings.NewReader(string(value)))
		_, _ = decoder.ReadToken()
		for decoder.PeekKind() != '}' {
			name, _ := decoder.ReadToken()
			text := name.String()
			part, err := decoder.ReadValue()
			if err != nil {
				panic(err)
			}
			members = append(members, struct {
				name  string
				value jsontext.Value
			}{text, part.Clone()})
		}
		with := func(at int, replaced string) string {
			var parts []string
			for i, m := range members {
				if i == at {
					parts = append(parts, replaced)
				} else {
					parts = append(parts, quote(m.name)+":"+string(m.value))
				}
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		for i, m := range members {
			f(m.name, func(names ...string) string {
				var renamed []string
				for _, name := range names {
					renamed = append(renamed, quote(name)+":"+string(m.value))
				}
				return with(i, strings.Join(renamed, ","))
			})
			if slices.Contains(free, m.name) {
				continue
			}
			each(m.value, free, func(name string, inner func(...string) string) {
				f(name, func(names ...string) string { return with(i, quote(m.name)+":"+inner(names...)) })
			})
		}
	case '[':
		var items []jsontext.Value
		if err := json.Unmarshal(value, &items); err != nil {
			panic(err)
		}
		for i, item := range items {
			each(item, free, func(name string, inner func(...string) string) {
				f(name, func(names ...string) string {
					var parts []string
					for j, part := range items {
						if j == i {
							part = jsontext.Value(inner(names...))
						}
						parts = append(parts, string(part))
					}
					return "[" + strings.Join(parts, ",") + "]"
				})
			})
		}
	}
}

func quote(name string) string {
	text, _ := json.Marshal(name) //nolint:errchkjson // a string
	return string(text)
}

package federation_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
)

func TestDecodeJSONMatchesNamesExactly(t *testing.T) {
	t.Parallel()
	type inner struct {
		Status string `json:"status"`
	}
	type document struct {
		Status string            `json:"status"`
		Inner  inner             `json:"inner"`
		List   []inner           `json:"list"`
		Tags   map[string]string `json:"tags"`
		Raw    json.RawMessage   `json:"raw"`
	}
	for text, want := range map[string]document{
		`{"status":"a","Status":"b"}`: {Status: "a"},
		`{"Status":"b","status":"a"}`: {Status: "a"},
		`{"STATUS":"b"}`:              {},
		"{\"\u017ftatus\":\"b\"}":     {},
		`{"inner":{"Status":"b"},"list":[{"status":"a","statuS":"b"}]}`: {List: []inner{{"a"}}},
		`{"tags":{"a":"1","A":"2"},"raw":{"x":1,"X":2}}`:                {Tags: map[string]string{"a": "1", "A": "2"}, Raw: json.RawMessage(`{"x":1,"X":2}`)},
		`{"status":null,"other":{"a":1}}`:                               {},
	} {
		var got document
		if err := federation.DecodeJSON([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		`{"status":"a","status":"b"}`:         `duplicate member "status"`,
		`{"status":"a","st\u0061tus":"b"}`:    `duplicate member "status"`,
		`{"inner":{"status":"a","status":1}}`: `duplicate member "status"`,
		`{"tags":{"a":"1","a":"2"}}`:          `duplicate member "a"`,
		`{"raw":{"x":[{"y":1,"y":2}]}}`:       `duplicate member "y"`,
		`{"unknown":{"x":1,"x":2}}`:           `duplicate member "x"`,
		`{"status":"a"} {}`:                   "invalid character '{' after top-level value",
	} {
		err := federation.DecodeJSON([]byte(text), new(document))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := federation.DecodeStrictJSON([]byte(`{"status":"a","Status":"b"}`), new(document)); err == nil || err.Error() != `json: unknown field "Status"` {
		t.Errorf("strict: %v", err)
	}
}

func TestExactNamesRefusesOtherCases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"iss":"a","other":"b","Extra":1}`: "",
		`{"iss":"a","Iss":"b"}`:             `member "Iss" is not "iss"`,
		`{"\u017fub":"a"}`:                  "member \"\u017fub\" is not \"sub\"",
		`{"iss":"a","iss":"b"}`:             `duplicate member "iss"`,
	} {
		got := ""
		if err := federation.ExactNames([]byte(text), "iss", "sub"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// An object of strings is read in one pass as strictly as in two.
func FuzzDecodeStrings(f *testing.F) {
	for _, seed := range []string{
		`{"a":"1","b":""}`, ` {"a" : "\u00e9\n"} `, `{}`, `{"a":"1","a":"2"}`, `{"a":"1","\u0061":"2"}`, `{"a":null}`, `{"a":1}`, `{"a":{"b":"c"}}`,
		`{"__proto__":""}`, `{"\u005f_proto__":""}`, `{"a":"\ud83d"}`, `{"a":"\ud83d\ude00"}`, `{"\udc00":""}`, "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", `{"a":"1"}{}`, `["a"]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := federation.DecodeStrings(text)
		var want map[string]*string
		exact := errors.Join(federation.ExactJSON(text), federation.DecodeJSON(text, &want))
		isObject := exact == nil && want != nil
		for _, value := range want {
			isObject = isObject && value != nil
		}
		if (err == nil) != isObject || isObject && len(got) != len(want) {
			t.Fatalf("%q is %v (%v), want %v (%v)", text, got, err, want, exact)
		}
		for name, value := range got {
			if isObject && *want[name] != value {
				t.Errorf("%q: %q is %q, want %q", text, name, value, *want[name])
			}
		}
	})
}

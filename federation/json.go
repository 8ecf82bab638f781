package federation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	exact "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// The limit protects the stack from hostile input. Baton's own payloads have at most ten levels.
const maxJSONDepth = 64

// IEEE 754 doubles represent all integers up to this one.
const maxExact = 1 << 53

// DecodeJSON decodes an untrusted JSON document. Unlike encoding/json, it matches names exactly and
// rejects repeated members, so that all readers find the same values. It ignores unknown members.
func DecodeJSON(text []byte, into any) error { return decodeJSON(text, into, false) }

// DecodeStrictJSON is a [DecodeJSON] that rejects unknown members.
func DecodeStrictJSON(text []byte, into any) error { return decodeJSON(text, into, true) }

func decodeJSON(text []byte, into any, strict bool) error {
	err := exact.Unmarshal(text, into, jsonv1.DefaultOptionsV1(), exact.MatchCaseInsensitiveNames(false),
		jsontext.AllowDuplicateNames(false), exact.RejectUnknownMembers(strict))
	if err == nil {
		return nil
	}
	// The errors of encoding/json do not name repeated members.
	cause := exact.Unmarshal(text, new(jsontext.Value), jsontext.AllowInvalidUTF8(true))
	if named, ok := errors.AsType[*jsontext.SyntacticError](cause); ok && errors.Is(named, jsontext.ErrDuplicateName) {
		return fmt.Errorf("duplicate member %q", named.JSONPointer.LastToken())
	}
	return err
}

// DecodeStrings decodes an untrusted JSON object of strings, which must be [ExactJSON].
func DecodeStrings(text []byte) (map[string]string, error) {
	var values map[string]*string // a string would decode null as ""
	if err := exact.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if values == nil {
		return nil, errors.New("null is not an object")
	}
	members := make(map[string]string, len(values))
	for name, value := range values {
		if value == nil {
			return nil, fmt.Errorf("%q is null", name)
		}
		if changesObject(name) {
			return nil, fmt.Errorf("member %q is not acceptable", name)
		}
		members[name] = *value
	}
	return members, nil
}

// The name could change the prototype of a JavaScript object.
func changesObject(name string) bool {
	return name == "__proto__" || name == "constructor" || name == "prototype"
}

// MistypedMember returns the path of a member with a wrong type from an error of [DecodeJSON], and the
// type of its value, such as "number". Otherwise it returns "".
func MistypedMember(err error) (member, value string) {
	if wrong, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok {
		return wrong.Field, wrong.Value
	}
	return "", ""
}

// ExactNames returns an error if a case-insensitive library could misread an object: a member is
// repeated, or differs from one of names only in case.
func ExactNames(text []byte, names ...string) error {
	var members map[string]jsontext.Value
	if err := DecodeJSON(text, &members); err != nil {
		return err
	}
	for name := range members {
		for _, known := range names {
			if name != known && strings.EqualFold(name, known) {
				return fmt.Errorf("member %q is not %q", name, known)
			}
		}
	}
	return nil
}

// ExactJSON returns an error if a text cannot be signed as canonical JSON (RFC 8785) and read
// identically by all readers. It must be one JSON value in UTF-8, nested at most 64 deep. It must not
// contain repeated members, half a surrogate pair, or a number beyond IEEE 754 doubles. No name may
// change the prototype of a JavaScript object. Unlike [LosslessJSON], it accepts numbers that canonical
// JSON rounds.
//
// spec: RFC 8785 §3.2.2.3
func ExactJSON(text []byte) error { return exactJSON(text, false) }

// LosslessJSON is an [ExactJSON] that also rejects numbers beyond ±2^53, which canonical JSON would
// round.
func LosslessJSON(text []byte) error { return exactJSON(text, true) }

func exactJSON(text []byte, lossless bool) error {
	switch {
	case !utf8.Valid(text):
		return errors.New("not UTF-8")
	case !json.Valid(text):
		var value json.RawMessage
		return fmt.Errorf("read JSON: %w", json.Unmarshal(text, &value)) // with the offset
	}
	w := exactWalk{text: text, lossless: lossless, seen: map[member]bool{}}
	for w.at < len(w.text) {
		if err := w.step(); err != nil {
			return err
		}
	}
	return pairedSurrogates(text)
}

type exactWalk struct {
	text     []byte
	at       int
	inside   []int // enclosing objects and arrays, outermost first; 0 for an array
	objects  int
	named    bool // the next token is the value of a member
	lossless bool // reject numbers beyond ±2^53
	seen     map[member]bool
}

type member struct {
	object int
	name   string
}

func (w *exactWalk) step() error {
	switch c := w.text[w.at]; {
	case c == '"':
		return w.string()
	case c == '-', '0' <= c && c <= '9':
		return w.number()
	case c == '{':
		w.objects++
		return w.open(w.objects)
	case c == '[':
		return w.open(0)
	case c == '}', c == ']':
		w.inside = w.inside[:len(w.inside)-1]
	case c == ':':
		w.named = true
	case c == ',':
		w.named = false
	}
	w.at++
	return nil
}

func (w *exactWalk) open(object int) error {
	if len(w.inside) == maxJSONDepth {
		return fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	w.inside, w.named = append(w.inside, object), false
	w.at++
	return nil
}

func (w *exactWalk) string() error {
	start := w.at
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
	if w.named || len(w.inside) == 0 || w.inside[len(w.inside)-1] == 0 {
		return nil
	}
	return w.name(w.text[start:w.at])
}

// The name may contain escapes.
func (w *exactWalk) name(quoted []byte) error {
	name := string(quoted[1 : len(quoted)-1])
	if strings.Contains(name, `\`) {
		if err := json.Unmarshal(quoted, &name); err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
	}
	m := member{w.inside[len(w.inside)-1], name}
	switch {
	case w.seen[m]:
		return fmt.Errorf("duplicate member %q", name)
	case changesObject(name):
		return fmt.Errorf("member %q is not acceptable", name)
	}
	w.seen[m] = true
	return nil
}

func (w *exactWalk) number() error {
	start := w.at
	for w.at < len(w.text) && strings.IndexByte("+-.0123456789Ee", w.text[w.at]) >= 0 {
		w.at++
	}
	n := string(w.text[start:w.at])
	f, err := strconv.ParseFloat(n, 64)
	switch {
	case err != nil:
		return fmt.Errorf("number %s is out of range for a double", n)
	case !w.lossless:
	case math.Abs(f) > maxExact:
		return fmt.Errorf("number %s is beyond ±2^53", n)
	case math.Abs(f) == maxExact && strings.TrimPrefix(n, "-") != "9007199254740992": // 2^53+1 reads as 2^53
		return fmt.Errorf("number %s is beyond ±2^53", n)
	}
	return nil
}

// Some readers fail on half a surrogate pair, and others read U+FFFD.
func pairedSurrogates(text []byte) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++ // skip the escaped character
		first := escaped(text[i:])
		if !utf16.IsSurrogate(first) {
			continue
		}
		second := rune(0)
		if rest := text[i+len("uXXXX"):]; len(rest) > 0 && rest[0] == '\\' {
			second = escaped(rest[1:])
		}
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return fmt.Errorf("half a surrogate pair: \\%s", text[i:i+len("uXXXX")])
		}
		i += len(`uXXXX\uXXX`)
	}
	return nil
}

// The result is 0 if the escape is not "uXXXX".
func escaped(text []byte) rune {
	if len(text) < len("uXXXX") || text[0] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[1:5]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(unit)
}

package federation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds nesting in signed JSON: no payload of ours is deeper than
// ten, and a hostile one must not cost stack.
const maxJSONDepth = 64

// maxExact is the greatest integer below which canonical JSON, whose numbers are
// IEEE 754 doubles, keeps every one.
const maxExact = 1 << 53

// ExactJSON reports why a text cannot be signed as canonical JSON (RFC 8785) and
// read alike by everybody: it is no single JSON value in UTF-8, it repeats a
// member, nests deeper than 64, holds a number beyond ±2^53 or half a surrogate pair,
// or names a member so that it changes what a JavaScript object is.
//
// spec: airc-v0.1.1 §12.3
func ExactJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := exactValue(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return pairedSurrogates(text)
}

// pairedSurrogates refuses an escape that stands for half a character: one reader
// fails on it, another puts U+FFFD in its place. The text is JSON.
func pairedSurrogates(text []byte) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++ // whatever is escaped is no backslash that escapes
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

// escaped returns the code unit of "uXXXX", and 0 for another escape.
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

func exactValue(dec *json.Decoder, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Number:
		return exactNumber(t)
	case json.Delim:
		return exactMembers(dec, t, depth)
	}
	return nil
}

// exactMembers reads the inside of an object or array up to its end.
func exactMembers(dec *json.Decoder, open json.Delim, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return fmt.Errorf("read JSON: %w", err)
			}
			name, _ := token.(string)
			switch {
			case seen[name]:
				return fmt.Errorf("member %q is there twice", name)
			case name == "__proto__", name == "constructor", name == "prototype":
				return fmt.Errorf("member %q is not acceptable", name)
			}
			seen[name] = true
		}
		if err := exactValue(dec, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

func exactNumber(n json.Number) error {
	f, err := n.Float64()
	switch {
	case err != nil, math.Abs(f) > maxExact:
		return fmt.Errorf("number %s is beyond ±2^53", n)
	case math.Abs(f) == maxExact && strings.TrimPrefix(n.String(), "-") != "9007199254740992": // 2^53+1 reads as 2^53
		return fmt.Errorf("number %s is beyond ±2^53", n)
	}
	return nil
}

package voicefile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A hostile file must not exhaust the stack.
const maxDepth = 64

// The members are in the order of the file.
type object []member

type member struct {
	name  string
	value any // nil, bool, string, json.Number, []any or object
}

func (o object) get(name string) any {
	i := slices.IndexFunc(o, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return o[i].value
}

func (o object) text(name string) string {
	text, _ := o.get(name).(string)
	return text
}

func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(names, m.name) })
}

// parse rejects an object with a repeated member, because two readers could take it for two files.
// Literals of numbers stay unchanged.
func parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := parseValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return value, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, opens := token.(json.Delim)
	switch {
	case !opens:
		return token, nil
	case depth == maxDepth:
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	case delim == '[':
		return parseList(d, depth)
	}
	return parseObject(d, depth)
}

func parseList(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		value, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token()
	return list, err
}

func parseObject(d *json.Decoder, depth int) (any, error) {
	o, seen := object{}, map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok || seen[name] {
			return nil, fmt.Errorf("duplicate member %q", name)
		}
		seen[name] = true
		value, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name, value})
	}
	_, err := d.Token()
	return o, err
}

// canonical returns the text that an HMAC covers: members sorted at every level, no spaces, only
// printable ASCII, and numbers as Python prints them.
func canonical(value any) []byte {
	var out bytes.Buffer
	canonicalTo(&out, value)
	return out.Bytes()
}

func canonicalTo(out *bytes.Buffer, value any) {
	switch v := value.(type) {
	case object:
		sorted := slices.SortedFunc(slices.Values(v), func(a, b member) int { return cmp.Compare(a.name, b.name) })
		out.WriteByte('{')
		for i, m := range sorted {
			separate(out, i)
			escapeTo(out, m.name)
			out.WriteByte(':')
			canonicalTo(out, m.value)
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, each := range v {
			separate(out, i)
			canonicalTo(out, each)
		}
		out.WriteByte(']')
	case string:
		escapeTo(out, v)
	case json.Number:
		out.WriteString(number(v.String()))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	default:
		out.WriteString("null")
	}
}

func separate(out *bytes.Buffer, i int) {
	if i > 0 {
		out.WriteByte(',')
	}
}

func escapeTo(out *bytes.Buffer, text string) {
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case strings.ContainsRune("\"\\\n\r\t\b\f", r):
			out.WriteByte('\\')
			out.WriteByte("\"\\nrtbf"[strings.IndexRune("\"\\\n\r\t\b\f", r)])
		case r >= ' ' && r <= '~':
			out.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(out, `\u%04x`, unit)
			}
		}
	}
	out.WriteByte('"')
}

// Python prints an integer with its digits, and any other number as the shortest text of its
// double.
func number(literal string) string {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			return "0"
		}
		return literal
	}
	f, _ := strconv.ParseFloat(literal, 64) // beyond a double it is an infinity, as in Python
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// The JSON is compact, with the original order of members and literals of numbers.
func write(value any) json.RawMessage {
	var out bytes.Buffer
	writeTo(&out, value)
	return out.Bytes()
}

func writeTo(out *bytes.Buffer, value any) {
	switch v := value.(type) {
	case object:
		out.WriteByte('{')
		for i, m := range v {
			separate(out, i)
			out.Write(quoted(m.name))
			out.WriteByte(':')
			writeTo(out, m.value)
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, each := range v {
			separate(out, i)
			writeTo(out, each)
		}
		out.WriteByte(']')
	case string:
		out.Write(quoted(v))
	case json.Number:
		out.WriteString(v.String())
	case bool:
		out.WriteString(strconv.FormatBool(v))
	default:
		out.WriteString("null")
	}
}

func quoted(text string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil { // every string has a JSON form
		panic("voicefile: " + err.Error())
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

package openapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Object is an object with ordered members.
type Object []Member

// Member is one member: a string, a number, a bool, a []any or an [Object].
type Member struct {
	Name  string
	Value any
}

func (o Object) described(text string) Object {
	if text == "" {
		return o
	}
	return append(o, Member{"description", text})
}

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, each := range o {
		if i > 0 {
			text = append(text, ',')
		}
		name, err := json.Marshal(each.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(each.Value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

const maxFlow = 150

var plain = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9 _./+-]*[A-Za-z0-9./]|[A-Za-z]|/[A-Za-z0-9_/{}.-]*|\$ref)$`)

func scalar(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plain.MatchString(text) {
			return text
		}
	}
	return strconv.Quote(text) // YAML has the escapes of Go
}

func flow(value any) string {
	switch v := value.(type) {
	case string:
		if strings.ContainsAny(v, "{}") {
			return `"` + v + `"`
		}
		return scalar(v)
	case []any:
		var items []string
		for _, each := range v {
			items = append(items, flow(each))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Object:
		var members []string
		for _, each := range v {
			members = append(members, flow(each.Name)+": "+flow(each.Value))
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return fmt.Sprint(value)
}

// YAML returns a document, with its top level as a block.
func (o Object) YAML() string {
	var out strings.Builder
	for _, each := range o {
		writeMember(&out, "", each)
	}
	return out.String()
}

func writeMember(out *strings.Builder, indent string, m Member) {
	name := scalar(m.Name)
	line := flow(m.Value)
	text, isText := m.Value.(string)
	switch {
	case isText && strings.Contains(text, "\n"):
		fmt.Fprintf(out, "%s%s: |\n", indent, name)
		for each := range strings.Lines(text) {
			out.WriteString(strings.TrimRight(indent+"  "+each, " "))
		}
		return
	case isText:
		fmt.Fprintf(out, "%s%s: %s\n", indent, name, scalar(text))
		return
	case isLeaf(m.Value) || len(indent)+utf8.RuneCountInString(name+line) < maxFlow && !strings.HasPrefix(m.Name, "/"):
		fmt.Fprintf(out, "%s%s: %s\n", indent, name, line)
		return
	}
	fmt.Fprintf(out, "%s%s:\n", indent, name)
	if list, ok := m.Value.([]any); ok {
		for _, each := range list {
			fmt.Fprintf(out, "%s  - %s\n", indent, flow(each))
		}
		return
	}
	object, _ := m.Value.(Object) // no other value is left
	for _, each := range object {
		writeMember(out, indent+"  ", each)
	}
}

func isLeaf(value any) bool {
	switch v := value.(type) {
	case Object:
		return len(v) == 0
	case []any:
		for _, each := range v {
			if !isLeaf(each) {
				return false
			}
		}
	}
	return true
}

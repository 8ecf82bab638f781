package bridgetest

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
)

// ReferenceDiff compares a network's part of the reference file with the defaults of its
// configuration, a pointer to a struct. It returns the keys missing in either, and different
// defaults, or "". A key with an empty default may show an example. The error means that the
// reference is not exactly one table of the network.
func ReferenceDiff(n bridge.Network, defaults any) (string, error) {
	inForce := regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(n.Reference, "$1")
	var file map[string]any
	if _, err := toml.Decode(inForce, &file); err != nil {
		return "", fmt.Errorf("parse reference: %w", err)
	}
	table, err := tableAt(file, n)
	if err != nil {
		return "", err
	}
	shown := reflect.New(reflect.TypeOf(defaults).Elem())
	shown.Elem().Set(reflect.ValueOf(defaults).Elem())
	if err := decodeTable(table, shown.Interface()); err != nil {
		return "", err
	}
	named, coded, values := map[string]any{}, map[string]any{}, map[string]any{}
	namedKeys("", table, named)
	codedKeys("", reflect.ValueOf(defaults).Elem(), coded)
	codedKeys("", shown.Elem(), values)
	foldNames(coded, named)
	diffs := []string{cmp.Diff(slices.Sorted(maps.Keys(coded)), slices.Sorted(maps.Keys(named)))}
	for _, key := range slices.Sorted(maps.Keys(coded)) {
		if isExample(coded[key]) {
			continue
		}
		diffs = append(diffs, cmp.Diff(coded[key], values[key]))
	}
	return strings.Join(diffs, ""), nil
}

func isExample(value any) bool {
	return reflect.ValueOf(value).IsZero() && reflect.TypeOf(value).Kind() != reflect.Bool
}

func tableAt(file map[string]any, n bridge.Network) (map[string]any, error) {
	value := any(file)
	for part := range strings.SplitSeq(n.Table, ".") {
		outer, _ := value.(map[string]any)
		value = outer[part]
	}
	if list, ok := value.([]map[string]any); ok && n.Many && len(list) == 1 {
		return list[0], nil
	}
	table, ok := value.(map[string]any)
	if !ok || n.Many {
		return nil, fmt.Errorf("the reference of %s has no table %s", n.Name, n.Table)
	}
	return table, nil
}

func decodeTable(table map[string]any, into any) error {
	text, err := toml.Marshal(table)
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	if _, err := toml.Decode(string(text), into); err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	return nil
}

func namedKeys(prefix string, table, keys map[string]any) {
	for key, value := range table {
		switch value := value.(type) {
		case map[string]any:
			namedKeys(prefix+key+".", value, keys)
		case []map[string]any:
			namedKeys(prefix+key+".", value[0], keys)
		default:
			keys[prefix+key] = value
		}
	}
}

func foldNames(coded, named map[string]any) {
	for key, value := range coded {
		if reflect.TypeOf(value).Kind() != reflect.Map {
			continue
		}
		for name, example := range named {
			if strings.HasPrefix(name, key+".") {
				delete(named, name)
				named[key] = example
			}
		}
	}
}

func codedKeys(prefix string, config reflect.Value, keys map[string]any) {
	for field, value := range config.Fields() {
		key := field.Tag.Get("toml")
		switch {
		case key == "":
		case isTable(value.Type()):
			codedKeys(prefix+key+".", value, keys)
		case value.Kind() == reflect.Slice && isTable(value.Type().Elem()):
			one := reflect.Zero(value.Type().Elem()) // a list of tables has no defaults
			codedKeys(prefix+key+".", one, keys)
		default:
			keys[prefix+key] = value.Interface()
		}
	}
}

func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

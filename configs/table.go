package configs

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Table is one table of a file, for its owner to decode.
type Table struct {
	file   *File
	path   string // with the position in an array, as in "irc.spanningtree[1]"
	name   string // without the position, as in "irc.spanningtree"
	values map[string]any
}

// Table returns the named table, such as "airc". A missing table is empty, so its owner's defaults
// apply.
func (f *File) Table(name string) Table {
	t := Table{file: f, path: name, name: name}
	value, ok := f.claim(name)
	if !ok {
		return t
	}
	if t.values, ok = value.(map[string]any); !ok {
		t.Mistake("", "want one table, ["+name+"]")
	}
	return t
}

// Tables returns the tables of a repeatable name, such as "irc.spanningtree", in the order of the
// file.
func (f *File) Tables(name string) []Table {
	value, ok := f.claim(name)
	if !ok {
		return nil
	}
	return f.list(name, name, value)
}

func (f *File) list(path, name string, value any) []Table {
	items := reflect.ValueOf(value) // []map[string]any from headers, []any from an inline array
	if items.Kind() != reflect.Slice {
		Table{file: f, path: path, name: name}.Mistake("", "want a list of tables, [["+name+"]]")
		return nil
	}
	var tables []Table
	for i := range items.Len() {
		t := Table{file: f, path: itemPath(path, i), name: name}
		values, ok := reflect.TypeAssert[map[string]any](items.Index(i))
		if t.values = values; !ok {
			t.Mistake("", "want a list of tables, [["+name+"]]")
		}
		tables = append(tables, t)
	}
	return tables
}

func (t Table) inner(key string) Table {
	inner := Table{file: t.file, path: keyPath(t.path, key), name: keyPath(t.name, key)}
	var ok bool
	if inner.values, ok = t.values[key].(map[string]any); !ok {
		inner.Mistake("", "want one table, ["+inner.name+"]")
	}
	return inner
}

func (f *File) claim(name string) (any, bool) {
	f.claimed[name] = true
	return f.lookup(name)
}

func (f *File) lookup(name string) (any, bool) {
	var value any = f.tables
	for part := range strings.SplitSeq(name, ".") {
		table, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = table[part]; !ok {
			return nil, false
		}
	}
	return value, true
}

// Changed returns the named tables that differ from an older version of the file.
func (f *File) Changed(old *File, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		before, _ := old.lookup(name)
		after, _ := f.lookup(name)
		return reflect.DeepEqual(before, after)
	})
}

// Path returns the path of a file named by the table, like [File.Path].
func (t Table) Path(name string) string { return t.file.Path(name) }

// Equal reports whether two tables have the same content.
func (t Table) Equal(other Table) bool {
	return t.name == other.name && reflect.DeepEqual(t.values, other.values)
}

// Mistake adds a mistake about a key of the table, present or not, to the mistakes of the file. The
// key "" means the whole table.
func (t Table) Mistake(key, why string) {
	path, name := t.path, t.name
	if key != "" {
		path, name = keyPath(path, key), keyPath(name, key)
	}
	t.file.mistakes = append(t.file.mistakes, t.file.mistake(path, name, why))
}

// Decode writes the table into the struct behind a pointer. The "toml" tags of its fields are the
// keys; keys missing in the table keep their value. Values of the wrong type are added to the
// mistakes of the file.
//
// Fields are strings, booleans, integers, durations, types that unmarshal from text, and slices of
// these. Maps go from a name to one of these. Structs are subtables, and slices of structs are
// lists of tables.
func (t Table) Decode(into any) {
	fields := map[string]reflect.Value{}
	target := reflect.ValueOf(into).Elem()
	for i := range target.NumField() {
		if key := target.Type().Field(i).Tag.Get("toml"); key != "" {
			fields[key] = target.Field(i)
		}
	}
	for key, value := range t.values {
		field, known := fields[key]
		switch {
		case known:
			t.decodeKey(key, value, field)
		case !t.file.claimed[keyPath(t.name, key)]: // otherwise it is a table with its own owner
			t.Mistake(key, unknown("key", key, slices.Collect(maps.Keys(fields))))
		}
	}
}

func (t Table) decodeKey(key string, value any, field reflect.Value) {
	switch {
	case isTable(field.Type()):
		t.inner(key).Decode(field.Addr().Interface())
	case field.Kind() == reflect.Slice && isTable(field.Type().Elem()):
		list := t.file.list(keyPath(t.path, key), keyPath(t.name, key), value)
		field.Set(reflect.MakeSlice(field.Type(), len(list), len(list)))
		for i, each := range list {
			each.Decode(field.Index(i).Addr().Interface())
		}
	default:
		if err := assign(field, value); err != nil {
			t.Mistake(key, err.Error())
		}
	}
}

// A struct that unmarshals from text, such as a network address, is not a table.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func wantError(what string, value any) error {
	return fmt.Errorf("want %s, not %s", what, kindOf(value))
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a fraction"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "a list"
	}
	return "a time" // the only other values of TOML
}

// Mistake is one mistake in a file.
type Mistake struct {
	File string // as passed to [Load]
	Line int    // line of the key, or otherwise of its table's header, from 1
	Key  string // with its table, as in "home.name"; empty for the whole file
	Why  string
}

func (m Mistake) String() string {
	if m.Key == "" {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Why)
	}
	return fmt.Sprintf("%s:%d: %s: %s", m.File, m.Line, m.Key, m.Why)
}

// InvalidError has all mistakes of one file, in line order.
type InvalidError struct{ Mistakes []Mistake }

// Error returns one line per mistake.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// inOrder sorts mistakes by line and keeps the first about each key. Later mistakes about an
// unreadable value are redundant.
func inOrder(mistakes []Mistake) []Mistake {
	slices.SortStableFunc(mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Key, b.Key))
	})
	return slices.CompactFunc(mistakes, func(a, b Mistake) bool {
		return a.Line == b.Line && a.Key == b.Key
	})
}

// The reason suggests a similar known name if there is one.
func unknown(what, name string, known []string) string {
	const typos = 2 // maximum edit distance of a likely typo
	best, distance := "", typos+1
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(name, candidate); d < distance && d < len(candidate) {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return "unknown " + what
	}
	return fmt.Sprintf("unknown %s, did you mean %s?", what, best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

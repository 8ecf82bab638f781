package configs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Table is one table of a file, on its way to its owner.
type Table struct {
	file   *File
	path   string // with the position in an array, as in "irc.spanningtree[1]"
	name   string // without, as in "irc.spanningtree"
	values map[string]any
}

// Table returns the table of a name, such as "airc". One that the file does not have
// is empty: its owner's defaults stand.
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

// Tables returns the tables of a name that may be given any number of times, such
// as "irc.spanningtree", in the order of the file.
func (f *File) Tables(name string) []Table {
	value, ok := f.claim(name)
	if !ok {
		return nil
	}
	return f.list(name, name, value)
}

// list returns the tables of a list.
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

// Split returns a table without the list of tables under one of its keys, and that
// list, in the order of the file.
func (t Table) Split(key string) (rest Table, list []Table) {
	value, ok := t.values[key]
	if !ok {
		return t, nil
	}
	rest = t
	rest.values = maps.Clone(t.values)
	delete(rest.values, key)
	return rest, t.file.list(keyPath(t.path, key), keyPath(t.name, key), value)
}

// Inner returns the table under one of a table's keys, as [File.Table] does: it is no
// part of the outer one any more when that is decoded after this.
func (t Table) Inner(key string) Table { return t.file.Table(keyPath(t.name, key)) }

// claim notes that a table has an owner and returns what the file has there.
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

// Changed returns which of the named tables are not as they were in an older
// reading of the file.
func (f *File) Changed(old *File, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		before, _ := old.lookup(name)
		after, _ := f.lookup(name)
		return reflect.DeepEqual(before, after)
	})
}

// Path returns the path of a file that the table names, as [File.Path] does.
func (t Table) Path(name string) string { return t.file.Path(name) }

// Equal reports whether two tables say the same.
func (t Table) Equal(other Table) bool {
	return t.name == other.name && reflect.DeepEqual(t.values, other.values)
}

// Mistake adds a mistake about one of the table's keys, present or not, to those of
// the file; about the whole table with key "".
func (t Table) Mistake(key, why string) {
	path, name := t.path, t.name
	if key != "" {
		path, name = keyPath(path, key), keyPath(name, key)
	}
	t.file.mistakes = append(t.file.mistakes, t.file.mistake(path, name, why))
}

// Decode writes the table into the struct that a pointer points to, whose fields
// name their keys with the tag "toml"; keys that the table does not have keep
// their value. What does not fit is added to the mistakes of the file.
//
// Fields are strings, booleans, integers, durations, types that read themselves
// from text, and slices of these.
func (t Table) Decode(into any) {
	fields := map[string]reflect.Value{}
	target := reflect.ValueOf(into).Elem()
	for i := range target.NumField() {
		if key := target.Type().Field(i).Tag.Get("toml"); key != "" {
			fields[key] = target.Field(i)
		}
	}
	for key, value := range t.values {
		if t.file.claimed[keyPath(t.name, key)] {
			continue // a table of its own
		}
		field, known := fields[key]
		if !known {
			t.Mistake(key, unknown("key", key, slices.Collect(maps.Keys(fields))))
			continue
		}
		if err := assign(field, value); err != nil {
			t.Mistake(key, err.Error())
		}
	}
}

// wantError says what a key takes.
func wantError(what string, value any) error {
	return fmt.Errorf("want %s, not %s", what, kindOf(value))
}

// kindOf names the type of a TOML value for people.
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

package configs

import (
	"crypto/tls"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// MaxFileBytes is much larger than a configuration with thousands of links. It limits the harm of a
// wrong file in --config.
const MaxFileBytes = 1 << 20

// File is one configuration file. It collects the mistakes found by this package and by the owners
// of its tables.
type File struct {
	Config // the frame, decoded over [Default]

	name        string
	tables      map[string]any // the whole document
	lines       lineIndex
	claimed     map[string]bool
	mistakes    []Mistake
	certificate *tls.Certificate // nil without certificate files
}

// Load reads a file. The error is a [*InvalidError] if the file is not TOML, and another error if
// it cannot be read. [File.Err] returns all other mistakes.
func Load(path string) (*File, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file, with --config
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > MaxFileBytes {
		return nil, fmt.Errorf("read configuration: %s is longer than %d bytes", path, MaxFileBytes)
	}
	return Parse(path, string(text))
}

// Parse is like [Load], but parses a text. Mistakes show the given file name, and home.data_dir is
// relative to its folder.
func Parse(name, text string) (*File, error) {
	f := &File{Config: Default(), name: name, claimed: map[string]bool{}}
	if _, err := toml.Decode(text, &f.tables); err != nil {
		m := Mistake{File: name, Line: 1, Why: err.Error()}
		if syntax, ok := errors.AsType[toml.ParseError](err); ok {
			m.Line, m.Why = syntax.Position.Line, syntax.Message
		}
		return nil, &InvalidError{Mistakes: []Mistake{m}}
	}
	f.lines = indexLines(text)
	f.frame()
	return f, nil
}

func (f *File) frame() {
	f.home(f.decoded("home", &f.Home))
	f.acme(f.decoded("tls.acme", &f.ACME))
	f.tls(f.decoded("tls", &f.TLS))
	f.http(f.decoded("http", &f.HTTP))
	f.admin(f.decoded("admin", &f.Admin))
	f.fetch(f.decoded("fetch", &f.Fetch))
	f.identity(f.decoded("identity", &f.Identity))
	f.keys(f.decoded("keys", &f.Keys))
	f.store(f.decoded("store", &f.Store))
	f.claim("relay.hub") // decoded by the package with the NATS client
	f.relay(f.decoded("relay", &f.Relay))
	f.webhooks(f.decoded("webhooks", &f.Webhooks))
	f.decoded("agents", &f.Agents)
	f.claim("policy.rules") // its owner validates verbs and DIDs
	f.policy(f.decoded("policy", &f.Policy))
	f.limits(f.decoded("limits", &f.Limits))
	f.retention(f.decoded("retention", &f.Retention))
	f.log(f.decoded("log", &f.Log))
	f.decoded("metrics", &f.Metrics)
	f.sharedPorts()
}

func (f *File) decoded(name string, into any) Table {
	t := f.Table(name)
	t.Decode(into)
	return t
}

// Err returns a [*InvalidError] with every mistake so far, or nil. A table not requested by an
// owner counts as unknown, so request all of them first.
func (f *File) Err() error {
	mistakes := inOrder(slices.Concat(f.mistakes, f.unclaimed("", f.tables)))
	if len(mistakes) == 0 {
		return nil
	}
	return &InvalidError{Mistakes: mistakes}
}

func (f *File) unclaimed(path string, table map[string]any) []Mistake {
	var found []Mistake
	known := f.claimsBelow(path)
	for key, value := range table {
		at := keyPath(path, key)
		if f.claimed[at] {
			continue
		}
		inner, isTable := value.(map[string]any)
		switch {
		case !slices.Contains(known, key):
			found = append(found, f.mistake(at, at, unknown("table", key, known)))
		case !isTable:
			found = append(found, f.mistake(at, at, "want a table"))
		default:
			found = append(found, f.unclaimed(at, inner)...)
		}
	}
	return found
}

func (f *File) claimsBelow(path string) []string {
	var parts []string
	for name := range maps.Keys(f.claimed) {
		rest, below := name, true
		if path != "" {
			rest, below = strings.CutPrefix(name, path+".")
		}
		if below {
			part, _, _ := strings.Cut(rest, ".")
			parts = append(parts, part)
		}
	}
	return parts
}

// A mistake at an unknown path is located at the nearest table around it.
func (f *File) mistake(path, key, why string) Mistake {
	line := 0
	for at := path; line == 0 && at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		line = f.lines[at]
	}
	return Mistake{File: f.name, Line: max(1, line), Key: key, Why: why}
}

// SecretFiles returns the secret files named by the configuration. Certificates and authorities are
// public.
func (f *File) SecretFiles() []string {
	var paths []string
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				name, isName := inner.(string)
				if isName && name != "" && strings.HasSuffix(key, "_file") && key != "cert_file" && key != "ca_file" {
					paths = append(paths, f.Path(name))
				}
				walk(inner)
			}
		case []map[string]any:
			for _, inner := range value {
				walk(inner)
			}
		case []any:
			for _, inner := range value {
				walk(inner)
			}
		}
	}
	walk(f.tables)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Line returns the line of a key, such as "limits.clock_skew" or "policy.rules[1]", or 0.
func (f *File) Line(path string) int { return f.lines[path] }

// Name returns the path of the configuration as passed to [Load] or [Parse].
func (f *File) Name() string { return f.name }

// Path resolves a file name of the configuration. Relative names are below home.data_dir, which is
// relative to the configuration's own folder.
func (f *File) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	dir := f.Home.DataDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(f.name), dir)
	}
	return filepath.Join(dir, name)
}

// assign is stricter than the TOML library, which accepts a bare number as nanoseconds, and a
// number or a boolean as text.
func assign(field reflect.Value, value any) error {
	if text, ok := reflect.TypeAssert[encoding.TextUnmarshaler](field.Addr()); ok {
		return assignText(text, value)
	}
	if field.Type() == reflect.TypeFor[time.Duration]() {
		const want = `a duration such as "500ms", "15s" or "24h"`
		text, ok := value.(string)
		if !ok {
			return wantError(want, value)
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("want %s, not %q", want, text)
		}
		field.SetInt(int64(d))
		return nil
	}
	switch field.Kind() { //nolint:exhaustive // the kinds that Decode promises; a field of another one is the programmer's mistake
	case reflect.String:
		v, ok := value.(string)
		if !ok {
			return wantError("a string", value)
		}
		field.SetString(v)
	case reflect.Bool:
		v, ok := value.(bool)
		if !ok {
			return wantError("true or false", value)
		}
		field.SetBool(v)
	case reflect.Int, reflect.Int64:
		v, ok := value.(int64)
		if !ok {
			return wantError("an integer", value)
		}
		if field.OverflowInt(v) {
			return fmt.Errorf("%d is too large", v)
		}
		field.SetInt(v)
	case reflect.Slice:
		return assignSlice(field, value)
	case reflect.Map:
		return assignMap(field, value)
	default:
		panic("configs: no TOML value fits a field of type " + field.Type().String())
	}
	return nil
}

func assignText(field encoding.TextUnmarshaler, value any) error {
	text, ok := value.(string)
	if !ok {
		return wantError("a string", value)
	}
	return field.UnmarshalText([]byte(text))
}

// The default list is replaced, not extended.
func assignSlice(field reflect.Value, value any) error {
	items, ok := value.([]any)
	if !ok {
		return wantError("a list", value)
	}
	slice := reflect.MakeSlice(field.Type(), len(items), len(items))
	for i, item := range items {
		if err := assign(slice.Index(i), item); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	field.Set(slice)
	return nil
}

// The whole map is replaced. Any name is allowed in it.
func assignMap(field reflect.Value, value any) error {
	table, ok := value.(map[string]any)
	if !ok {
		return wantError("a table of names", value)
	}
	values := reflect.MakeMapWithSize(field.Type(), len(table))
	for name, each := range table {
		item := reflect.New(field.Type().Elem()).Elem()
		if err := assign(item, each); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		values.SetMapIndex(reflect.ValueOf(name), item)
	}
	field.Set(values)
	return nil
}

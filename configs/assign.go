package configs

import (
	"encoding"
	"fmt"
	"reflect"
	"time"
)

// assign writes one TOML value into a field. It is stricter than the TOML library,
// which takes a bare number for a duration in nanoseconds, and a number or a
// boolean for any text.
func assign(field reflect.Value, value any) error {
	if text, ok := reflect.TypeAssert[encoding.TextUnmarshaler](field.Addr()); ok {
		return assignText(text, value)
	}
	if field.Type() == reflect.TypeFor[time.Duration]() {
		return assignDuration(field, value)
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

func assignDuration(field reflect.Value, value any) error {
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

// assignSlice replaces the whole slice: a list in the file is not appended to the
// default.
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

// assignMap replaces the whole map. The names are free: a table of the file decides about them.
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

package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

func check(r *http.Request, d route.Description) error {
	fields, query := route.Fields(d.In), r.URL.Query()
	for _, f := range fields {
		var values []string
		switch f.Place {
		case route.InPath:
			values = []string{r.PathValue(f.Name)}
		case route.InQuery:
			values = query[f.Name]
		case route.InHeader:
			values = r.Header.Values(f.Name)
		case route.InBody:
			if err := checkBody(r, f); err != nil {
				return err
			}
		}
		if len(values) == 0 {
			continue
		}
		if err := checkParameter(values, f); err != nil {
			return usage(f.Name + ": " + err.Error())
		}
	}
	return checkNames(query, fields)
}

// checkNames refuses unknown parameters: a misspelt filter must not select everything.
func checkNames(query url.Values, fields []route.Field) error {
	var known []string
	for _, f := range fields {
		if f.Place == route.InQuery {
			known = append(known, f.Name)
		}
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return usage("there is no parameter " + strconv.Quote(name) + participant.DidYouMean(name, known))
		}
	}
	return nil
}

func checkRepeated(r *http.Request, d route.Description) error {
	query := r.URL.Query()
	for _, f := range route.Fields(d.In) {
		switch {
		case f.Place == route.InQuery && len(query[f.Name]) > 1:
			return usage(fmt.Sprintf("Invalid format for parameter %s: multiple values for single value parameter '%s'", f.Name, f.Name))
		case f.Place == route.InHeader && len(r.Header.Values(f.Name)) > 1:
			return usage(fmt.Sprintf("Expected one value for %s, got %d", f.Name, len(r.Header.Values(f.Name))))
		}
	}
	return nil
}

func checkParameter(values []string, f route.Field) error {
	text := values[0]
	if f.Place == route.InQuery && text == "" {
		text = values[max(0, slices.IndexFunc(values, func(v string) bool { return v != "" }))]
	}
	kind := f.Type.Kind()
	if kind == reflect.String || f.Type == reflect.TypeFor[time.Time]() {
		return conforms(text, f.Type, f.Tag)
	}
	if text == "" {
		return errors.New("empty value is not allowed")
	}
	var value any
	var err error
	name := "integer"
	if kind == reflect.Int {
		var number int64
		number, err = strconv.ParseInt(text, 10, 64)
		value = float64(number)
	} else {
		name = "boolean"
		value, err = strconv.ParseBool(text)
	}
	if err != nil {
		return fmt.Errorf("value %s: an invalid %s: %w", text, name, errors.Unwrap(err))
	}
	return conforms(value, f.Type, f.Tag)
}

// checkBody leaves the body readable.
func checkBody(r *http.Request, f route.Field) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err // cannot fail: the body is in memory
	}
	if len(text) > 0 {
		text = tolerated(text, f.Document())
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	if len(text) == 0 {
		if f.Optional() {
			return nil
		}
		return usage("a body is needed")
	}
	media := r.Header.Get("Content-Type")
	base, _, _ := strings.Cut(media, ";")
	if !strings.EqualFold(strings.TrimSpace(base), f.Name) {
		return usage("header Content-Type has unexpected value " + strconv.Quote(media))
	}
	var value any
	if err := federation.DecodeJSON(text, &value); err != nil {
		return usage("the body is not acceptable JSON: " + err.Error())
	}
	if err := conforms(value, f.Document(), ""); err != nil {
		return usage(err.Error())
	}
	return nil
}

// tolerated removes null optional members, and turns 20.0 into an integer. Any other JSON is unchanged.
func tolerated(text json.RawMessage, t reflect.Type) json.RawMessage {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var members map[string]json.RawMessage
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || federation.DecodeJSON(text, &members) != nil {
		return text
	}
	changed := false
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		member, given := members[name]
		var number float64
		switch {
		case !given:
		case string(member) == "null" && strings.HasPrefix(options, "omit"):
			delete(members, name)
			changed = true
		case field.Type.Kind() == reflect.Int:
			if err := federation.DecodeJSON(member, &number); err == nil {
				if digits, ok := participant.Integer(number); ok {
					members[name], changed = digits, true
				}
			}
		default:
			meant := tolerated(member, field.Type)
			changed = changed || !bytes.Equal(meant, member)
			members[name] = meant
		}
	}
	if meant, err := json.Marshal(members); changed && err == nil {
		return meant
	}
	return text
}

// parseAsk also returns the name of the request's member.
func parseAsk(text []byte) (ask contract.SocketAsk, what string, err error) {
	if err := federation.ExactJSON(text); err != nil {
		return ask, "", usage("the message is not acceptable JSON: " + err.Error())
	}
	text = tolerated(text, reflect.TypeFor[contract.SocketAsk]())
	var value any
	if err := federation.DecodeJSON(text, &value); err != nil {
		return ask, "", usage("the message is not acceptable JSON: " + err.Error())
	}
	members, _ := value.(map[string]any)
	ask.ID, _ = members["id"].(string) // errors also carry the ID
	if err := conforms(value, reflect.TypeFor[contract.SocketAsk](), ""); err != nil {
		return ask, "", usage("the message is not a SocketAsk: " + err.Error())
	}
	delete(members, "id")
	if len(members) != 1 {
		return ask, "", usage("want exactly one of ack, nack, extend and lease")
	}
	what = slices.Collect(maps.Keys(members))[0]
	return ask, what, federation.DecodeJSON(text, &ask)
}

// conforms enforces the types and limits promised by the API document.
func conforms(value any, t reflect.Type, tag reflect.StructTag) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	types := []string{"string"}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		types = strings.Split(tag.Get("type"), ",")
	case t == reflect.TypeFor[time.Time](), t.Kind() == reflect.String:
	case t.Kind() == reflect.Struct:
		types = []string{"object"}
	case t.Kind() == reflect.Slice:
		types = []string{"array"}
	case t.Kind() == reflect.Int:
		types = []string{"integer"}
	default:
		types = []string{"boolean"}
	}
	if enum := tag.Get("enum"); enum != "" {
		if text, ok := value.(string); !ok || !slices.Contains(strings.Split(enum, ","), text) {
			return errors.New(`value is not one of the allowed values ["` + strings.ReplaceAll(enum, ",", `","`) + `"]`)
		}
	}
	switch v := value.(type) {
	case nil:
		return errors.New("value must not be null")
	case float64:
		if slices.Contains(types, "integer") {
			return conformsNumber(v, tag)
		}
	case string:
		if slices.Contains(types, "string") {
			return conformsText(v, t, tag)
		}
	case []any:
		if slices.Contains(types, "array") {
			return conformsList(v, t, tag)
		}
	case map[string]any:
		if slices.Contains(types, "object") {
			return conformsObject(v, t)
		}
	case bool:
		if slices.Contains(types, "boolean") {
			return nil
		}
	}
	switch {
	case len(types) > 1:
		return errors.New("value must be one of " + strings.Join(types, ", "))
	case strings.ContainsAny(types[0][:1], "aio"):
		return errors.New("value must be an " + types[0])
	}
	return errors.New("value must be a " + types[0])
}

func conformsNumber(value float64, tag reflect.StructTag) error {
	if value != math.Trunc(value) {
		return errors.New("value must be an integer")
	}
	if least, err := strconv.ParseFloat(tag.Get("minimum"), 64); err == nil && value < least {
		return fmt.Errorf("number must be at least %g", least)
	}
	if most, err := strconv.ParseFloat(tag.Get("maximum"), 64); err == nil && value > most {
		return fmt.Errorf("number must be at most %g", most)
	}
	return nil
}

// spec: RFC 3339 §5.6
const moments = `^[0-9]{4}-(0[1-9]|10|11|12)-(0[1-9]|[12][0-9]|3[01])T([0-1][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?(Z|(\+|-)[0-9]{2}:[0-9]{2})$`

func conformsText(text string, t reflect.Type, tag reflect.StructTag) error {
	least, _ := strconv.Atoi(tag.Get("minLength"))
	most, _ := strconv.Atoi(tag.Get("maxLength"))
	pattern := tag.Get("pattern")
	if name := tag.Get("schema"); name != "" {
		of := contract.Texts()[slices.IndexFunc(contract.Texts(), func(t route.Text) bool { return t.Name == name })]
		most, pattern = of.MaxLength, of.Pattern
	}
	switch length := utf8.RuneCountInString(text); {
	case length < least:
		return fmt.Errorf("minimum string length is %d", least)
	case most > 0 && length > most:
		return fmt.Errorf("maximum string length is %d", most)
	case pattern != "" && !matches(pattern, text):
		return fmt.Errorf(`string doesn't match the regular expression "%s"`, pattern)
	case t == reflect.TypeFor[time.Time]() && !matches(moments, text):
		return fmt.Errorf("string doesn't match the format \"date-time\" (string doesn't match pattern \"%s\")", moments)
	}
	return nil
}

func conformsList(list []any, t reflect.Type, tag reflect.StructTag) error {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	if most, err := strconv.Atoi(tag.Get("maxItems")); err == nil && len(list) > most {
		return fmt.Errorf("maximum number of items is %d", most)
	}
	for i, item := range list {
		if err := conforms(item, t.Elem(), tag); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

func conformsObject(object map[string]any, t reflect.Type) error {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	members := map[string]reflect.StructField{}
	var required []string
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		members[name] = field
		if !strings.HasPrefix(options, "omit") {
			required = append(required, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, ok := members[name]
		if !ok {
			return fmt.Errorf("property %q is unsupported%s", name, participant.DidYouMean(name, slices.Collect(maps.Keys(members))))
		}
		if err := conforms(object[name], field.Type, field.Tag); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s: property %q is missing", name, name)
		}
	}
	return nil
}

var patterns sync.Map //nolint:gochecknoglobals // a cache

func matches(pattern, text string) bool {
	compiled, ok := patterns.Load(pattern)
	if !ok {
		compiled, _ = patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	}
	return compiled.(*regexp.Regexp).MatchString(text) //nolint:forcetypeassert,errcheck // nothing else is stored
}

type methodError struct {
	method  string
	allowed []string
}

func (e *methodError) Error() string {
	return e.method + " is not for this path: " + strings.Join(e.allowed, ", ")
}

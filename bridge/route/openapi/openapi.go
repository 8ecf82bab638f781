// Package openapi generates the OpenAPI document of an API from its routes, for tests that compare
// it with a committed file. Its descriptions are the comments of the sources.
package openapi

import (
	"encoding"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/route"
)

// API is an API to describe: its header, errors and routes.
type API struct {
	Prefix  string
	Info    Object // first members of the document
	Bearer  string // description of a caller's token
	Error   reflect.Type
	Headers []route.Header
	Routes  []route.Description
	Pushes  map[string]route.Description // by the ID of the subscribing route; the path is the callback expression
	Asks    []reflect.Type               // documents sent by clients outside any route
	Tells   []reflect.Type               // documents sent by the server outside any route
	Texts   []route.Text
	Lenient bool   // an optional member of a request may be null, as if it were absent
	Source  string // folder of the module
}

type document struct {
	API

	comments   comments
	parameters map[string]Object
	schemas    map[string]Object
	requests   map[reflect.Type]bool // documents of requests, which must not have unknown members
}

// Describe returns the document of an API.
func Describe(api API) (Object, error) {
	d := document{
		API: api, comments: comments{root: api.Source, found: map[string]string{}},
		parameters: map[string]Object{}, schemas: map[string]Object{}, requests: map[reflect.Type]bool{},
	}
	for _, r := range api.Routes {
		for _, field := range route.Fields(r.In) {
			if field.Place == route.InBody {
				d.addRequest(field.Document())
			}
		}
	}
	for _, t := range api.Asks {
		d.addRequest(t)
	}
	for _, text := range api.Texts {
		d.schemas[text.Name] = schemaOf(text)
	}
	failure := Object{{"description", "Why not."}}
	failure = append(failure, headersOf(api.Headers, "integer")...)
	failure = append(failure, Member{"content", Object{{"application/problem+json", Object{{"schema", d.schema(api.Error)}}}}})
	paths := d.paths()
	for _, t := range slices.Concat(api.Asks, api.Tells) {
		d.schema(t)
	}
	all := slices.Concat(api.Info, Object{
		{"servers", []any{Object{{"url", "/"}}}},
		{"security", []any{Object{{"bearer", []any{}}}}},
		{"paths", paths},
		{"components", Object{
			{"securitySchemes", Object{{"bearer", Object{{"type", "http"}, {"scheme", "bearer"}, {"description", api.Bearer}}}}},
			{"parameters", sorted(d.parameters)},
			{"responses", Object{{"Failure", failure}}},
			{"schemas", sorted(d.schemas)},
		}},
	})
	return all, d.comments.err
}

func schemaOf(text route.Text) Object {
	schema := Object{{"type", "string"}}.described(text.Description)
	if text.MaxLength > 0 {
		schema = append(schema, Member{"maxLength", text.MaxLength})
	}
	return append(schema, Member{"pattern", text.Pattern})
}

func headersOf(headers []route.Header, kind string) Object {
	var all Object
	for _, each := range headers {
		header := Object{}.described(each.Meaning)
		all = append(all, Member{each.Name, append(header, Member{"schema", Object{{"type", kind}}})})
	}
	if all == nil {
		return nil
	}
	return Object{{"headers", all}}
}

func sorted(all map[string]Object) Object {
	var object Object
	for _, name := range slices.Sorted(maps.Keys(all)) {
		object = append(object, Member{name, all[name]})
	}
	return object
}

func (d *document) addRequest(t reflect.Type) {
	if t == nil || d.requests[t] {
		return
	}
	switch t.Kind() { //nolint:exhaustive // no other type has documents in it
	case reflect.Pointer, reflect.Slice:
		d.addRequest(t.Elem())
	case reflect.Struct:
		d.requests[t] = true
		for field := range t.Fields() {
			d.addRequest(field.Type)
		}
	}
}

// The paths have the order of the routes, each with all its methods.
func (d *document) paths() Object {
	var all Object
	for i, r := range d.Routes {
		if slices.ContainsFunc(d.Routes[:i], func(before route.Description) bool { return before.Path == r.Path }) {
			continue
		}
		var item Object
		if parameters := d.inPath(r); len(parameters) > 0 {
			item = append(item, Member{"parameters", parameters})
		}
		for _, each := range d.Routes[i:] {
			if each.Path == r.Path {
				item = append(item, Member{strings.ToLower(each.Method), d.operation(each)})
			}
		}
		all = append(all, Member{d.Prefix + strings.ReplaceAll(r.Path, "...}", "}"), item})
	}
	return all
}

func (d *document) inPath(r route.Description) []any {
	var all []any
	for _, field := range route.Fields(r.In) {
		if field.Place == route.InPath {
			parameter := Object{{"name", field.Name}, {"in", "path"}, {"required", true}}
			parameter = parameter.described(d.comments.of(field.Owner, field.Field))
			all = append(all, append(parameter, Member{"schema", d.valued(field.Type, field.Tag)}))
		}
	}
	return all
}

func (d *document) operation(r route.Description) Object {
	operation := Object{{"operationId", r.ID}}
	if r.Tag != "" {
		operation = append(operation, Member{"tags", []any{r.Tag}})
	}
	if r.Scope != "" {
		operation = append(operation, Member{"x-scope", string(r.Scope)})
	}
	operation = append(operation, Member{"summary", r.Summary}).described(r.Description)
	if r.Public {
		operation = append(operation, Member{"security", []any{}})
	}
	var parameters []any
	var body Object
	watched := false
	for _, field := range route.Fields(r.In) {
		switch field.Place {
		case route.InPath: // it belongs to the path
		case route.InQuery, route.InHeader:
			parameters = append(parameters, d.parameter(field))
			watched = watched || field.Name == "watch"
		case route.InBody:
			body = Object{{"required", !field.Optional()}}.described(d.comments.of(field.Owner, field.Field))
			schema := Object{{"type", "string"}, {"format", "binary"}}
			if t := field.Document(); t != nil {
				schema = d.schema(t)
			}
			body = append(body, Member{"content", Object{{field.Name, Object{{"schema", schema}}}}})
		}
	}
	if parameters != nil {
		operation = append(operation, Member{"parameters", parameters})
	}
	if body != nil {
		operation = append(operation, Member{"requestBody", body})
	}
	operation = append(operation, Member{"responses", d.responses(r, watched)})
	if push, ok := d.Pushes[r.ID]; ok {
		method := Object{{strings.ToLower(push.Method), d.operation(push)}}
		operation = append(operation, Member{"callbacks", Object{{push.ID, Object{{push.Path, method}}}}})
	}
	return operation
}

// The receiver of a push does not return our errors.
func (d *document) responses(r route.Description, watched bool) Object {
	var responses Object
	answers := r.Answers
	if answers == nil {
		answers = []route.Success{{Status: http.StatusOK, Meaning: "Done."}}
	}
	for _, answer := range answers {
		headers := answer.Headers
		if r.Cached {
			headers = append(slices.Clone(headers), route.Header{Name: "ETag"})
		}
		response := append(Object{{"description", answer.Meaning}}, headersOf(headers, "string")...)
		if r.Out != reflect.TypeFor[route.None]() {
			content := Object{{"application/json", Object{{"schema", d.answer(r)}}}}
			if r.Media != "" {
				content[0].Name = r.Media
			}
			if watched {
				line := Object{{"type", "string"}, {"description", "Each line is one item of a page."}}
				content = append(content, Member{"application/jsonl", Object{{"schema", line}}})
			}
			response = append(response, Member{"content", content})
		}
		responses = append(responses, Member{strconv.Itoa(answer.Status), response})
	}
	if r.Cached {
		responses = append(responses, Member{"304", Object{{"description", "Nothing has changed since the ETag."}}})
	}
	if !strings.HasPrefix(r.Path, "{$") {
		responses = append(responses, Member{"default", Object{{"$ref", "#/components/responses/Failure"}}})
	}
	return responses
}

func (d *document) answer(r route.Description) Object {
	switch r.Out {
	case reflect.TypeFor[route.File]():
		return Object{{"type", "string"}, {"format", "binary"}}
	case reflect.TypeFor[json.RawMessage]():
		return Object{{"type", "object"}}
	}
	return d.schema(r.Out)
}

func (d *document) shared(owner reflect.Type) bool {
	users := 0
	for _, r := range d.Routes {
		has := func(field route.Field) bool {
			return (field.Place == route.InQuery || field.Place == route.InHeader) && field.Owner == owner
		}
		if slices.ContainsFunc(route.Fields(r.In), has) {
			users++
		}
	}
	return users > 1
}

// A parameter that several routes have is a component.
func (d *document) parameter(field route.Field) Object {
	parameter := Object{{"name", field.Name}, {"in", string(field.Place)}}
	if field.Type.Kind() == reflect.Bool {
		parameter = append(parameter, Member{"allowEmptyValue", true})
	}
	parameter = parameter.described(d.comments.of(field.Owner, field.Field))
	schema := Object{{"type", "string"}}
	if field.Type.Kind() != reflect.Bool {
		schema = d.valued(field.Type, field.Tag)
	}
	parameter = append(parameter, Member{"schema", schema})
	if !d.shared(field.Owner) {
		return parameter
	}
	d.parameters[field.Field] = parameter
	return Object{{"$ref", "#/components/parameters/" + field.Field}}
}

func (d *document) valued(t reflect.Type, tag reflect.StructTag) Object {
	if name := tag.Get("schema"); name != "" && t.Kind() == reflect.String {
		return Object{{"$ref", "#/components/schemas/" + name}}
	}
	schema := d.schema(t)
	if name := tag.Get("schema"); name != "" {
		schema = Object{{"type", "array"}, {"items", Object{{"$ref", "#/components/schemas/" + name}}}}
	}
	if kinds := tag.Get("type"); kinds != "" {
		schema = Object{{"type", oneOrMore(kinds)}}
	}
	for _, name := range []string{"minimum", "maximum", "minLength", "maxLength", "maxItems"} {
		if text := tag.Get(name); text != "" {
			schema = append(schema, Member{name, json.Number(text)})
		}
	}
	if text := tag.Get("pattern"); text != "" {
		schema = append(schema, Member{"pattern", text})
	}
	if text := tag.Get("enum"); text != "" {
		schema = append(schema, Member{"enum", list(text)})
	}
	if text := tag.Get("default"); text != "" {
		var value any = text
		if t.Kind() == reflect.Int {
			value = json.Number(text)
		}
		schema = append(schema, Member{"default", value})
	}
	return schema
}

func list(text string) (values []any) {
	for value := range strings.SplitSeq(text, ",") {
		values = append(values, value)
	}
	return values
}

func oneOrMore(text string) any {
	if values := list(text); len(values) > 1 {
		return values
	}
	return text
}

// A struct becomes a component.
func (d *document) schema(t reflect.Type) Object {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return Object{}
	case t == reflect.TypeFor[time.Time]():
		return Object{{"type", "string"}, {"format", "date-time"}}
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return d.component(t, func() Object {
			return Object{{"type", "string"}, {"description", d.comments.of(t, "")}}
		})
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return Object{{"type", "string"}}
	}
	switch t.Kind() { //nolint:exhaustive // the panic names another one
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Struct:
		return d.component(t, func() Object { return d.object(t) })
	case reflect.Slice, reflect.Array:
		return Object{{"type", "array"}, {"items", d.schema(t.Elem())}}
	case reflect.Map:
		return Object{{"type", "object"}, {"additionalProperties", d.schema(t.Elem())}}
	case reflect.Bool:
		return Object{{"type", "boolean"}}
	case reflect.Int64, reflect.Uint64:
		return Object{{"type", "integer"}, {"format", "int64"}}
	case reflect.Int:
		return Object{{"type", "integer"}}
	case reflect.Float64:
		return Object{{"type", "number"}}
	case reflect.String:
		return Object{{"type", "string"}}
	}
	panic("openapi: no schema of " + t.String())
}

func (d *document) component(t reflect.Type, describe func() Object) Object {
	name := nameOf(t)
	if _, ok := d.schemas[name]; !ok {
		d.schemas[name] = nil // describe may return here
		d.schemas[name] = describe()
	}
	return Object{{"$ref", "#/components/schemas/" + name}}
}

var instance = regexp.MustCompile(`^(\w+)\[(.+)\]$`)

func nameOf(t reflect.Type) string {
	if parts := instance.FindStringSubmatch(t.Name()); parts != nil {
		_, of, _ := strings.Cut(path.Base(parts[2]), ".")
		return of + parts[1]
	}
	return strings.TrimSuffix(t.Name(), "Error")
}

func (d *document) object(t reflect.Type) Object {
	schema := Object{{"type", "object"}}
	if !instance.MatchString(t.Name()) {
		schema = schema.described(predicate(d.comments.of(t, "")))
	}
	var required []any
	var properties Object
	d.members(t, true, &required, &properties)
	if d.requests[t] || len(properties) == 0 {
		schema = append(schema, Member{"additionalProperties", false})
	}
	if required != nil {
		schema = append(schema, Member{"required", required})
	}
	if properties != nil {
		schema = append(schema, Member{"properties", properties})
	}
	return schema
}

func orNull(schema Object) Object {
	if len(schema) == 0 { // any value is allowed
		return schema
	}
	if schema[0].Name == "$ref" {
		return Object{{"oneOf", []any{schema, Object{{"type", "null"}}}}}
	}
	for i, m := range schema {
		switch m.Name {
		case "type":
			types, several := m.Value.([]any)
			if !several {
				types = []any{m.Value}
			}
			schema[i].Value = append(slices.Clone(types), "null")
		case "enum":
			values, _ := m.Value.([]any)
			schema[i].Value = append(slices.Clone(values), nil)
		}
	}
	return schema
}

var subject = regexp.MustCompile(`^[A-Z]\w* is `)

// predicate returns the comment of a type without its subject, if it describes the type.
func predicate(comment string) string {
	text := subject.ReplaceAllString(comment, "")
	if text == comment {
		return comment
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// The members of an embedded pointer are not required.
func (d *document) members(t reflect.Type, needed bool, required *[]any, properties *Object) {
	for field := range t.Fields() {
		if field.Anonymous && field.Tag.Get("json") == "" {
			embedded, always := field.Type, needed
			if embedded.Kind() == reflect.Pointer {
				embedded, always = embedded.Elem(), false
			}
			d.members(embedded, always, required, properties)
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		always := needed && !strings.HasPrefix(options, "omit")
		schema := d.valued(field.Type, field.Tag)
		if field.Type.Kind() == reflect.Pointer && always || d.Lenient && d.requests[t] && !always {
			schema = orNull(schema)
		}
		if len(schema) == 0 || schema[0].Name != "$ref" {
			schema = schema.described(d.comments.of(t, field.Name))
		}
		*properties = append(*properties, Member{name, schema})
		if always {
			*required = append(*required, name)
		}
	}
}

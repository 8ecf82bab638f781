// Package openapi writes the OpenAPI document of an API from its routes, for tests that compare it
// with a committed file. Its descriptions are the comments of the sources.
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

	"baton/bridge/route"
)

// API is an API to describe: its header, errors and routes.
type API struct {
	Prefix string // of all paths
	Info   Object // the first members of the document
	Error  reflect.Type
	Routes []route.Description
	Source string // the folder of the module, with the sources of its types
}

// document collects the components of a document.
type document struct {
	API

	comments   comments
	parameters map[string]Object
	schemas    map[string]Object
	requests   map[reflect.Type]bool // documents of requests, which have no further members
}

// Write returns the document of an API as YAML.
func Write(api API) (string, error) {
	d := document{
		API: api, comments: comments{root: api.Source, found: map[string]string{}},
		parameters: map[string]Object{}, schemas: map[string]Object{}, requests: map[reflect.Type]bool{},
	}
	for _, r := range api.Routes {
		for _, field := range route.Fields(r.In) {
			if field.Place == route.InBody {
				d.addRequest(Document(field))
			}
		}
	}
	failure := Object{{"description", "Why not."}, {"content", Object{{"application/problem+json", Object{{"schema", d.schema(api.Error)}}}}}}
	paths := d.paths()
	all := slices.Concat(api.Info, Object{
		{"servers", []any{Object{{"url", "/"}}}},
		{"security", []any{Object{{"bearer", []any{}}}}},
		{"paths", paths},
		{"components", Object{
			{"securitySchemes", Object{{"bearer", Object{{"type", "http"}, {"scheme", "bearer"}, {"description", "An operator token."}}}}},
			{"parameters", sorted(d.parameters)},
			{"responses", Object{{"Failure", failure}}},
			{"schemas", sorted(d.schemas)},
		}},
	})
	return all.yaml(), d.comments.err
}

func sorted(all map[string]Object) Object {
	var object Object
	for _, name := range slices.Sorted(maps.Keys(all)) {
		object = append(object, Member{name, all[name]})
	}
	return object
}

// Document returns the type of a JSON body, and nil for any other field.
func Document(field route.Field) reflect.Type {
	if field.Place != route.InBody || field.Name != "application/json" {
		return nil
	}
	content, _ := field.Type.FieldByName("content") // of a [route.Body]
	return content.Type
}

// addRequest notes the documents that a request may have.
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

// paths returns the paths in the order of the routes, each with all its methods.
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
	operation := Object{{"operationId", r.ID}, {"tags", []any{r.Tag}}, {"x-scope", string(r.Scope)}, {"summary", r.Summary}}
	var parameters []any
	var body Object
	watched := false
	for _, field := range route.Fields(r.In) {
		switch field.Place {
		case route.InPath: // it belongs to the path
		case route.InQuery:
			parameters = append(parameters, d.inQuery(field))
			watched = watched || field.Name == "watch"
		case route.InBody:
			body = Object{{"required", true}}.described(d.comments.of(field.Owner, field.Field))
			schema := Object{{"type", "string"}, {"format", "binary"}}
			if t := Document(field); t != nil {
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
	var responses Object
	answers := r.Answers
	if answers == nil {
		answers = []route.Success{{Status: http.StatusOK, Meaning: "Done."}}
	}
	for _, answer := range answers {
		content := Object{{"application/json", Object{{"schema", d.answer(r)}}}}
		if r.Media != "" {
			content[0].Name = r.Media
		}
		if watched {
			line := Object{{"type", "string"}, {"description", "Each line is one item of a page."}}
			content = append(content, Member{"application/jsonl", Object{{"schema", line}}})
		}
		responses = append(responses, Member{strconv.Itoa(answer.Status), Object{{"description", answer.Meaning}, {"content", content}}})
	}
	responses = append(responses, Member{"default", Object{{"$ref", "#/components/responses/Failure"}}})
	return append(operation, Member{"responses", responses})
}

func (d *document) answer(r route.Description) Object {
	if r.Out == reflect.TypeFor[route.File]() {
		return Object{{"type", "string"}, {"format", "binary"}}
	}
	return d.schema(r.Out)
}

// shared reports whether several routes have the parameters of a struct.
func (d *document) shared(owner reflect.Type) bool {
	users := 0
	for _, r := range d.Routes {
		has := func(field route.Field) bool { return field.Place == route.InQuery && field.Owner == owner }
		if slices.ContainsFunc(route.Fields(r.In), has) {
			users++
		}
	}
	return users > 1
}

// inQuery returns a query parameter. One that several routes have is a component.
func (d *document) inQuery(field route.Field) Object {
	parameter := Object{{"name", field.Name}, {"in", "query"}}
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

// valued returns the schema of a field with the limits of its tag.
func (d *document) valued(t reflect.Type, tag reflect.StructTag) Object {
	schema := d.schema(t)
	for _, name := range []string{"minimum", "maximum"} {
		if text := tag.Get(name); text != "" {
			schema = append(schema, Member{name, json.Number(text)})
		}
	}
	if text := tag.Get("enum"); text != "" {
		var values []any
		for value := range strings.SplitSeq(text, ",") {
			values = append(values, value)
		}
		schema = append(schema, Member{"enum", values})
	}
	return schema
}

// schema returns the schema of a type: that of a struct is a component.
func (d *document) schema(t reflect.Type) Object {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return Object{}
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

// component returns a reference to the schema of a type.
func (d *document) component(t reflect.Type, describe func() Object) Object {
	name := nameOf(t)
	if _, ok := d.schemas[name]; !ok {
		d.schemas[name] = nil // describe may return here
		d.schemas[name] = describe()
	}
	return Object{{"$ref", "#/components/schemas/" + name}}
}

// instance matches the name of an instance of a generic type.
var instance = regexp.MustCompile(`^(\w+)\[(.+)\]$`)

// nameOf returns the name of a type in the document.
func nameOf(t reflect.Type) string {
	if parts := instance.FindStringSubmatch(t.Name()); parts != nil {
		_, of, _ := strings.Cut(path.Base(parts[2]), ".")
		return of + parts[1]
	}
	return strings.TrimSuffix(t.Name(), "Error")
}

// object returns the schema of a struct.
func (d *document) object(t reflect.Type) Object {
	schema := Object{{"type", "object"}}
	if !instance.MatchString(t.Name()) {
		schema = schema.described(d.comments.of(t, ""))
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

// members adds the members of a struct, and of the structs in it. The members of an embedded pointer
// are not required.
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
		schema := d.valued(field.Type, field.Tag)
		if len(schema) == 0 || schema[0].Name != "$ref" {
			schema = schema.described(d.comments.of(t, field.Name))
		}
		*properties = append(*properties, Member{name, schema})
		if needed && !strings.HasPrefix(options, "omit") {
			*required = append(*required, name)
		}
	}
}

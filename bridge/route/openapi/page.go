package openapi

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"strings"
)

//go:embed page.html
var page string

// The parts of a document that a page shows.
type (
	schema struct {
		Ref                  string `json:"$ref"`
		Type                 any
		Description, Pattern string
		Items                *schema
		Properties           map[string]*schema
		OneOf                []*schema
	}
	media     map[string]struct{ Schema *schema }
	parameter struct {
		Ref                   string `json:"$ref"`
		Name, In, Description string
		Required              bool
		Schema                *schema
	}
	operation struct {
		OperationID, Summary, Description string
		Parameters                        []parameter
		RequestBody                       struct{ Content media }
		Responses                         map[string]struct {
			Ref         string `json:"$ref"`
			Description string
			Content     media
		}
		Method, Path, Anchor string `json:"-"`
	}
)

// Page returns a document as a page for people.
func Page(document Object) (string, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	var spec struct {
		Info       struct{ Title, Description string }
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Parameters map[string]parameter
			Responses  map[string]struct {
				Description string
				Content     media
			}
			Schemas map[string]*schema
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return "", err
	}
	var operations []operation
	for _, path := range slices.Sorted(maps.Keys(spec.Paths)) {
		item := spec.Paths[path]
		var shared []parameter
		if raw, ok := item["parameters"]; ok {
			if err := json.Unmarshal(raw, &shared); err != nil {
				return "", err
			}
		}
		delete(item, "parameters")
		for _, method := range slices.Sorted(maps.Keys(item)) {
			o := operation{Method: strings.ToUpper(method), Path: path}
			if err := json.Unmarshal(item[method], &o); err != nil {
				return "", err
			}
			o.Anchor, o.Parameters = strings.ToLower(o.OperationID), append(slices.Clone(shared), o.Parameters...)
			for i, p := range o.Parameters {
				if p.Ref != "" {
					o.Parameters[i] = spec.Components.Parameters[last(p.Ref)]
				}
			}
			for status, response := range o.Responses {
				if response.Ref != "" {
					of := spec.Components.Responses[last(response.Ref)]
					response.Description, response.Content = of.Description, of.Content
					o.Responses[status] = response
				}
			}
			operations = append(operations, o)
		}
	}
	shown, err := template.New("page").Funcs(template.FuncMap{"kind": kind}).Parse(page)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = shown.Execute(&out, map[string]any{"Info": spec.Info, "Operations": operations, "Schemas": spec.Components.Schemas})
	return out.String(), err
}

func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func kind(s *schema) string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return last(s.Ref)
	case s.Type == "array":
		return "list of " + kind(s.Items)
	}
	switch of := s.Type.(type) {
	case string:
		return of
	case []any:
		var names []string
		for _, each := range of {
			name, _ := each.(string) // the document has no other
			names = append(names, name)
		}
		return strings.Join(names, " or ")
	}
	return "any JSON"
}

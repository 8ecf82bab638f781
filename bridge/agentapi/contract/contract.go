// Package contract is the contract of the REST API for agents: openapi.yaml, and the code
// that is generated from it. Package agentapi serves the contract, and no other route.
package contract

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:generate go tool -modfile=../../../.tools/go.mod oapi-codegen --config generate.yaml openapi.yaml

//go:embed page.html
var page string

// operation is one operation as the page shows it.
type operation struct {
	Method, Path, Anchor string
	*openapi3.Operation
}

// WritePage writes the contract for people to read.
func WritePage(w io.Writer) error {
	spec, err := GetSpec()
	if err != nil {
		return fmt.Errorf("read contract: %w", err)
	}
	shown, err := template.New("page").Funcs(template.FuncMap{"kind": kind}).Parse(page)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	var operations []operation
	for _, path := range slices.Sorted(maps.Keys(spec.Paths.Map())) {
		item := spec.Paths.Value(path)
		byMethod := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(byMethod)) {
			o := *byMethod[method]
			o.Parameters = append(slices.Clone(item.Parameters), o.Parameters...)
			operations = append(operations, operation{method, path, strings.ToLower(o.OperationID), &o})
		}
	}
	err = shown.Execute(w, struct {
		Spec       *openapi3.T
		Operations []operation
	}{spec, operations})
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// kind says in a word or two what a schema wants.
func kind(ref *openapi3.SchemaRef) string {
	switch {
	case ref == nil:
		return ""
	case ref.Ref != "":
		return ref.Ref[strings.LastIndexByte(ref.Ref, '/')+1:]
	case ref.Value.Type.Is("array"):
		return "list of " + kind(ref.Value.Items)
	case ref.Value.Type == nil:
		return "any JSON"
	}
	return strings.Join(ref.Value.Type.Slice(), " or ")
}

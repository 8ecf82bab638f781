package openapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

type comments struct {
	root  string            // folder of the module
	found map[string]string // by package, type and field; each package that was read has an entry
	err   error
}

var link = regexp.MustCompile(`\[(?:[a-z]\w*\.)?([A-Z]\w*)\]`)

func (c *comments) of(t reflect.Type, field string) string {
	if t == nil || t.PkgPath() == "" {
		return ""
	}
	if _, ok := c.found[t.PkgPath()]; !ok {
		c.found[t.PkgPath()] = ""
		if err := c.read(t.PkgPath()); err != nil && c.err == nil {
			c.err = err
		}
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	return link.ReplaceAllString(c.found[t.PkgPath()+"."+name+"."+field], "$1")
}

func (c *comments) read(pkg string) error {
	module := strings.TrimSuffix(reflect.TypeFor[comments]().PkgPath(), "bridge/route/openapi")
	folder := strings.TrimPrefix(pkg, module)
	files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name) //nolint:gosec // a source of this module
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("read comments: %w", err)
		}
		for _, each := range file.Decls {
			if types, ok := each.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				c.add(pkg, types)
			}
		}
	}
	return nil
}

func (c *comments) add(pkg string, types *ast.GenDecl) {
	for _, each := range types.Specs {
		spec, ok := each.(*ast.TypeSpec)
		if !ok {
			continue
		}
		key := pkg + "." + spec.Name.Name + "."
		if c.found[key] = line(spec.Doc); spec.Doc == nil {
			c.found[key] = line(types.Doc)
		}
		of, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range of.Fields.List {
			text := line(field.Doc)
			if text == "" {
				text = line(field.Comment)
			}
			for _, name := range field.Names {
				c.found[key+name.Name] = text
			}
		}
	}
}

func line(group *ast.CommentGroup) string {
	text, _, _ := strings.Cut(group.Text(), "spec: ")
	return strings.Join(strings.Fields(text), " ")
}

package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A row of the table names a folder and functions in it.
var (
	wayRow  = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| (.*) \\|$")
	wayName = regexp.MustCompile("`([A-Za-z]+)`")
	waySize = regexp.MustCompile(`([0-9]+) functions and`)
)

// CONTRIBUTING.md names the functions on three ways of an offer. A renamed or removed function is
// changed there too.
func TestContributingNamesExistingFunctions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The way of one offer\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tables := strings.Split(section, "\n### ")
	if len(tables) != 3 {
		t.Fatalf("the section has %d tables, want three: from IRC, over REST, and from another home", len(tables))
	}
	counted := 0
	for i, table := range tables {
		n := checkWay(t, table)
		if i == 0 {
			counted = n
		}
	}
	if told := waySize.FindStringSubmatch(section); told == nil || told[1] != strconv.Itoa(counted) {
		t.Errorf("the section counts %q, and its first table has %d functions", told, counted)
	}
}

// checkWay checks that the functions of a table exist, and returns how many there are.
func checkWay(t *testing.T, table string) (count int) {
	t.Helper()
	rows := wayRow.FindAllStringSubmatch(table, -1)
	if len(rows) == 0 {
		t.Fatal("a section has no table")
	}
	for _, row := range rows {
		declared := functionsIn(t, row[1])
		names := wayName.FindAllStringSubmatch(row[2], -1)
		if len(names) == 0 {
			t.Errorf("%s: no function is named", row[1])
		}
		count += len(names)
		for _, name := range names {
			if !declared[name[1]] {
				t.Errorf("%s declares no function %s", row[1], name[1])
			}
		}
	}
	return count
}

// functionsIn returns the names of the functions and methods that a folder declares.
func functionsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[f.Name.Name] = true
			}
		}
	}
	return declared
}

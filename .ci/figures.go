// Command figures prints the size of the code and statistics of its comments.
//
//	go run .ci/figures.go [-check]
//
// It counts Go files of the repository: production files without tests, test kits and generated
// code. With -check it exits with 1 if comments exceed the frequencies of [limits].
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// kits are folders with code only for tests, measurements and the demo.
var kits = regexp.MustCompile(`test(/|$)|^bridge/conform/|^cmd/baton/(bench|demo|aircagent)|^deploy/|^federation/store/bare`)

// limits bounds patterns in comments, each per 10,000 words.
var limits = []struct {
	name    string
	pattern *regexp.Regexp
	most    float64
}{
	{"where", regexp.MustCompile(`(?i)\bwhere\b`), 12},
	{"what", regexp.MustCompile(`(?i)\bwhat\b`), 15},
	{"that is, was, has, …", regexp.MustCompile(`(?i)\bthat (is|was|has|have|waits|comes|goes)\b`), 20},
	{"alone", regexp.MustCompile(`(?i)\balone\b`), 1},
}

// A sentence with more than longWords words is long. At most longMost of all sentences may be long.
const (
	longWords = 30
	longMost  = 0.03
)

type count struct {
	files, lines, interfaces, unexported int
	packages                             map[string]bool
	comments                             []string
}

func newCount() *count { return &count{packages: map[string]bool{}} }

func main() {
	check := flag.Bool("check", false, "exit with 1 if comments exceed the limits of language")
	flag.Parse()
	production, kit, generated := newCount(), newCount(), newCount()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		to := production
		switch {
		case ast.IsGenerated(file):
			to = generated
		case kits.MatchString(filepath.ToSlash(filepath.Dir(path))):
			to = kit
		}
		to.add(filepath.Dir(path), file, set.File(file.Pos()).LineCount())
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(2)
	}
	words := len(strings.Fields(strings.Join(production.comments, " ")))
	for _, row := range []struct {
		name  string
		value any
	}{
		{"production lines", production.lines},
		{"lines of kits, demo, measurements", kit.lines},
		{"generated lines", generated.lines},
		{"production files", production.files},
		{"production packages", len(production.packages)},
		{"interfaces", production.interfaces},
		{"unexported functions", production.unexported},
		{"comment words", words},
	} {
		fmt.Printf("%-34s %8v\n", row.name, row.value)
	}
	if !language(production.comments, words) && *check {
		os.Exit(1)
	}
}

func (c *count) add(folder string, file *ast.File, lines int) {
	c.files++
	c.lines += lines
	c.packages[folder] = true
	for _, group := range file.Comments {
		if text := strings.TrimSpace(group.Text()); text != "" { // without directives
			c.comments = append(c.comments, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if !n.Name.IsExported() {
				c.unexported++
			}
		case *ast.TypeSpec:
			if kind, ok := n.Type.(*ast.InterfaceType); ok && kind.Methods.NumFields() > 0 {
				c.interfaces++
			}
		}
		return true
	})
}

// language prints the frequency of each pattern, and reports whether all are within their limits.
func language(comments []string, words int) bool {
	within := true
	for _, limit := range limits {
		found := 0
		for _, text := range comments {
			found += len(limit.pattern.FindAllString(text, -1))
		}
		frequency := float64(found) * 1e4 / float64(words)
		fmt.Printf("%-34s %8.1f  at most %.1f\n", fmt.Sprintf("%q per 10,000 words", limit.name), frequency, limit.most)
		within = within && frequency <= limit.most
	}
	sentences, long := 0, 0
	for _, text := range comments {
		for sentence := range strings.SplitSeq(strings.ReplaceAll(text, "\n", " "), ". ") {
			if sentences++; len(strings.Fields(sentence)) > longWords {
				long++
			}
		}
	}
	part := float64(long) / float64(sentences)
	fmt.Printf("%-34s %8.3f  at most %.3f\n", fmt.Sprintf("sentences of more than %d words", longWords), part, longMost)
	return within && part <= longMost
}

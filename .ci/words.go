// Words finds the words that leave a sentence without a subject in the comments of Go
// files, prints each as FILE:LINE, and exits with 1 when it found one.
//
//	go run .ci/words.go [-count] [FILE or FOLDER ...]
//
// The contract is rule 1 of the language of the project: the subject of a sentence is a
// named thing. Without an argument it reads the whole repository. Generated files and
// folders that begin with a dot are left out. With -count it prints one number a file.
package main

import (
	"bufio"
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

// unnamed matches a forbidden word. Words of capitals, such as WHO, are commands of IRC.
// A phrase may continue on the next line of its comment.
var unnamed = regexp.MustCompile(`\b(?:[Ww]ho(?:m|ever|mever)?|(?:[Ss]ome|[Aa]ny|[Nn]o)body|[Oo]f\s+theirs|[Tt]hose\s+(?:of|that))\b`)

// finding is one forbidden word.
type finding struct {
	at   token.Position
	word string
	line string
}

func main() {
	count := flag.Bool("count", false, "print the number of findings of each file")
	flag.Parse()
	roots := flag.Args()
	if len(roots) == 0 {
		roots = []string{"."}
	}
	lines, findings, err := readAll(roots)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	report(findings, *count)
	fmt.Printf("%d findings in %d lines of comments\n", len(findings), lines)
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// report prints the findings, or their number per file.
func report(findings []finding, count bool) {
	out := bufio.NewWriter(os.Stdout)
	defer func() { _ = out.Flush() }()
	for len(findings) > 0 {
		file, n := findings[0].at.Filename, 0
		for ; n < len(findings) && findings[n].at.Filename == file; n++ {
			if f := findings[n]; !count {
				fmt.Fprintf(out, "%s:%d: %q: %s\n", file, f.at.Line, f.word, f.line)
			}
		}
		if count {
			fmt.Fprintf(out, "%5d %s\n", n, file)
		}
		findings = findings[n:]
	}
}

// readAll reads the Go files below roots.
func readAll(roots []string) (lines int, findings []finding, err error) {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
				return fs.SkipDir
			case entry.IsDir() || filepath.Ext(path) != ".go":
				return nil
			}
			n, found, err := read(path)
			lines, findings = lines+n, append(findings, found...)
			return err
		})
		if err != nil {
			return 0, nil, err
		}
	}
	return lines, findings, nil
}

// read reads the comments of one file.
func read(path string) (lines int, findings []finding, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return 0, nil, err
	}
	if ast.IsGenerated(file) {
		return 0, nil, nil
	}
	for _, group := range file.Comments {
		var texts []string
		for _, comment := range group.List {
			texts = append(texts, strings.Split(comment.Text, "\n")...)
		}
		lines += len(texts)
		findings = append(findings, search(set.Position(group.Pos()), texts)...)
	}
	return lines, findings, nil
}

// search finds the words in the lines of one comment that begins at a position.
func search(at token.Position, lines []string) (findings []finding) {
	// A word that ends a line may form a phrase with the first word of the next line.
	plain := make([]string, len(lines))
	for i, line := range lines {
		plain[i] = strings.TrimPrefix(strings.TrimSpace(line), "//")
	}
	text := strings.Join(plain, "\n")
	for _, span := range unnamed.FindAllStringIndex(text, -1) {
		n := strings.Count(text[:span[0]], "\n")
		position := at
		position.Line += n
		word := strings.Join(strings.Fields(text[span[0]:span[1]]), " ")
		findings = append(findings, finding{at: position, word: word, line: strings.TrimSpace(plain[n])})
	}
	return findings
}

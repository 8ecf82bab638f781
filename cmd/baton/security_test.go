package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test that a document names exists. CHANGELOG.md has the names of past releases.
func TestDocumentsNameExistingTests(t *testing.T) {
	t.Parallel()
	there := testsOf(t, "../..")
	name, named := regexp.MustCompile(`\bTest[A-Z]\w+`), map[string]int{}
	walk(t, "../..", ".md", func(path, line string) {
		document := filepath.Base(path)
		if document == "CHANGELOG.md" {
			return
		}
		for _, test := range name.FindAllString(line, -1) {
			named[document]++
			if !there[test] {
				t.Errorf("%s names %s, which does not exist", path, test)
			}
		}
	})
	if n := named["SECURITY.md"]; n < 40 {
		t.Errorf("SECURITY.md names %d tests, want a test for each attack", n)
	}
}

// testsOf returns the names of all tests below a folder.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	declared, names := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

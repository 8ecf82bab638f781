package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each row of SECURITY.md is worth as much as its test.
func TestDocumentsNameExistingTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := testsOf(t, filepath.Join("..", ".."))
	var named []string
	for _, match := range regexp.MustCompile("`(Test[A-Za-z0-9]+)").FindAllStringSubmatch(string(text), -1) {
		named = append(named, match[1])
	}
	slices.Sort(named)
	for _, name := range slices.Compact(named) {
		if !there[name] {
			t.Errorf("SECURITY.md names %s, which no file has", name)
		}
	}
	if len(named) < 40 {
		t.Errorf("SECURITY.md names %d tests, want a test for each attack", len(named))
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

package main_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each reference of a comment to a source of a format has its line in a STATUS file, which has the coverage of that section.
func TestSpecificationReferencesAreInSTATUS(t *testing.T) {
	t.Parallel()
	status := statusLines(t, "../..")
	sources := map[string]bool{}
	for line := range status {
		sources[strings.Fields(line)[0]] = true
	}
	references := 0
	walk(t, "../..", ".go", func(path, line string) {
		_, text, found := strings.Cut(line, "// spec: ")
		if !found {
			return
		}
		for reference := range strings.SplitSeq(text, ";") {
			source, sections, _ := strings.Cut(strings.TrimSpace(reference), " ")
			if !sources[source] {
				continue // an RFC, or another text that no format is made of
			}
			for _, section := range regexp.MustCompile(`§[0-9.]*[0-9]|"[^"]*"`).FindAllString(sections, -1) {
				references++
				if _, found := status[source+" "+section]; !found {
					t.Errorf("%s: %s %s stands in no STATUS", path, source, section)
				}
			}
		}
	})
	if references == 0 {
		t.Error("no reference was found")
	}
}

// Each line of a STATUS file names the tests that show it, unless the section is not implemented.
func TestStatusLinesNameExistingTests(t *testing.T) {
	t.Parallel()
	there := testsOf(t, "../..")
	for section, tests := range statusLines(t, "../..") {
		for _, name := range tests {
			if !there[name] {
				t.Errorf("%s names %s, which does not exist", section, name)
			}
		}
	}
}

// statusLines returns the tests of each line of each STATUS file by "source section".
func statusLines(t *testing.T, root string) map[string][]string {
	t.Helper()
	lines := map[string][]string{}
	entry := regexp.MustCompile(`^(\S+)\s+(§[0-9.]*[0-9]|"[^"]*")\s+(?:(?:Yes|Partial)\s+(Test\w+(?:,Test\w+)*)|No\s+-)\s+\S`)
	walk(t, root, "STATUS", func(path, line string) {
		if line == "" || strings.HasPrefix(line, "#") {
			return
		}
		m := entry.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s: cannot read %q", path, line)
			return
		}
		lines[m[1]+" "+m[2]] = strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' })
	})
	return lines
}

// walk reads each line of the files below a folder whose names end so.
func walk(t *testing.T, root, suffix string, line func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line(path, lines.Text())
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

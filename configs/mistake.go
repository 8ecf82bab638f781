package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong with a file.
type Mistake struct {
	File string // as it was named to [Load]
	Line int    // from 1; where the key stands, else its table's header
	Key  string // with its table, as in "home.name"; empty for the file as a whole
	Why  string
}

// String returns the line that the operator is shown.
func (m Mistake) String() string {
	if m.Key == "" {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Why)
	}
	return fmt.Sprintf("%s:%d: %s: %s", m.File, m.Line, m.Key, m.Why)
}

// InvalidError is every mistake of one file, in the order of its lines.
type InvalidError struct{ Mistakes []Mistake }

// Error implements error, with one line a mistake.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// inOrder sorts mistakes by line and keeps the first about each key: what is found
// later about a value that could not be read is no news.
func inOrder(mistakes []Mistake) []Mistake {
	slices.SortStableFunc(mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Key, b.Key))
	})
	return slices.CompactFunc(mistakes, func(a, b Mistake) bool {
		return a.Line == b.Line && a.Key == b.Key
	})
}

// unknown says why a name is a mistake and which one was perhaps meant.
func unknown(what, name string, known []string) string {
	const typos = 2 // more letters apart, and two names merely look alike
	best, distance := "", typos+1
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(name, candidate); d < distance && d < len(candidate) {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return "unknown " + what
	}
	return fmt.Sprintf("unknown %s, did you mean %s?", what, best)
}

// editDistance counts the bytes to insert, delete or replace between two names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

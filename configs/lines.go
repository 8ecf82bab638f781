package configs

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// lineIndex maps each key of a file to its line, because the TOML library does not expose
// positions. Keys are paths made by [keyPath] and [itemPath], such as
// "irc.spanningtree[1].address". A table has the line of its header or, without one, of the first
// key that implies it.
type lineIndex map[string]int

func keyPath(table, key string) string {
	key = toml.Key{key}.String() // quoted unless it is a bare key
	if table == "" {
		return key
	}
	return table + "." + key
}

func itemPath(array string, i int) string { return array + "[" + strconv.Itoa(i) + "]" }

// If the text is not valid TOML, the index is meaningless.
func indexLines(text string) lineIndex {
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} { // byte order marks, which the library skips
		text = strings.TrimPrefix(text, mark)
	}
	s := scanner{text: text, line: 1, index: lineIndex{}, items: map[string]int{}}
	table := ""
	for s.skipBlank(); s.more(); s.skipBlank() {
		if s.peek() == '[' {
			table = s.header()
		} else {
			s.keyValue(table)
		}
	}
	return s.index
}

// scanner parses just enough of TOML to distinguish a key from similar text in a string, an array
// or a comment.
type scanner struct {
	text  string
	pos   int
	line  int
	index lineIndex
	items map[string]int // number of [[headers]] of an array so far
}

func (s *scanner) more() bool { return s.pos < len(s.text) }

func (s *scanner) peek() byte {
	if !s.more() {
		return 0
	}
	return s.text[s.pos]
}

func (s *scanner) skip(n int) {
	n = min(n, len(s.text)-s.pos)
	s.line += strings.Count(s.text[s.pos:s.pos+n], "\n")
	s.pos += n
}

func (s *scanner) skipUntil(stop string) {
	n := strings.IndexAny(s.text[s.pos:], stop)
	if n < 0 {
		n = len(s.text) - s.pos
	}
	s.skip(n)
}

func (s *scanner) skipBlank() {
	for s.more() {
		switch s.peek() {
		case ' ', '\t', '\r', '\n':
			s.skip(1)
		case '#':
			s.skipUntil("\n")
		default:
			return
		}
	}
}

func (s *scanner) record(path string, line int) {
	if _, seen := s.index[path]; !seen {
		s.index[path] = line
	}
}

// header reads "[a.b]" or "[[a.b]]" and returns the path of that table. A header below an array of
// tables refers to the array's last item.
func (s *scanner) header() string {
	line := s.line
	array := strings.HasPrefix(s.text[s.pos:], "[[")
	s.skipUntil("[")
	for s.peek() == '[' {
		s.skip(1)
	}
	names := s.key()
	s.skipUntil("]\n")
	for s.peek() == ']' {
		s.skip(1)
	}
	path := ""
	for i, name := range names {
		path = keyPath(path, name)
		s.record(path, line)
		n, last := s.items[path], i == len(names)-1
		switch {
		case last && array:
			s.items[path]++
			path = itemPath(path, n)
			s.record(path, line)
		case n > 0:
			path = itemPath(path, n-1)
		}
	}
	return path
}

func (s *scanner) keyValue(table string) {
	line, start, path := s.line, s.pos, table
	for _, name := range s.key() {
		path = keyPath(path, name)
		s.record(path, line)
	}
	if s.peek() == '=' {
		s.skip(1)
		s.skipSpace()
		s.value(path)
	}
	if s.pos == start {
		s.skip(1)
	}
}

func (s *scanner) skipSpace() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.skip(1)
	}
}

func (s *scanner) key() []string {
	var names []string
	for {
		s.skipSpace()
		start := s.pos
		if c := s.peek(); c == '"' || c == '\'' {
			s.quoted(c)
			names = append(names, unquote(s.text[start:s.pos]))
		} else {
			s.skipUntil(" \t.=]\r\n")
			names = append(names, s.text[start:s.pos])
		}
		s.skipSpace()
		if s.peek() != '.' {
			return names
		}
		s.skip(1)
	}
}

func unquote(quoted string) string {
	var v struct{ K string }
	if _, err := toml.Decode("K="+quoted, &v); err != nil {
		return quoted
	}
	return v.K
}

func (s *scanner) value(path string) {
	switch c := s.peek(); c {
	case '"', '\'':
		s.quoted(c)
	case '[':
		s.list(']', func(i int) {
			s.record(itemPath(path, i), s.line)
			s.value(itemPath(path, i))
		})
	case '{':
		s.list('}', func(int) { s.keyValue(path) })
	default:
		s.skipUntil(",]}#\r\n")
	}
}

func (s *scanner) list(end byte, item func(i int)) {
	s.skip(1)
	for i := 0; ; i++ {
		s.skipBlank()
		if !s.more() || s.peek() == end {
			s.skip(1)
			return
		}
		start := s.pos
		item(i)
		s.skipBlank()
		if s.peek() == ',' || s.pos == start {
			s.skip(1)
		}
	}
}

// quoted moves over a string that starts with quote. Three quotes start a multi-line string. Its
// text may end in quotes: up to two by the grammar, or three if the library misreads the quote
// after an escaped backslash as escaped.
func (s *scanner) quoted(quote byte) {
	one := string(quote)
	many := strings.Repeat(one, 3)
	end := one
	if strings.HasPrefix(s.text[s.pos:], many) {
		end = many
	}
	s.skip(len(end))
	for s.more() && !strings.HasPrefix(s.text[s.pos:], end) {
		if quote == '"' && s.peek() == '\\' {
			s.skip(1)
		}
		s.skip(1)
	}
	s.skip(len(end))
	for end == many && s.peek() == quote {
		s.skip(1)
	}
}

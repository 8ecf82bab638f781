// Package reference writes the command reference, as one Markdown document and as man
// pages, from the command tree itself.
//
// [Markdown] writes the document. [Man] writes one page for the program and one for each
// command at the top of the tree. Both leave out hidden commands and flags, and write the
// same bytes for the same tree.
package reference

import (
	"strings"

	"github.com/alecthomas/kong"
)

// command is one command without commands below it.
type command struct {
	name     string // such as "baton handoff show"
	synopsis string // such as "baton handoff show ID [flags]"
	help     string
	detail   string // detail of its help, in paragraphs; "" for none
	example  string // its lines, without indentation
	terms    []term // arguments, then flags
}

// term is one argument or flag.
type term struct{ name, help string }

// commandsOf returns the commands below a node, in the order of the tree.
func commandsOf(node *kong.Node) (all []command) {
	if node.Hidden {
		return nil
	}
	for _, child := range node.Children {
		all = append(all, commandsOf(child)...)
	}
	if len(node.Children) > 0 {
		return all
	}
	c := command{name: node.FullPath(), help: node.Help}
	c.detail, c.example = splitDetail(node.Detail)
	c.synopsis = c.name
	for _, argument := range node.Positional {
		c.synopsis += " " + argument.Summary()
		c.terms = append(c.terms, term{argument.Summary(), argument.Help})
	}
	c.terms = append(c.terms, flagsOf(node)...)
	return []command{c}
}

// flagsOf returns the flags that a node itself declares.
func flagsOf(node *kong.Node) (all []term) {
	for _, f := range node.Flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if placeholder := f.FormatPlaceHolder(); !f.IsBool() && placeholder != "" {
			name += "=" + placeholder
		}
		help := f.Help
		if len(f.Envs) > 0 {
			help += " Environment: " + strings.Join(f.Envs, ", ") + "."
		}
		all = append(all, term{name, help})
	}
	return all
}

// splitDetail returns the paragraphs of the detailed help of a command, and the lines of its example.
func splitDetail(detail string) (paragraphs, example string) {
	paragraphs, example, _ = strings.Cut(strings.Replace(detail, "Examples:", "Example:", 1), "Example:")
	var lines []string
	for line := range strings.Lines(example) {
		if text := strings.TrimSpace(line); text != "" {
			lines = append(lines, text)
		}
	}
	return strings.TrimSpace(paragraphs), strings.Join(lines, "\n")
}

// exitCodes are the same for each command.
var exitCodes = []term{
	{"0", "done"},
	{"1", "failed"},
	{"2", "the command line or the configuration has a mistake"},
	{"3", "refused, or found invalid"},
	{"4", "unavailable, or unverifiable: try again later"},
}

// Package reference writes the command reference from the command tree. [Markdown] writes it as one
// document. [Man] writes one page for the program, one for each top-level command, and one for the
// configuration. Both omit hidden commands and flags, and are deterministic.
package reference

import (
	"strings"

	"github.com/alecthomas/kong"
)

type command struct {
	name     string // such as "baton handoff show"
	synopsis string // such as "baton handoff show ID [flags]"
	help     string
	detail   string // in paragraphs
	example  string
	terms    []term
}

type term struct{ name, help string }

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

var exitCodes = []term{
	{"0", "done"},
	{"1", "failed"},
	{"2", "the command line or the configuration has a mistake"},
	{"3", "refused, or found invalid"},
	{"4", "unavailable, or unverifiable: try again later"},
}

package main

import (
	"github.com/alecthomas/kong"

	"github.com/baton-gateway/baton/cmd/baton/reference"
)

//go:generate sh -c "go run . man --dir man --markdown >reference.tmp && mv reference.tmp README.md"

type manCommand struct {
	Dir      string `help:"Output folder." placeholder:"DIR" required:""`
	Markdown bool   `help:"Also print the reference as Markdown." hidden:""`
}

// Help implements [kong.HelpProvider].
func (manCommand) Help() string {
	return `Pages of commands end in .1, and the page of the configuration in .5.

Example:

	baton man --dir man
	install -D -m 0644 -t /usr/local/share/man/man1 man/*.1
	install -D -m 0644 -t /usr/local/share/man/man5 man/*.5`
}

// Run writes the pages.
func (m manCommand) Run(app *kong.Kong, streams std) error {
	if err := reference.Man(m.Dir, app.Model, referenceFile()); err != nil || !m.Markdown {
		return err
	}
	return reference.Markdown(streams.out, app.Model)
}

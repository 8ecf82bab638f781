package main

import (
	"github.com/alecthomas/kong"

	"baton/cmd/baton/reference"
)

//go:generate sh -c "go run . man --dir man --markdown >reference.tmp && mv reference.tmp README.md"

type manCommand struct {
	Dir      string `help:"The folder that the pages are written into." placeholder:"DIR" required:""`
	Markdown bool   `help:"Print the reference as Markdown too." hidden:""`
}

// Help has one example.
func (manCommand) Help() string { return "Example:\n\n\tbaton man --dir /usr/local/share/man/man1" }

// Run writes the pages.
func (m manCommand) Run(app *kong.Kong, streams std) error {
	if err := reference.Man(m.Dir, app.Model); err != nil || !m.Markdown {
		return err
	}
	return reference.Markdown(streams.out, app.Model)
}

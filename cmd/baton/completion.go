package main

import (
	"github.com/alecthomas/kong"

	"github.com/baton-gateway/baton/cmd/baton/reference"
)

type completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements [kong.HelpProvider].
func (completion) Help() string {
	return `Prints the completion script for bash, zsh or fish.

Example:

	baton completion bash >/etc/bash_completion.d/baton
	baton completion zsh >/usr/local/share/zsh/site-functions/_baton
	baton completion fish >/etc/fish/completions/baton.fish`
}

// Run prints the script.
func (cmd completion) Run(app *kong.Kong, streams std) error {
	_, err := reference.Completion(streams.out, app.Model, cmd.Shell) // the parser validates the shell
	return err
}

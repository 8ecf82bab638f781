package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
)

type configCommands struct {
	Check   configCheck   `cmd:"" example:"config check /etc/baton/baton.toml" help:"Validate a configuration and its secret files."`
	Example configExample `cmd:"" example:"config example > baton.toml" help:"Print the reference: every key with its default."`
}

type configCheck struct {
	File string `arg:"" help:"The configuration. Default: the configuration of serve." optional:""`
}

type checkedConfig struct {
	File     string       `json:"file"`
	OK       bool         `json:"ok"`
	Mistakes []configLine `json:"mistakes"`
	Warnings []configLine `json:"warnings"`
}

// configLine is a mistake or a warning. A warning about a link has no line, and has the link's name
// instead of a key.
type configLine struct {
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	Link string `json:"link,omitempty"`
	Why  string `json:"why"`
}

// Run prints "FILE: ok", or fails with one line per mistake. Warnings go to stderr.
func (cmd configCheck) Run(c *cli, streams std) error {
	path := cmd.File
	if path == "" {
		path = c.configPath()
	}
	checked := checkedConfig{File: path, Mistakes: []configLine{}, Warnings: []configLine{}}
	err := checked.check()
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
		for _, m := range invalid.Mistakes {
			checked.Mistakes = append(checked.Mistakes, configLine{Line: m.Line, Key: m.Key, Why: m.Why})
		}
	} else if err != nil {
		return err
	}
	checked.OK = err == nil
	if c.JSON {
		return errors.Join(printJSON(streams, checked), err)
	}
	for _, w := range checked.Warnings {
		line := fmt.Sprintf("%s:%d: warning: %s: %s", path, w.Line, w.Key, w.Why)
		if w.Link != "" {
			line = fmt.Sprintf("%s: link %s: %s", path, w.Link, w.Why)
		}
		if _, err := fmt.Fprintln(streams.err, line); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(streams.out, path+": ok")
	return err
}

func (checked *checkedConfig) check() error {
	file, err := configs.Load(checked.File)
	if err != nil {
		return err
	}
	links, err := server.OpenLinks(file, networks, server.Wiring{})
	for _, w := range file.Warnings(time.Now()) {
		checked.Warnings = append(checked.Warnings, configLine{Line: w.Line, Key: w.Key, Why: w.Why})
	}
	for _, entry := range links {
		if describer, ok := entry.Link.(bridge.Describer); ok && err == nil {
			for _, what := range describer.Describe().Obstacles {
				checked.Warnings = append(checked.Warnings, configLine{Link: entry.Link.Name(), Why: what})
			}
		}
	}
	return err
}

type configExample struct{}

// Run prints the example.
func (configExample) Run(streams std) error {
	_, err := fmt.Fprint(streams.out, referenceFile())
	return err
}

type reloadCommand struct{ changeFlags }

// Run prints each changed key with its effect.
func (cmd reloadCommand) Run(ctx context.Context, c *cli, streams std) error {
	return report(ctx, c, streams, admin.ReloadConfig, cmd.body(), func(done admin.Reloaded) string {
		return strings.Join(append(render.Settings(done), cmd.said(fmt.Sprintf("%s is reloaded, %d keys changed", done.File, len(done.Changes)))), "\n")
	})
}

func (c *cli) configPath() string {
	if c.Config != "" {
		return c.Config
	}
	const here, system = "baton.toml", "/etc/baton/baton.toml"
	if _, err := os.Stat(here); errors.Is(err, fs.ErrNotExist) {
		return system
	}
	return here
}

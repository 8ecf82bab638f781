package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/admin"
	"baton/bridge/admin/render"
	"baton/bridge/server"
	"baton/configs"
)

// configCommands work on the configuration file alone.
type configCommands struct {
	Check   configCheck   `cmd:"" example:"config check /etc/baton/baton.toml" help:"Tell every mistake in a configuration and its secret files."`
	Example configExample `cmd:"" example:"config example > baton.toml" help:"Print the reference: every key with its default."`
}

// configCheck tells every mistake at once.
type configCheck struct {
	File string `arg:"" help:"Default: the configuration that serve would read." optional:""`
}

// Run prints "FILE: ok", or fails with one line a mistake. What else blocks a link goes to
// stderr.
func (cmd configCheck) Run(c *cli, streams std) error {
	path := cmd.File
	if path == "" {
		path = c.configPath()
	}
	file, err := configs.Load(path)
	if err != nil {
		return err
	}
	links, err := server.OpenLinks(file, networks, server.Wiring{})
	if err != nil {
		return err
	}
	for _, w := range file.Warnings(time.Now()) {
		if _, err := fmt.Fprintf(streams.err, "%s:%d: warning: %s: %s\n", w.File, w.Line, w.Key, w.Why); err != nil {
			return err
		}
	}
	if err := sayObstacles(streams.err, path, links); err != nil {
		return err
	}
	_, err = fmt.Fprintln(streams.out, path+": ok")
	return err
}

// sayObstacles writes what keeps links from working although the configuration is right.
func sayObstacles(out io.Writer, path string, links []server.Entry) error {
	for _, entry := range links {
		describer, ok := entry.Link.(bridge.Describer)
		if !ok {
			continue
		}
		for _, what := range describer.Describe().Obstacles {
			if _, err := fmt.Fprintf(out, "%s: link %s: %s\n", path, entry.Link.Name(), what); err != nil {
				return err
			}
		}
	}
	return nil
}

// configExample prints the reference file.
type configExample struct{}

// Run prints it.
func (configExample) Run(streams std) error {
	_, err := fmt.Fprint(streams.out, referenceFile())
	return err
}

// reloadCommand has the gateway read its configuration again.
type reloadCommand struct{ changeFlags }

// Run prints each changed key with its effect.
func (cmd reloadCommand) Run(ctx context.Context, c *cli, streams std) error {
	return report(ctx, c, streams, admin.ReloadConfig, cmd.body(), func(done admin.Reloaded) string {
		return strings.Join(append(render.Settings(done), cmd.said(fmt.Sprintf("%s is read again, %d keys changed", done.File, len(done.Changes)))), "\n")
	})
}

// configPath returns the file that --config names, else the first of the usual
// ones that is there.
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

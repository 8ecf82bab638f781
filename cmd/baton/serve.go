package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/configs"
)

// serveCommand runs the gateway.
type serveCommand struct{}

// Run serves until ctx ends: SIGTERM drains what is in flight and is no error.
// SIGHUP reads the configuration again.
func (serveCommand) Run(ctx context.Context, c *cli, streams std) error {
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP) // first of all: one that came during the start would end the program
	defer signal.Stop(hups)
	path := c.configPath()
	file, err := configs.Load(path)
	if err != nil {
		return err
	}
	if _, err := openLinks(file, wiring{}); err != nil { // every mistake, before anything is opened
		return err
	}
	settings := c.logSettings(file.Log)
	var level slog.LevelVar
	level.Set(settings.SlogLevel())
	log := newLog(streams.err, settings.Format, &level)
	v := buildVersion()
	log.LogAttrs(ctx, slog.LevelInfo, "baton starts", slog.String("version", v.Version), slog.String("revision", v.Revision), slog.String("home", file.Home.Name))
	p, err := assemble(ctx, file, log)
	if err != nil {
		return err
	}
	p.hups = hups
	p.reread = func() (*configs.File, error) { return configs.Load(path) }
	p.relevel = func(table configs.Log) { level.Set(c.logSettings(table).SlogLevel()) }
	err = p.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	err = errors.Join(err, p.close())
	if err == nil {
		log.LogAttrs(ctx, slog.LevelInfo, "stopped")
	}
	return err
}

// reloads reads the configuration again at each SIGHUP, until ctx ends.
func (p *program) reloads(ctx context.Context) error {
	for {
		select {
		case <-p.hups:
		case <-ctx.Done():
			return nil
		}
		file, err := p.reread()
		if err == nil {
			err = p.reload(ctx, file)
		}
		if err != nil {
			p.log.LogAttrs(ctx, slog.LevelError, "configuration not read again", slog.Any("err", err))
		}
	}
}

// reload applies what may change while the gateway runs, links, limits and the log
// level, and names the tables that want a restart. A file with a mistake changes
// nothing.
func (p *program) reload(ctx context.Context, file *configs.File) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	links, err := openLinks(file, p.wiring())
	if err != nil {
		return err
	}
	if links, err = p.homes.added.Join(ctx, links); err != nil {
		return err
	}
	for _, table := range file.Changed(p.file, "home", "http", "tls", "admin", "fetch", "identity", "keys", "store", "relay", "airc", "rest", "mcp", "a2a", "webhooks", "metrics") {
		p.log.LogAttrs(ctx, slog.LevelWarn, "restart needed", slog.String("table", table))
	}
	links = slices.DeleteFunc(links, func(o gateway.Entry) bool {
		_, mounted := o.Link.(bridge.Mounted) // its routes are there for good
		return mounted
	})
	p.relevel(file.Log)
	p.limit(file)
	p.configure(file, append(links, p.gateway.Links().Mounted()...))
	p.apply(ctx, append(links, p.gateway.Links().Mounted()...))
	p.log.LogAttrs(ctx, slog.LevelInfo, "configuration read again")
	return nil
}

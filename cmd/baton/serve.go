package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
)

type serveCommand struct{}

// Run serves until ctx ends. SIGTERM drains the requests in flight and is not an error. SIGHUP
// reloads the configuration.
func (serveCommand) Run(ctx context.Context, c *cli, streams std) error {
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP) // before all else: a signal during the start would otherwise end the program
	defer signal.Stop(hups)
	path := c.configPath()
	file, err := configs.Load(path)
	if err != nil {
		return err
	}
	if _, err := server.OpenLinks(file, networks, server.Wiring{}); err != nil { // report all mistakes before opening anything
		return err
	}
	settings := c.logSettings(file.Log)
	levels := &configs.LogLevels{}
	levels.Set("", settings.SlogLevel())
	last := server.NewLastError(file)
	errorsOnly := configs.Log{Format: "text"}.Handler(last, slog.LevelError, federation.MaskCapabilities)
	log := slog.New(levels.Handler(slog.NewMultiHandler(settings.Handler(streams.err, levels, federation.MaskCapabilities), errorsOnly)))
	v := buildVersion()
	log.LogAttrs(ctx, slog.LevelInfo, "baton starts", slog.String("version", v.Version), slog.String("revision", v.Revision), slog.String("home", file.Home.Name))
	gateway, err := server.Open(ctx, file, server.Options{
		Networks: networks, Version: v.Version, Revision: v.Revision, Log: log,
		Reread: func() (*configs.File, error) { return configs.Load(path) }, Hangups: hups, Levels: levels,
		Relevel: func(table configs.Log) { levels.Set("", c.logSettings(table).SlogLevel()) },
	})
	if err != nil {
		last.Set(bridge.OneLine(err), time.Now())
		return err
	}
	err = gateway.Run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	err = errors.Join(err, gateway.Close())
	if err != nil {
		last.Set(bridge.OneLine(err), time.Now())
	} else {
		log.LogAttrs(ctx, slog.LevelInfo, "stopped")
	}
	return err
}

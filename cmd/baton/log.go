package main

import (
	"context"
	"errors"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/configs"
)

func (c *cli) logSettings(table configs.Log) configs.Log {
	if c.LogLevel != "" {
		table.Level = c.LogLevel
	}
	if c.LogFormat != "" {
		table.Format = c.LogFormat
	}
	return table
}

type logCommands struct {
	Level logLevel `cmd:"" example:"log level bridge/irc/freeq debug" help:"Change the log level of all packages or one package, until the next start."`
}

type logLevel struct {
	changeFlags

	Args []string `arg:"" help:"Optionally the folder of a package, which includes the packages below it; then debug, info, warn or error." name:"level"`
}

// Run changes the level and prints the new levels.
func (cmd logLevel) Run(ctx context.Context, c *cli, streams std) error {
	if len(cmd.Args) > 2 {
		return &usageError{errors.New("want at most a package and a level")}
	}
	ask := admin.LevelAsk{Act: cmd.act(), Level: cmd.Args[len(cmd.Args)-1]}
	if len(cmd.Args) == 2 {
		ask.Package = cmd.Args[0]
	}
	return report(ctx, c, streams, admin.SetLogLevel, route.JSON(ask), func(levels admin.LogLevels) string {
		return cmd.said(render.LogLevels(levels))
	})
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/configs"
)

// SetLogLevel implements [operatorapi.Settings].
func (s operatorSettings) SetLogLevel(pkg, level string, dry bool) (contract.LogLevels, error) {
	if s.p.levels == nil {
		return contract.LogLevels{}, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: "this gateway keeps no log"}
	}
	want := configs.Log{Level: level}
	if !slices.Contains(logLevelNames(), level) {
		return contract.LogLevels{}, &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: "level: want " + strings.Join(logLevelNames(), ", ")}
	}
	if pkg != "" && !strings.HasPrefix(pkg, "bridge") && !strings.HasPrefix(pkg, "federation") && pkg != "cmd/baton" {
		return contract.LogLevels{}, &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: "package: want the folder of a package, such as bridge/irc/freeq"}
	}
	if !dry {
		s.p.levels.Set(pkg, want.SlogLevel())
	}
	general, folders := s.p.levels.All()
	levels := contract.LogLevels{Level: levelName(general), Packages: map[string]string{}}
	for folder, level := range folders {
		levels.Packages[folder] = levelName(level)
	}
	return levels, nil
}

func levelName(level slog.Level) string { return strings.ToLower(level.String()) }

func logLevelNames() []string { return []string{"debug", "info", "warn", "error"} }

// logCommands change what the gateway logs.
type logCommands struct {
	Level logLevel `cmd:"" example:"log level bridge/irc/freeq debug" help:"Change the level of the log, of all packages or of one, until the next start."`
}

// logLevel changes a level.
type logLevel struct {
	changeFlags

	Args []string `arg:"" help:"The folder of a package, for that package and the packages below it; then debug, info, warn or error." name:"level"`
}

// Run changes the level and prints the levels after it.
func (cmd logLevel) Run(ctx context.Context, c *cli, streams std) error {
	if len(cmd.Args) > 2 {
		return &usageError{errors.New("want at most a package and a level")}
	}
	ask := contract.LevelAsk{Act: cmd.act(), Level: cmd.Args[len(cmd.Args)-1]}
	if len(cmd.Args) == 2 {
		ask.Package = cmd.Args[0]
	}
	return report(c, streams, func(api *contract.Client) (*http.Response, error) { return api.SetLogLevel(ctx, ask) }, func(levels contract.LogLevels) string {
		said := []string{"the log has level " + levels.Level}
		for _, folder := range slices.Sorted(maps.Keys(levels.Packages)) {
			said = append(said, folder+" has "+levels.Packages[folder])
		}
		return cmd.said(strings.Join(said, ", "))
	})
}

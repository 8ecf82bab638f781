package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/configs"
)

// modulePath precedes the folder of a package in the names of its functions.
const modulePath = "baton/"

// logLevels are the levels of the log: one of all packages, and others of some. The zero value
// logs at level info.
type logLevels struct {
	general  slog.LevelVar
	changing sync.Mutex                            // one change at a time
	packages atomic.Pointer[map[string]slog.Level] // by folder; nil for none
}

// Level returns the lowest level that any package has.
func (l *logLevels) Level() slog.Level {
	lowest := l.general.Level()
	for _, level := range l.special() {
		lowest = min(lowest, level)
	}
	return lowest
}

func (l *logLevels) special() map[string]slog.Level {
	if set := l.packages.Load(); set != nil {
		return *set
	}
	return nil
}

// set sets the level of a folder, or of all of them for "".
func (l *logLevels) set(folder string, level slog.Level) {
	l.changing.Lock()
	defer l.changing.Unlock()
	if folder == "" {
		l.general.Set(level)
		l.packages.Store(nil)
		return
	}
	set := map[string]slog.Level{}
	maps.Copy(set, l.special())
	set[folder] = level
	l.packages.Store(&set)
}

// of returns the level of the package of a program counter: that of its own folder, else of the
// nearest one above, else of all.
func (l *logLevels) of(pc uintptr) slog.Level {
	special := l.special()
	if len(special) == 0 {
		return l.general.Level()
	}
	for folder := folderOf(pc); folder != ""; folder = folder[:max(0, strings.LastIndexByte(folder, '/'))] {
		if level, ok := special[folder]; ok {
			return level
		}
	}
	return l.general.Level()
}

// folderOf returns the folder of the package of a program counter.
func folderOf(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if strings.HasPrefix(frame.Function, "main.") {
		return "cmd/baton"
	}
	name := strings.TrimPrefix(frame.Function, modulePath)
	slash := strings.LastIndexByte(name, '/') + 1
	last, _, _ := strings.Cut(name[slash:], ".")
	return name[:slash] + last
}

// shown returns the levels as operators see them.
func (l *logLevels) shown() contract.LogLevels {
	levels := contract.LogLevels{Level: levelName(l.general.Level()), Packages: map[string]string{}}
	for folder, level := range l.special() {
		levels.Packages[folder] = levelName(level)
	}
	return levels
}

func levelName(level slog.Level) string { return strings.ToLower(level.String()) }

// leveled is a handler that logs each package at its level.
type leveled struct {
	slog.Handler

	levels *logLevels
}

// Enabled implements [slog.Handler].
func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.levels.Level() }

// Handle implements [slog.Handler].
func (h leveled) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < h.levels.of(r.PC) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.levels}
}

// WithGroup implements [slog.Handler].
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.levels}
}

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
		s.p.levels.set(pkg, want.SlogLevel())
	}
	return s.p.levels.shown(), nil
}

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

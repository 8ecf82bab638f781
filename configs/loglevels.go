package configs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lmittmann/tint"
)

const modulePath = "github.com/baton-gateway/baton/"

// LogLevels are the levels of the log: a default, and exceptions for some packages. The zero value
// logs at level info.
type LogLevels struct {
	general  slog.LevelVar
	changing sync.Mutex                            // one change at a time
	packages atomic.Pointer[map[string]slog.Level] // by folder; nil for none
}

// Level returns the lowest level of any package.
func (l *LogLevels) Level() slog.Level {
	lowest := l.general.Level()
	for _, level := range l.special() {
		lowest = min(lowest, level)
	}
	return lowest
}

func (l *LogLevels) special() map[string]slog.Level {
	if set := l.packages.Load(); set != nil {
		return *set
	}
	return nil
}

// Set sets the level of a folder, or of all folders for "".
func (l *LogLevels) Set(folder string, level slog.Level) {
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

// of returns the level for a program counter: that of its package's folder, or of the nearest
// parent with a level, or the default.
func (l *LogLevels) of(pc uintptr) slog.Level {
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

// All returns the default level, and the exceptions by folder.
func (l *LogLevels) All() (general slog.Level, folders map[string]slog.Level) {
	return l.general.Level(), l.special()
}

// Handler returns a handler that logs each package at its level.
func (l *LogLevels) Handler(h slog.Handler) slog.Handler {
	return leveled{h, l}
}

type leveled struct {
	slog.Handler

	levels *LogLevels
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

// Handler returns the log handler: text for people, or one JSON object per line. The level may
// change during use. The function mask hides secrets in the texts and errors of a line.
func (l Log) Handler(out io.Writer, level slog.Leveler, mask func(text string) string) slog.Handler {
	masked := func(_ []string, a slog.Attr) slog.Attr {
		text := ""
		switch v := a.Value.Any().(type) {
		case string:
			text = v
		case error:
			text = v.Error()
		case fmt.Stringer:
			text = v.String()
		}
		if hidden := mask(text); hidden != text {
			a.Value = slog.StringValue(hidden)
		}
		return a
	}
	if l.Format == "json" {
		return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: masked})
	}
	return tint.NewTextHandler(out, &tint.Options{Level: level, NoColor: true, TimeFormat: "2006-01-02T15:04:05.000Z07:00", ReplaceAttr: masked})
}

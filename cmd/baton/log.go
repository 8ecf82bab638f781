package main

import (
	"io"
	"log/slog"

	"github.com/lmittmann/tint"

	"baton/configs"
)

// newLog returns the log of the process: for people, or one JSON object a line.
// The level may be changed while it is in use.
func newLog(out io.Writer, format string, level slog.Leveler) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(out, &tint.Options{Level: level, NoColor: true, TimeFormat: "2006-01-02T15:04:05.000Z07:00"}))
}

// logSettings returns the [log] table with the flags over it.
func (c *cli) logSettings(table configs.Log) configs.Log {
	if c.LogLevel != "" {
		table.Level = c.LogLevel
	}
	if c.LogFormat != "" {
		table.Format = c.LogFormat
	}
	return table
}

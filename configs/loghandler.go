package configs

import (
	"io"
	"log/slog"

	"github.com/lmittmann/tint"
)

// Handler returns what writes the log: for people, or one JSON object a line. The level may be
// changed while the handler is in use.
func (l Log) Handler(out io.Writer, level slog.Leveler) slog.Handler {
	if l.Format == "json" {
		return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})
	}
	return tint.NewTextHandler(out, &tint.Options{Level: level, NoColor: true, TimeFormat: "2006-01-02T15:04:05.000Z07:00"})
}

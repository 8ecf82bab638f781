package configs

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/lmittmann/tint"
)

// Handler returns the log handler: text for people, or one JSON object per line. The level may
// change while the handler is in use. The function mask hides secrets in the texts and errors of a
// line.
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

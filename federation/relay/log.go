package relay

import (
	"fmt"
	"log/slog"
)

// serverLog writes the lines of the NATS server to a log, at level debug. It implements
// [server.Logger]. [Relay.Ready] and [Hub.Ready] report the state of the connections.
type serverLog struct{ log *slog.Logger }

// Noticef implements server.Logger.
func (l serverLog) Noticef(format string, v ...any) { l.line(format, v) }

// Warnf implements server.Logger.
func (l serverLog) Warnf(format string, v ...any) { l.line(format, v) }

// Fatalf implements server.Logger. The program goes on without a relay.
func (l serverLog) Fatalf(format string, v ...any) { l.line(format, v) }

// Errorf implements server.Logger.
func (l serverLog) Errorf(format string, v ...any) { l.line(format, v) }

// Debugf implements server.Logger.
func (l serverLog) Debugf(format string, v ...any) { l.line(format, v) }

// Tracef implements server.Logger.
func (l serverLog) Tracef(format string, v ...any) { l.line(format, v) }

func (l serverLog) line(format string, v []any) {
	l.log.Debug("nats server", slog.String("reason", fmt.Sprintf(format, v...)))
}

package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"

	"baton/federation"
)

// ServerConfig names a NATS server, or the servers of one cluster, and the credentials of this home
// there. The zero value names none.
type ServerConfig struct {
	URLs      []string // "tls://host:port" or "nats://host:port"
	CredsFile string   // a JWT credentials file, or
	NKeyFile  string   // an nkey seed; both empty for a server without accounts
	CAFile    string   // empty for the authorities of the system
	Host      *Host    // the server in this process, in place of URLs; nil for none
}

// Named reports whether it names a server.
func (cfg ServerConfig) Named() bool { return cfg.Host != nil || len(cfg.URLs) > 0 }

// connect begins to connect, and keeps trying without end. The error is that of a file that cannot
// be read.
func (cfg ServerConfig) connect(home federation.HomeID, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	options := append([]nats.Option{
		nats.Name("baton " + string(home)), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.CustomInboxPrefix("_INBOX." + token(home)),
		nats.ErrorHandler(failed(log)),
	}, more...)
	if cfg.Host != nil {
		options = append(options, nats.InProcessServer(cfg.Host.server))
	}
	if cfg.CAFile != "" {
		options = append(options, nats.RootCAs(cfg.CAFile))
	}
	switch {
	case cfg.CredsFile != "":
		options = append(options, nats.UserCredentials(cfg.CredsFile))
	case cfg.NKeyFile != "":
		key, err := nats.NkeyOptionFromSeed(cfg.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read nkey: %w", err)
		}
		options = append(options, key)
	}
	return nats.Connect(strings.Join(cfg.URLs, ","), options...)
}

// failed returns a handler that logs connection errors.
func failed(log *slog.Logger) nats.ErrHandler {
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrSlowConsumer) { // see maxPending
			log.Debug("nats connection failed", slog.Any("err", err))
		}
	}
}

package relay

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout bounds the start of a server that reads its streams from a local disk.
const startTimeout = 5 * time.Second

// HostConfig says where homes of others link to a NATS server of this home.
type HostConfig struct {
	Listen       string // "host:port"
	AccountsFile string // as [WriteAccounts] has it; what operators add to it counts
	Dir          string // where the streams are kept
	// TLS is what the listener speaks where the file of the accounts says nothing of TLS;
	// nil for none.
	TLS *tls.Config
}

// Host is a NATS server with streams in this process, which homes of others link to,
// each in its account. This home links to it in its own one, and has no right there that
// the others do not have.
type Host struct{ server *server.Server }

// OpenHost starts the server, and returns when it listens. The error says why it cannot.
func OpenHost(cfg HostConfig, log *slog.Logger) (*Host, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	said := &lastWord{serverLog: serverLog{log}}
	s.SetLoggerV2(said, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("open host: %w", said.why())
	}
	return &Host{s}, nil
}

// options returns how the server is set: as the accounts have it, at the place of this
// home.
func (cfg HostConfig) options() (*server.Options, error) {
	options, err := server.ProcessConfigFile(cfg.AccountsFile)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	if len(options.Nkeys) == 0 {
		return nil, fmt.Errorf("read accounts: %s has none", cfg.AccountsFile)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if options.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("read port: %w", err)
	}
	if options.Port == 0 {
		options.Port = server.RANDOM_PORT
	}
	options.Host, options.StoreDir, options.NoSigs = host, cfg.Dir, true // signals are the program's
	if options.TLSConfig == nil && cfg.TLS != nil {
		options.TLSConfig, options.TLS = cfg.TLS, true
	}
	return options, nil
}

// URL returns where the server listens.
func (h *Host) URL() string { return h.server.ClientURL() }

// Close ends the server and waits until it has ended. A nil Host is none.
func (h *Host) Close() {
	if h == nil {
		return
	}
	h.server.Shutdown()
	h.server.WaitForShutdown()
}

// lastWord is a log that keeps why a server could not go on. It is safe for concurrent
// use.
type lastWord struct {
	serverLog

	mu   sync.Mutex
	said string
}

// Fatalf implements server.Logger.
func (l *lastWord) Fatalf(format string, v ...any) {
	l.serverLog.Fatalf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = fmt.Sprintf(format, v...)
}

func (l *lastWord) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == "" {
		return fmt.Errorf("it does not listen within %s", startTimeout)
	}
	return errors.New(l.said)
}

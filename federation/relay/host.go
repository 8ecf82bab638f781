package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The server reads its streams from a local disk before it listens.
const startTimeout = 5 * time.Second

// HostConfig configures an embedded NATS server for other operators' homes.
type HostConfig struct {
	Listen       string // "host:port"
	AccountsFile string // from [WriteAccounts]; operators may add settings
	Dir          string // of the streams
	// TLS is used if the accounts file has no TLS configuration. It may be nil.
	TLS *tls.Config
}

// Host is an embedded NATS server with streams for other operators' homes. Each home has an account,
// also this one, which has no additional permissions.
type Host struct{ server *server.Server }

// OpenHost starts the server, and returns when it listens.
func OpenHost(ctx context.Context, cfg HostConfig, log *slog.Logger) (*Host, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	lines := &failureLog{serverLog: serverLog{log}}
	s.SetLoggerV2(lines, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("open host: %w", lines.failure())
	}
	if err := removeUnread(ctx, s, options.StoreDir, log); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "files of the host not checked", slog.Any("err", err))
	}
	return &Host{s}, nil
}

// removeUnread deletes the files of readers that the server could not recover, because they prevent a
// new reader of that name. The home soon recreates its reader, and receives unacknowledged messages
// again.
func removeUnread(ctx context.Context, s *server.Server, dir string, log *slog.Logger) error {
	folders, err := filepath.Glob(filepath.Join(dir, server.JetStreamStoreDir, "*", "streams", "*", "obs", "*")) // before the query, because a reader may be created meanwhile
	if err != nil || len(folders) == 0 {
		return err
	}
	state, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true, Limit: len(folders)})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, account := range state.AccountDetails {
		for _, stream := range account.Streams {
			for _, reader := range stream.Consumer {
				known[filepath.Join(account.Name, "streams", stream.Name, "obs", reader.Name)] = true
			}
		}
	}
	for _, folder := range folders {
		name, err := filepath.Rel(filepath.Join(dir, server.JetStreamStoreDir), folder)
		if err != nil || known[name] {
			continue
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		log.LogAttrs(ctx, slog.LevelWarn, "damaged files of a reader removed: its home recreates the reader, and nothing is lost", slog.String("path", folder))
	}
	return nil
}

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
	options.Host, options.StoreDir, options.NoSigs = host, cfg.Dir, true // this program handles signals
	if options.TLSConfig == nil && cfg.TLS != nil {
		options.TLSConfig, options.TLS = cfg.TLS, true
	}
	return options, nil
}

// URL returns the address of the server.
func (h *Host) URL() string { return h.server.ClientURL() }

// Close stops the server and waits for its end. A nil Host is allowed.
func (h *Host) Close() {
	if h == nil {
		return
	}
	h.server.Shutdown()
	h.server.WaitForShutdown()
}

// Safe for concurrent use.
type failureLog struct {
	serverLog

	mu   sync.Mutex
	last string
}

// Fatalf implements [server.Logger].
func (l *failureLog) Fatalf(format string, v ...any) {
	l.serverLog.Fatalf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fmt.Sprintf(format, v...)
}

func (l *failureLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return fmt.Errorf("it did not start listening within %s", startTimeout)
	}
	return errors.New(l.last)
}

// serverLog writes debug lines. [Relay.Ready] and [Hub.Ready] report the state of the connections.
type serverLog struct{ log *slog.Logger }

// Noticef implements [server.Logger].
func (l serverLog) Noticef(format string, v ...any) { l.line(format, v) }

// Warnf implements [server.Logger].
func (l serverLog) Warnf(format string, v ...any) { l.line(format, v) }

// Fatalf only logs: the program continues without a relay.
func (l serverLog) Fatalf(format string, v ...any) { l.line(format, v) }

// Errorf implements [server.Logger].
func (l serverLog) Errorf(format string, v ...any) { l.line(format, v) }

// Debugf implements [server.Logger].
func (l serverLog) Debugf(format string, v ...any) { l.line(format, v) }

// Tracef implements [server.Logger].
func (l serverLog) Tracef(format string, v ...any) { l.line(format, v) }

func (l serverLog) line(format string, v []any) {
	l.log.Debug("nats server", slog.String("reason", fmt.Sprintf(format, v...)))
}

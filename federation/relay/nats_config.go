package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/baton-gateway/baton/federation"
)

// Tables of a [NATSText].
const (
	ownTable = "relay"
	HubTable = "relay.hub"
)

// The server for other operators' homes keeps its accounts, seeds and streams below this folder of
// data_dir.
const hostFolder = "relay"

// StreamsFolder returns the folder of the streams below data_dir.
func StreamsFolder() string { return hostFile("jetstream") }

func hostFile(name string) string { return filepath.Join(hostFolder, name) }

// NATSText is the text form of a [NATSConfig] in a configuration.
type NATSText struct {
	Home     federation.HomeID
	Own      ServerText
	Listen   string
	Replicas int
	MaxBytes int64

	Hub         ServerText // [relay.hub]
	HubReplicas int
}

// NATSConfig configures the use of NATS by a home.
type NATSConfig struct {
	Own  ServerConfig // for wake-ups of other replicas, if it names a server
	Host *HostConfig  // listener for other operators' homes, or nil
	Hub  HubConfig    // if it names a server or Host is set
}

// Parse returns the NATS configuration. The hub is this home's server if it listens for other homes,
// else the configured hub, else the servers shared by its replicas. It calls mistake with the table,
// the key and the reason of each invalid value.
func (t NATSText) Parse(files ConfigFiles, mistake func(table, key, why string)) NATSConfig {
	server := func(table string, text ServerText) ServerConfig {
		cfg, mistakes := text.Parse(files)
		for _, m := range mistakes {
			mistake(table, m.Key, m.Why)
		}
		return cfg
	}
	m := NATSConfig{Own: server(ownTable, t.Own), Hub: HubConfig{ServerConfig: server(HubTable, t.Hub), Replicas: t.HubReplicas}}
	switch {
	case t.Listen != "" && m.Hub.Named():
		mistake(ownTable, "listen", "homes meet at ["+HubTable+"]: want one of the two")
	case t.Listen != "":
		m.Host = t.host(files, mistake)
		m.Hub.NKeyFile, m.Hub.MaxBytes = files.Path(hostFile(t.seed())), t.MaxBytes
	case !m.Hub.Named() && m.Own.Named():
		m.Hub = HubConfig{ServerConfig: m.Own, Replicas: t.Replicas, MaxBytes: t.MaxBytes, Ours: true}
	}
	return m
}

func (t NATSText) seed() string { return string(t.Home) + SeedSuffix }

// The accounts of other homes must exist.
func (t NATSText) host(files ConfigFiles, mistake func(table, key, why string)) *HostConfig {
	cfg := &HostConfig{Listen: t.Listen, AccountsFile: files.Path(hostFile(HubFile)), Dir: files.Path(StreamsFolder())}
	_, err := os.Stat(cfg.AccountsFile)
	if err == nil {
		_, err = files.Secret(hostFile(t.seed()))
	}
	if err != nil {
		mistake(ownTable, "listen", "want accounts: baton relay accounts "+string(t.Home)+" NAME... --out "+files.Path(hostFolder)+": "+err.Error())
	}
	return cfg
}

// ServerConfig names a NATS server or cluster, and this home's credentials. The zero value names none.
type ServerConfig struct {
	URLs      []string // "tls://host:port" or "nats://host:port"
	CredsFile string   // JWT credentials, or
	NKeyFile  string   // nkey seed; both "" for a server without accounts
	CAFile    string   // "" for the system's authorities
	Host      *Host    // in this process, instead of URLs; or nil
}

// Named reports whether the configuration names a server.
func (cfg ServerConfig) Named() bool { return cfg.Host != nil || len(cfg.URLs) > 0 }

// connect retries forever. It returns an error if a file cannot be read.
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

// Probe connects to each server in turn until one succeeds, otherwise returns the URL and the cause of
// each failure. It blocks for up to three seconds per server.
func (cfg ServerConfig) Probe(ctx context.Context, home federation.HomeID) error {
	var failed []error
	for _, address := range cfg.URLs {
		if err := dial(ctx, address); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", address, err))
			continue
		}
		one := cfg
		one.URLs = []string{address}
		conn, err := one.connect(home, slog.New(slog.DiscardHandler), nats.RetryOnFailedConnect(false), nats.MaxReconnects(0), nats.Timeout(probeTime))
		if err == nil {
			conn.Close()
			return nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", address, explained(err)))
	}
	return errors.Join(failed...)
}

func explained(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return fmt.Errorf("%w: the server refuses the seed of nkey_file or the file of creds_file", err)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%w: the server speaks plain text; use nats:// in urls, or turn on TLS there", err)
	case errors.Is(err, nats.ErrNoInfoReceived), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return errors.New("the server is not a NATS server: it sends no greeting")
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Source != nil {
		return fmt.Errorf("%s: %w", failed.Op, failed.Err) // without the local port, which changes
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: name the authority of the certificate in ca_file", err)
	}
	return err
}

// The NATS client does not return the reason for a failed connection.
func dial(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	d := net.Dialer{Timeout: probeTime}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), strconv.Itoa(nats.DefaultPort))))
	if err != nil {
		return err
	}
	return conn.Close()
}

const probeTime = 3 * time.Second

func failed(log *slog.Logger) nats.ErrHandler {
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrSlowConsumer) { // see maxPending
			log.Debug("nats connection failed", slog.Any("err", err))
		}
	}
}

// ServerText is the text form of a [ServerConfig] in a configuration.
type ServerText struct {
	URLs                        []string
	CredsFile, NKeyFile, CAFile string
}

// ConfigFiles reads the files named in a configuration.
type ConfigFiles interface {
	Path(name string) string
	Secret(name string) (string, error)
}

// Parse returns the configuration of a connection, and the mistakes in its text.
func (t ServerText) Parse(files ConfigFiles) (ServerConfig, []federation.Mistake) {
	cfg := ServerConfig{URLs: t.URLs}
	var mistakes []federation.Mistake
	for _, address := range t.URLs {
		if u, err := url.Parse(address); err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			mistakes = append(mistakes, federation.Mistake{Key: "urls", Why: `want addresses such as "tls://hub.example:4222"`})
		}
	}
	if t.CredsFile != "" && t.NKeyFile != "" {
		mistakes = append(mistakes, federation.Mistake{Key: "nkey_file", Why: "want one of creds_file and nkey_file"})
	}
	secret := func(key, name string) string {
		if name == "" {
			return ""
		}
		if _, err := files.Secret(name); err != nil {
			mistakes = append(mistakes, federation.Mistake{Key: key, Why: err.Error()})
		}
		return files.Path(name)
	}
	cfg.CredsFile, cfg.NKeyFile = secret("creds_file", t.CredsFile), secret("nkey_file", t.NKeyFile)
	if t.CAFile != "" {
		cfg.CAFile = files.Path(t.CAFile)
	}
	return cfg, mistakes
}

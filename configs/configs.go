// Package configs loads the configuration file.
//
// The file is TOML and is read strictly. An unknown key, a value of the wrong type, a missing
// required key and an unworkable value are mistakes. [File.Err] returns all of them, each with its
// file and line:
//
//	baton.toml:7: http.listen: want host:port
//
// The package handles the frame: all tables except the networks' tables. A network decodes its table
// into its own struct ([Table.Decode]). The caller calls [File.Err] after all owners have decoded
// their tables:
//
//	file, err := configs.Load("baton.toml")
//	...
//	for _, table := range file.Tables("irc.spanningtree") {
//		cfg := inspircd.DefaultConfig()
//		table.Decode(&cfg)
//		...
//	}
//	if err := file.Err(); err != nil {
//
// Secrets and the certificate are separate files, named by the configuration ([File.Secret],
// [File.Certificate]). [Reference] returns the file with every key and its default.
//
// A File is not safe for concurrent use until Err has been called. After that it is immutable.
package configs

import (
	_ "embed"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Config is the frame of the file: all tables except the networks' tables.
type Config struct {
	Home      Home
	HTTP      HTTP
	TLS       TLS
	ACME      ACME
	Admin     Admin
	Fetch     Fetch
	Identity  Identity
	Keys      Keys
	Store     Store
	Relay     Relay
	Webhooks  Webhooks
	Agents    Agents
	Policy    Policy
	Limits    Limits
	Retention Retention
	Log       Log
	Metrics   Metrics
}

// Home is the table with the identity of this gateway.
type Home struct {
	Name        string `toml:"name"`        // required; a lower-case host name, the same on every network
	Description string `toml:"description"` // for people, in server lists; one line
	DataDir     string `toml:"data_dir"`    // record, keys and secrets; relative to the configuration file
}

// HTTP is the table of the public listener.
type HTTP struct {
	Listen         string         `toml:"listen"`          // host:port; empty for no listener
	TLS            bool           `toml:"tls"`             // with the certificate of [TLS]
	PublicURL      string         `toml:"public_url"`      // of the listener; without a path
	CORSOrigins    []string       `toml:"cors_origins"`    // "*", or scheme://host[:port]
	MaxBodyBytes   int64          `toml:"max_body_bytes"`  // of one request
	TrustedProxies []netip.Prefix `toml:"trusted_proxies"` // trusted to name the client address

	ForwardedHeader string `toml:"forwarded_header"` // header with the client address: "x-forwarded-for" or "forwarded"
}

// TLS is the table of the certificate, shared by all listeners and links with TLS.
type TLS struct {
	Mode     string `toml:"mode"`      // [FilesMode] or [ACMEMode]
	CertFile string `toml:"cert_file"` // PEM, with the chain; both files or neither, relative to data_dir
	KeyFile  string `toml:"key_file"`  // PEM; a secret
}

// Admin is the table of the operators' listener.
type Admin struct {
	Socket string `toml:"socket"` // the operator API; relative to data_dir, empty for none
	Listen string `toml:"listen"` // host:port; empty for no listener
	Debug  string `toml:"debug"`  // access to profiles on loopback: "loopback" or "token"
}

// Binding is one [[bindings]] table: a name on a network that represents a DID. Package server
// decodes it and checks the DID.
type Binding struct {
	Network string `toml:"network"` // required; the name of a link
	Name    string `toml:"name"`    // required; an account, or a handle
	DID     string `toml:"did"`     // required
	Vouch   bool   `toml:"vouch"`   // the gateway may sign for the DID
}

// Peer is one [[peers]] table: another home. Package server decodes it and checks the DID.
type Peer struct {
	Name string `toml:"name"` // required; its home.name
	DID  string `toml:"did"`  // required; must sign its messages
	URL  string `toml:"url"`  // without a path; empty for a home reachable only through the hub
	Path string `toml:"path"` // "relay", through the hub, or "https"
	Mode string `toml:"mode"` // "allow", "limit", "hold" or "block"

	Key    string `toml:"key"`     // the did:key that must sign its documents received through a hub; empty for any
	CAFile string `toml:"ca_file"` // additional certificate authorities for its HTTPS; empty for none
}

// Relay is the table of the gateway's own NATS.
type Relay struct {
	URLs      []string `toml:"urls"`       // of servers or a cluster; empty for one in this process
	CredsFile string   `toml:"creds_file"` // with urls: a JWT credentials file, or:
	NKeyFile  string   `toml:"nkey_file"`  // with urls: an nkey seed; a secret
	CAFile    string   `toml:"ca_file"`    // with urls; empty for the authorities of the system
	Listen    string   `toml:"listen"`     // without urls: host:port for homes of others; empty for none
	Replicas  int      `toml:"replicas"`   // number of replicas of a stream
	MaxBytes  int64    `toml:"max_bytes"`  // of a stream
}

// Bounds of these streams.
const (
	MaxReplicas        = 5
	DefaultStreamBytes = 16 << 20 // reserved by the server for each stream
	minStreamBytes     = 8 << 20  // room for a few batches
)

// Hub is the table of the NATS server between homes of several operators. The package with the NATS
// client decodes it.
type Hub struct {
	URLs      []string `toml:"urls"`       // empty for none
	CredsFile string   `toml:"creds_file"` // a JWT credentials file, or
	NKeyFile  string   `toml:"nkey_file"`  // an nkey seed; a secret
	CAFile    string   `toml:"ca_file"`    // empty for the authorities of the system
	Replicas  int      `toml:"replicas"`   // servers of the hub with a copy of each stream to this home; 0 is 1
}

// Fetch is the table of the HTTP client for documents at addresses chosen by other parties.
type Fetch struct {
	AllowPrivate bool          `toml:"allow_private"` // reach private and loopback addresses, and plain http
	Timeout      time.Duration `toml:"timeout"`       // of one fetch, body included
	MaxBytes     int64         `toml:"max_bytes"`     // of one document
	PerHost      int           `toml:"per_host"`      // requests per second to one host
	// DeniedNetworks are CIDRs never dialled, even with AllowPrivate.
	DeniedNetworks []string `toml:"denied_networks"`
}

// Identity is the table of DID resolution.
type Identity struct {
	PLCURL      string        `toml:"plc_url"`      // of the did:plc directory, without a path
	CacheTTL    time.Duration `toml:"cache_ttl"`    // of a good document
	NegativeTTL time.Duration `toml:"negative_ttl"` // of an unknown DID or key id
	StaleTTL    time.Duration `toml:"stale_ttl"`    // of a good document while its host is unreachable; at least cache_ttl
}

// Keys is the table of the gateway's own keys.
type Keys struct {
	Signer []string `toml:"signer"` // an external signer with its arguments; empty for key files
}

// The drivers of the record.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Store is the table of the record.
type Store struct {
	Driver  string `toml:"driver"`   // SQLite or Postgres
	Path    string `toml:"path"`     // of the file, for SQLite; relative to data_dir
	DSNFile string `toml:"dsn_file"` // of the connection string, for Postgres; a secret
}

// Webhooks is the table of webhooks.
type Webhooks struct {
	Enabled     bool `toml:"enabled"`      // agents may register them
	MaxPerDID   int  `toml:"max_per_did"`  // of one DID
	MaxAttempts int  `toml:"max_attempts"` // on one delivery, including the first
}

// Agents is the table of the agents of this gateway.
type Agents struct {
	OpenRegistration bool `toml:"open_registration"` // anyone may register an agent on the authorize page
}

// Policy is the table of the permissions of each party.
type Policy struct {
	Require string `toml:"require"` // the lowest accepted provenance, "signed" or "vouched"
	// OpenOffers selects the DIDs that may offer in a channel over REST, MCP and A2A: "members",
	// "agents" or "any".
	OpenOffers string `toml:"open_offers"`
	ClaimCaps  bool   `toml:"claim_caps"` // a claimer must have declared every capability that the offer names
}

// Rule is one [[policy.rules]] table. The first rule that matches a step decides. An empty list
// matches all. Package server decodes it and checks the verbs and DIDs.
type Rule struct {
	Verbs      []string `toml:"verbs"`
	Peers      []string `toml:"peers"`      // names of links
	Recipients []string `toml:"recipients"` // DIDs
	Senders    []string `toml:"senders"`    // DIDs
	Require    string   `toml:"require"`    // "signed", "vouched", "nothing" or "deny"
}

// Limits is the table of limits. Zero means no limit. A rate is a token bucket that starts full and
// holds one period.
type Limits struct {
	DIDEventsPerMinute   int           `toml:"did_events_per_minute"`  // steps and AIRC messages of one DID
	RegistrationsPerHour int           `toml:"registrations_per_hour"` // of AIRC handles, new agents and IRC accounts, from one address
	UserEventsPerMinute  int           `toml:"user_events_per_minute"` // steps and lines of one IRC user, even unverified
	LinkEventsPerSecond  int           `toml:"link_events_per_second"` // from one link; above it the link reads more slowly
	InboxEvents          int           `toml:"inbox_events"`           // waiting for one DID
	InboxBytes           int64         `toml:"inbox_bytes"`            // waiting for one DID
	OpenHandoffsPerDID   int           `toml:"open_handoffs_per_did"`  // offered by one DID and not closed
	ContextBytes         int64         `toml:"context_bytes"`          // of one context stored here
	ContextBytesPerDID   int64         `toml:"context_bytes_per_did"`  // of all contexts stored for one DID
	DeferredPerOrigin    int           `toml:"deferred_per_origin"`    // steps from one link that wait for a key
	DeferredTotal        int           `toml:"deferred_total"`         // steps that wait for a key
	ClockSkew            time.Duration `toml:"clock_skew"`             // between the time in a signed id and our clock
	MaxDeadline          time.Duration `toml:"max_deadline"`           // from an offer to its deadline
	MaxHops              int           `toml:"max_hops"`               // homes through which a step may pass

	// The limits of one address (an IPv4 address or an IPv6 /64), and of all connections together.
	ConnectionsPerAddress     int `toml:"connections_per_address"`      // to the listener for IRC clients, including WebSockets
	HTTPConnectionsPerAddress int `toml:"http_connections_per_address"` // to the public HTTP listener; also requests in progress
	HTTPConnections           int `toml:"http_connections"`             // to the public HTTP listener; 0 for half of the open files allowed by the system
	UnregisteredConnections   int `toml:"unregistered_connections"`     // unregistered IRC clients, of all addresses
	LoginsPerMinute           int `toml:"logins_per_minute"`            // of one address: attempts to prove a DID, challenges and tokens
	AddressEventsPerMinute    int `toml:"address_events_per_minute"`    // steps and AIRC messages of one address, over all its DIDs

	// The shares of one sender, and the limits of DIDs first recorded less than an hour ago.
	InboxEventsPerSender     int   `toml:"inbox_events_per_sender"`       // of one sender, waiting for one DID
	InboxBytesPerSender      int64 `toml:"inbox_bytes_per_sender"`        // of one sender, waiting for one DID
	FirstContacts            int   `toml:"first_contacts"`                // messages held for one AIRC agent until it consents
	FirstContactsPerSender   int   `toml:"first_contacts_per_sender"`     // of one sender, held for one AIRC agent
	NewDIDsPerHour           int   `toml:"new_dids_per_hour"`             // new in the record
	NewDIDsPerAddressPerHour int   `toml:"new_dids_per_address_per_hour"` // of those, from one address
	RecordBytesPerHour       int64 `toml:"record_bytes_per_hour"`         // growth of the record above which new DIDs are refused
}

// MinIDs is the shortest time to keep the IDs of deleted steps: as long as the signer may resend a
// step.
const MinIDs = 720 * time.Hour

// Retention is the table of retention times. Zero means forever.
type Retention struct {
	Unanswered   time.Duration `toml:"unanswered"`    // an offer without a deadline; then it expires
	Abandoned    time.Duration `toml:"abandoned"`     // an assigned handoff without progress; then it expires
	Undelivered  time.Duration `toml:"undelivered"`   // a step in an inbox; then it no longer waits, and an offer expires
	Finished     time.Duration `toml:"finished"`      // a closed handoff with everything about it
	IDs          time.Duration `toml:"ids"`           // ids of deleted steps, at least [MinIDs]
	Dead         time.Duration `toml:"dead"`          // a dead letter, and the notices to signers
	AIRCMessages time.Duration `toml:"airc_messages"` // a message delivered to its agent
	Messages     time.Duration `toml:"messages"`      // private text waiting for its recipient or for consent; then it expires
	Chat         time.Duration `toml:"chat"`          // a line that clients of the listener may replay
}

// Log is the table of the log.
type Log struct {
	Level  string `toml:"level"`  // debug, info, warn or error
	Format string `toml:"format"` // text or json
}

// Metrics is the table of the metrics.
type Metrics struct {
	Enabled bool `toml:"enabled"` // /metrics on the operators' listener
}

// SlogLevel returns the level of log/slog. An invalid level, which [File.Err] reports, counts as
// info.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// Default returns the frame of an empty file. Only home.name has no default.
func Default() Config {
	return Config{
		Home: Home{Description: "Baton", DataDir: "data"},
		HTTP: HTTP{
			Listen:         "127.0.0.1:8080",
			PublicURL:      "http://127.0.0.1:8080",
			CORSOrigins:    []string{"*"},
			MaxBodyBytes:   256 << 10,
			TrustedProxies: []netip.Prefix{},

			ForwardedHeader: "x-forwarded-for",
		},
		TLS:   TLS{Mode: FilesMode},
		ACME:  ACME{Domains: []string{}, Directory: "https://acme-v02.api.letsencrypt.org/directory"},
		Admin: Admin{Socket: "baton.sock", Listen: "127.0.0.1:8081", Debug: "loopback"},
		Fetch: Fetch{Timeout: 5 * time.Second, MaxBytes: 64 << 10, PerHost: 10, DeniedNetworks: []string{}},
		Identity: Identity{
			PLCURL:      "https://plc.directory",
			CacheTTL:    time.Hour,
			NegativeTTL: time.Minute,
			StaleTTL:    24 * time.Hour,
		},
		Keys:     Keys{Signer: []string{}},
		Store:    Store{Driver: SQLite, Path: "baton.db"},
		Relay:    Relay{URLs: []string{}, Replicas: 1, MaxBytes: DefaultStreamBytes},
		Webhooks: Webhooks{Enabled: true, MaxPerDID: 5, MaxAttempts: 12},
		Policy:   Policy{Require: "vouched", OpenOffers: "members"},
		Limits: Limits{
			DIDEventsPerMinute:   60,
			RegistrationsPerHour: 30,
			UserEventsPerMinute:  300,
			LinkEventsPerSecond:  1000,
			InboxEvents:          10_000,
			InboxBytes:           64 << 20,
			OpenHandoffsPerDID:   1000,
			ContextBytes:         1 << 20,
			ContextBytesPerDID:   64 << 20,
			DeferredPerOrigin:    256,
			DeferredTotal:        4096,
			ClockSkew:            120 * time.Second,
			MaxDeadline:          720 * time.Hour,
			MaxHops:              8,

			ConnectionsPerAddress:     32,
			HTTPConnectionsPerAddress: 256,
			UnregisteredConnections:   256,
			LoginsPerMinute:           60,
			AddressEventsPerMinute:    600,

			InboxEventsPerSender:     1000,
			InboxBytesPerSender:      64 << 20 / 10,
			FirstContacts:            100,
			FirstContactsPerSender:   10,
			NewDIDsPerHour:           1000,
			NewDIDsPerAddressPerHour: 30,
			RecordBytesPerHour:       256 << 20,
		},
		Retention: Retention{
			Unanswered:   168 * time.Hour,
			Abandoned:    168 * time.Hour,
			Undelivered:  720 * time.Hour,
			Messages:     168 * time.Hour,
			Chat:         24 * time.Hour,
			Finished:     2160 * time.Hour,
			IDs:          MinIDs,
			Dead:         720 * time.Hour,
			AIRCMessages: 720 * time.Hour,
		},
		Log:     Log{Level: "info", Format: "text"},
		Metrics: Metrics{Enabled: true},
	}
}

// frame is the reference of the tables in [Config].
//
//go:embed baton.toml
var frame string

// networksMark is the line of the frame that the tables of the networks replace.
const networksMark = "#%networks\n"

// Reference returns the configuration file with every key, its default and its purpose: the frame,
// with the parts of the networks in their order. Repeatable tables are commented out, so that the
// file is valid unchanged.
func Reference(parts ...string) string {
	return strings.Replace(frame, networksMark, strings.Join(parts, "\n"), 1)
}

// MaxSecretBytes bounds a secret file. No password, token or private key is larger, but a database
// or log named by mistake is.
const MaxSecretBytes = 16 << 10

// Secret reads a secret file named by the configuration, like [ReadSecret].
func (f *File) Secret(name string) (string, error) { return ReadSecret(f.Path(name)) }

// ReadSecret reads a file with a secret. Only its owner may have access to it. Trailing line ends
// are removed. The error is one line with the remedy.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read secret: %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("read secret: others may read %s (mode %04o): chmod 600 it", path, mode)
	}
	if info.Size() > MaxSecretBytes {
		return "", fmt.Errorf("read secret: %s is longer than %d bytes", path, MaxSecretBytes)
	}
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("read secret: %s is empty", path)
	}
	return secret, nil
}

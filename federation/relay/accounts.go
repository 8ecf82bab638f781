package relay

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/nats-io/nkeys"

	"github.com/baton-gateway/baton/federation"
)

//go:embed accounts.conf.tmpl
var accountsText string

// Account is a home's account at a hub.
type Account struct {
	Home   federation.HomeID
	Public string // nkey user key: "U..."
}

// NewSeed returns a new nkey seed as one line.
func NewSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make nkey: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("make nkey: %w", err)
	}
	return append(seed, '\n'), nil
}

// PublicOf returns the public key of a seed from [NewSeed].
func PublicOf(seed []byte) (string, error) {
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", fmt.Errorf("read nkey: %w", err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// HubServer is one server of a hub.
type HubServer struct {
	Name string // letters, digits, "-" and "_"; unique among the servers
	Host string // for homes and other servers
	Port int    // for homes; 0 for 4222
}

// ParseHubServer parses NAME=HOST or NAME=HOST:PORT.
func ParseHubServer(text string) (HubServer, error) {
	name, address, ok := strings.Cut(text, "=")
	s := HubServer{Name: name, Host: address}
	if host, port, err := net.SplitHostPort(address); err == nil {
		s.Host = host
		s.Port, err = strconv.Atoi(port)
		ok = ok && err == nil
	}
	if !ok {
		return s, fmt.Errorf("server %q: want NAME=HOST or NAME=HOST:PORT", text)
	}
	return s, nil
}

// Address returns the server's address for homes.
func (s HubServer) Address() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(cmp.Or(s.Port, hubPort)))
}

// RouteOffset is the difference between the ports for homes and for other servers: 4222 and 6222.
const RouteOffset = 2000

func (s HubServer) route() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(cmp.Or(s.Port, hubPort)+RouteOffset))
}

// HubLayout describes the servers of a hub.
type HubLayout struct {
	Servers  []HubServer // of a cluster; empty for one server
	Replicas int         // copies of each stream; 0 for one
	Secret   string      // of a cluster, for connections between its servers
}

func (l HubLayout) servers() ([]HubServer, error) {
	if l.Replicas < 0 || l.Replicas > maxReplicas {
		return nil, fmt.Errorf("want 1 to %d replicas, not %d", maxReplicas, l.Replicas)
	}
	if l.Replicas > max(len(l.Servers), 1) {
		return nil, fmt.Errorf("want %d servers for %d replicas: name each with --cluster NAME=HOST", l.Replicas, l.Replicas)
	}
	if len(l.Servers) == 0 {
		return []HubServer{{Name: hubName}}, nil
	}
	if len(l.Servers) < minCluster {
		return nil, fmt.Errorf("want %d servers at least: with fewer, the hub stops with the first that stops", minCluster)
	}
	if l.Secret == "" {
		return nil, errors.New("want a secret of the cluster")
	}
	seen := map[string]bool{}
	for _, s := range l.Servers {
		if !serverName.MatchString(s.Name) || seen[s.Name] {
			return nil, fmt.Errorf("want names of servers, each once, such as hub-1, not %q", s.Name)
		}
		if seen[s.Name] = true; !serverHost.MatchString(s.Host) || s.Port < 0 || s.Port+RouteOffset > maxPort {
			return nil, fmt.Errorf("want the host of server %s, such as hub-1.example or hub-1.example:4222, not %q", s.Name, s.Host)
		}
	}
	return l.Servers, nil
}

// ServerFile is the configuration file of one server of a hub.
type ServerFile struct {
	Name string
	Text string
}

// WriteAccounts returns the configuration of each NATS server of a hub. Each home has its own account,
// because the hub trusts no home.
//
// A home creates and reads only the streams in its account. Other homes may only publish to the stream
// with their own name as the source. No home can therefore publish as another home, or read or delete
// messages for it.
func WriteAccounts(accounts []Account, layout HubLayout) ([]ServerFile, error) {
	servers, err := layout.servers()
	if err != nil {
		return nil, err
	}
	filled := hubTemplate{
		PayloadBytes: hubPayloadBytes, Consumer: hubConsumer, User: userInfoSubject, ServerInfo: serverInfoSubject,
		RouteUser: routeUser, RouteSecret: layout.Secret,
	}
	if filled.Accounts, err = hubAccounts(accounts, cmp.Or(layout.Replicas, 1)); err != nil {
		return nil, err
	}
	text, err := template.New("accounts").Parse(accountsText)
	if err != nil {
		return nil, fmt.Errorf("write accounts: %w", err)
	}
	var files []ServerFile
	for _, s := range servers {
		filled.Server = hubListener{s.Name, anyHost(cmp.Or(s.Port, hubPort)), anyHost(cmp.Or(s.Port, hubPort) + RouteOffset)}
		filled.Routes = nil
		for _, other := range layout.Servers {
			filled.Routes = append(filled.Routes, other.route())
		}
		var out strings.Builder
		if err := text.Execute(&out, filled); err != nil {
			return nil, fmt.Errorf("write accounts: %w", err)
		}
		files = append(files, ServerFile{s.Name + confSuffix, out.String()})
	}
	return files, nil
}

// An account has space for a full stream from each other home, times the replicas.
func hubAccounts(accounts []Account, replicas int) ([]hubAccount, error) {
	if len(accounts) < 2 {
		return nil, errors.New("want two homes at least")
	}
	var all []hubAccount
	seen := map[string]bool{}
	for _, a := range accounts {
		account := hubAccount{Name: token(a.Home), Home: a.Home, Public: a.Public, MostBytes: (len(accounts) - 1) * hubBytes * replicas}
		if !a.Home.Valid() || seen[account.Name] {
			return nil, fmt.Errorf("want the names of homes, each once, such as a.example, not %q", a.Home)
		}
		seen[account.Name] = true
		for _, other := range accounts {
			if other.Home != a.Home {
				account.Others = append(account.Others, hubOther{
					Name: token(other.Home), In: streamName(a.Home, other.Home),
					From: hubSubject(a.Home, other.Home), To: hubSubject(other.Home, a.Home),
				})
			}
		}
		all = append(all, account)
	}
	return all, nil
}

func anyHost(port int) string { return net.JoinHostPort("0.0.0.0", strconv.Itoa(port)) }

const (
	hubName         = "hub"
	confSuffix      = ".conf"
	hubPort         = 4222
	hubPayloadBytes = maxBatchBytes + 64<<10 // with headers
	routeUser       = "hub"
	minCluster      = 3
	maxReplicas     = 5
	maxPort         = 65535
)

// Server names, hosts and the cluster secret are written to the configuration without escaping.
var (
	serverName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	clusterSecret = regexp.MustCompile(`^[A-Za-z0-9]{16,64}$`)
	serverHost    = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$`)
)

type hubTemplate struct {
	PayloadBytes               int
	Consumer, User, ServerInfo string
	Server                     hubListener
	Routes                     []string // "" for one server
	RouteUser, RouteSecret     string
	Accounts                   []hubAccount
}

type hubListener struct{ Name, Listen, RouteListen string }

type hubAccount struct {
	Name, Public string
	Home         federation.HomeID
	MostBytes    int // over all streams
	Others       []hubOther
}

type hubOther struct {
	Name string
	In   string // stream of messages from it
	From string // subjects of the stream
	To   string // subjects of messages to it
}

// Names of account files.
const (
	HubFile    = hubName + confSuffix // of a hub with one server
	SeedSuffix = ".nk"                // of a home's seed file

	secretFile = "cluster.secret" // shared by the servers of a hub
)

// AccountFile is a home's seed file.
type AccountFile struct {
	Home   federation.HomeID `json:"name"`
	Public string            `json:"public_key"`
	Seed   string            `json:"seed_file"`
	Made   bool              `json:"made"` // created by this call
}

// AccountFiles are the files of a hub.
type AccountFiles struct {
	Server   string        `json:"configuration"`  // of the first server
	Servers  []string      `json:"configurations"` // of each server
	Accounts []AccountFile `json:"accounts"`
}

// NamesError is returned for invalid or too few home names.
type NamesError struct{ Err error }

func (e *NamesError) Error() string { return e.Err.Error() }

func (e *NamesError) Unwrap() error { return e.Err }

// SaveAccounts writes the configuration of each hub server and an nkey seed for each home into a folder.
// The operator sends a seed only to its home. Existing seeds and the servers' secret are kept.
// For invalid names or an impossible layout, it writes nothing and returns a [*NamesError].
func SaveAccounts(dir string, names []string, layout HubLayout) (AccountFiles, error) {
	files := AccountFiles{Accounts: []AccountFile{}}
	accounts := make([]Account, len(names))
	for i, name := range names {
		accounts[i].Home = federation.HomeID(name)
	}
	layout.Secret = "none yet"
	if _, err := WriteAccounts(accounts, layout); err != nil { // before a name is used as a file name
		return files, &NamesError{err}
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && len(layout.Servers) > 0 {
		layout.Secret, err = saveSecret(filepath.Join(dir, secretFile))
	}
	if err != nil {
		return files, err
	}
	for i, a := range accounts {
		file, err := saveSeed(dir, a.Home)
		if err != nil {
			return files, err
		}
		files.Accounts, accounts[i].Public = append(files.Accounts, file), file.Public
	}
	servers, err := WriteAccounts(accounts, layout)
	if err != nil {
		return files, err
	}
	for _, each := range servers {
		path := filepath.Join(dir, each.Name)
		if err := os.WriteFile(path, []byte(each.Text), 0o600); err != nil {
			return files, err
		}
		files.Servers = append(files.Servers, path)
	}
	files.Server = files.Servers[0]
	return files, nil
}

// Instructions describes the use of each file, and the hub settings of the homes.
func (f AccountFiles) Instructions(layout HubLayout) string {
	var text strings.Builder
	for _, file := range f.Servers {
		fmt.Fprintf(&text, "%s: for the server\n", file)
	}
	for _, a := range f.Accounts {
		kept := ""
		if !a.Made {
			kept = ", as it was"
		}
		fmt.Fprintf(&text, "%s: for %s alone%s\n", a.Seed, a.Home, kept)
	}
	urls := []string{`"tls://HUB:4222"`}
	for i, server := range layout.Servers {
		urls = append(urls[:i], strconv.Quote("tls://"+server.Address()))
	}
	fmt.Fprintf(&text, "Each home has in its configuration:\n\n[relay.hub]\nurls = [%s]\nnkey_file = \"NAME%s\"\n", strings.Join(urls, ", "), SeedSuffix)
	if layout.Replicas > 1 {
		fmt.Fprintf(&text, "replicas = %d\n", layout.Replicas)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func saveSecret(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the folder
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text() + "\n")
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if !clusterSecret.MatchString(secret) {
		return "", fmt.Errorf("%s: want 16 letters and digits or more; delete the file, and the next run makes another one", path)
	}
	return secret, nil
}

func saveSeed(dir string, home federation.HomeID) (AccountFile, error) {
	file := AccountFile{Home: home, Seed: filepath.Join(dir, string(home)+SeedSuffix)}
	seed, err := os.ReadFile(file.Seed)
	if errors.Is(err, fs.ErrNotExist) {
		if seed, err = NewSeed(); err == nil {
			file.Made, err = true, os.WriteFile(file.Seed, seed, 0o600)
		}
	}
	if err != nil {
		return file, err
	}
	if file.Public, err = PublicOf(seed); err != nil {
		return file, fmt.Errorf("%s: %w", file.Seed, err)
	}
	return file, nil
}

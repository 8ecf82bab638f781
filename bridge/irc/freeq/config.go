package freeq

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Transport carries a link's byte stream.
type Transport string

// The transports. Only exec authenticates the peer.
const (
	Exec Transport = "exec" // child process with the stream on stdin and stdout
	TCP  Transport = "tcp"
	Unix Transport = "unix"
)

// Config is one [[irc.freeq]] table.
type Config struct {
	Name          string    `toml:"name"`           // unique among all links; label in logs and metrics
	ServerName    string    `toml:"server_name"`    // receipts are signed by did:web:<server_name>
	EndpointID    string    `toml:"endpoint_id"`    // of the server: 64 lower-case hex characters
	PeerAPI       string    `toml:"peer_api"`       // serves the server's signing keys
	Transport     Transport `toml:"transport"`      // exec, tcp or unix
	Address       string    `toml:"address"`        // to dial: "ip:port" or ticket of the endpoint, "host:port", or a path
	Listen        string    `toml:"listen"`         // to be dialled, instead or as well: "ip:port" or a path
	DialCommand   []string  `toml:"dial_command"`   // for exec; {ticket} is built from endpoint_id and address
	ListenCommand []string  `toml:"listen_command"` // for exec; {listen} is replaced by listen
	Channels      []string  `toml:"channels"`       // linked channels, see [irc.ParseChannels]; the first is the default for offers
	RelayChat     []string  `toml:"relay_chat"`     // channels whose text is exchanged with other links that list them
	Formatting    bool      `toml:"formatting"`     // text keeps formatting codes, in both directions
	History       bool      `toml:"history"`        // the listener's history includes text of this link
	NickSuffix    string    `toml:"nick_suffix"`    // for nicks of users from other networks
	Summaries     bool      `toml:"summaries"`      // a readable PRIVMSG for each step
}

// DefaultConfig returns the defaults of the table. Empty keys are required, except address and
// listen. Without both, the transport exec finds the other endpoint by its ID.
func DefaultConfig() Config {
	return Config{
		Formatting:    true,
		History:       true,
		Transport:     Exec,
		DialCommand:   []string{"dumbpipe", "connect", "--custom-alpn", "utf8:freeq/s2s/1", ticketMark},
		ListenCommand: []string{"dumbpipe", "listen", "--ipv4-addr", listenMark, "--custom-alpn", "utf8:freeq/s2s/1"},
		NickSuffix:    "-gw",
		Summaries:     true,
	}
}

const (
	ticketMark = "{ticket}"
	listenMark = "{listen}"
)

// spec: freeq-s2s "join"
const maxChannelBytes = 200

func (c Config) check() error {
	var errs []error
	wrong := func(key, why string) { errs = append(errs, &bridge.KeyError{Key: key, Why: why}) }
	if c.Name == "" {
		wrong("name", "is required")
	}
	if !validServerName(c.ServerName) {
		wrong("server_name", `want the name of the other server, as in "irc.example"`)
	}
	if _, err := parseEndpointID(c.EndpointID); err != nil {
		wrong("endpoint_id", "want the id of the other server, 64 lower-case hexadecimal digits")
	}
	if federation.CheckBaseURL(c.PeerAPI) != nil || strings.HasSuffix(c.PeerAPI, "/") {
		wrong("peer_api", `want the address of its web API, as in "https://irc.example"`)
	}
	if !irc.ValidNickSuffix(c.NickSuffix) {
		wrong("nick_suffix", "has characters that are not allowed in an IRC nick")
	}
	if channels, err := irc.ParseChannels(c.Channels, maxChannelBytes); err != nil {
		wrong("channels", err.Error())
	} else if _, err := channels.Relayed(c.RelayChat); err != nil {
		wrong("relay_chat", err.Error())
	}
	if err := c.checkTransport(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Config) dials() bool { return c.Address != "" || c.Listen == "" }

func (c Config) checkTransport() error {
	wrong := func(key, why string) error { return &bridge.KeyError{Key: key, Why: why} }
	switch {
	case c.Transport == Exec:
		return c.checkExec()
	case c.Transport != TCP && c.Transport != Unix:
		return wrong("transport", fmt.Sprintf("want %q, %q or %q", Exec, TCP, Unix))
	case c.Address == "" && c.Listen == "":
		return wrong("address", "want address, to dial, or listen, to be dialled, or both")
	case c.Transport == TCP && c.Address != "" && !irc.ValidAddress(c.Address):
		return wrong("address", `want "host:port"`)
	case c.Transport == TCP && c.Listen != "" && !irc.ValidListen(c.Listen):
		return wrong("listen", `want "host:port"`)
	}
	return nil
}

func (c Config) checkExec() error {
	wrong := func(key, why string) error { return &bridge.KeyError{Key: key, Why: why} }
	switch {
	case len(c.DialCommand) == 0 || c.DialCommand[0] == "":
		return wrong("dial_command", "want a program and its arguments")
	case len(c.ListenCommand) == 0 || c.ListenCommand[0] == "":
		return wrong("listen_command", "want a program and its arguments")
	}
	if t, err := parseTicket(c.Address); err == nil {
		if identity.EndpointID(t.endpoint) != c.EndpointID {
			return wrong("address", "belongs to another endpoint than endpoint_id")
		}
	} else if c.Address != "" && !numeric(c.Address) {
		return wrong("address", `want "ip:port" of an endpoint, or its ticket`)
	}
	if c.Listen != "" && !numeric(c.Listen) {
		return wrong("listen", `want "ip:port"`)
	}
	return nil
}

func (c Config) ticket() ticket {
	if t, err := parseTicket(c.Address); err == nil {
		return t
	}
	endpoint, _ := parseEndpointID(c.EndpointID) // already checked
	t := ticket{endpoint: endpoint}
	if at, err := netip.ParseAddrPort(c.Address); err == nil {
		t.direct = append(t.direct, at)
	}
	return t
}

// The program does not resolve names.
func numeric(address string) bool {
	_, err := netip.ParseAddrPort(address)
	return err == nil
}

// validServerName requires a dot, because the name becomes the server's DID.
func validServerName(s string) bool {
	return strings.Contains(s, ".") && s == strings.Trim(s, ".") && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""
}

//go:embed reference.toml
var referenceFile string

// Network describes freeq servers. The function endpoint returns this gateway's key for freeq, and
// its seed in hexadecimal. It is nil if a configuration is only checked.
func Network(deps Deps, endpoint func() (key federation.SigningKey, seed string, err error)) bridge.Network {
	return bridge.Network{
		Name: network, Table: "irc.freeq", Many: true, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if endpoint != nil {
				var err error
				if deps.Endpoint, deps.Seed, err = endpoint(); err != nil {
					return nil, err
				}
			}
			deps.Ports = p
			return Open(cfg, deps)
		},
	}
}

// Deps contains the dependencies of a link to a freeq server.
type Deps struct {
	bridge.Ports

	Record *registry.Record
	// Given returns up to limit deliveries of a link made at or after a given time, in order. It
	// blocks on the record.
	Given   func(ctx context.Context, link string, since time.Time, limit int) ([]federation.CompletedDelivery, error)
	Rulings Rulings
	// Fetch reads an address of the server's web API. Its error wraps [federation.ErrNotFound] for a
	// missing resource, or [*federation.UnavailableError] if a retry may help.
	Fetch func(ctx context.Context, address string) ([]byte, error)
	// Endpoint is this gateway's key for freeq.
	Endpoint federation.SigningKey
	// Seed is the seed of Endpoint in hexadecimal, for the transport program.
	Seed string
}

// Rulings is the port to the home of this gateway. Methods with a context block on the record.
type Rulings interface {
	// Moves reports whether a verb changes the state of a handoff.
	Moves(v federation.View, verb federation.Verb) bool
	// Role returns the role that may send a verb, or "" for an unknown verb.
	Role(v federation.View, verb federation.Verb) federation.Role
	// Receipt returns the receipt of a filed step. It is deterministic.
	Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error)
	// Settle completes the effects of filed rulings for a handoff, in case of an earlier crash.
	Settle(ctx context.Context, id federation.HandoffID, now time.Time) error
	// RejectPending refuses a waiting step and notifies its signer.
	RejectPending(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error
	// Ours reports whether a DID belongs to a participant of this gateway other than on a link.
	Ours(ctx context.Context, did federation.DID, link string) (bool, error)
	// Endpoint returns the endpoint ID of a home's freeq server, or "" without a link to it. It
	// does not block.
	Endpoint(home federation.HomeID) string
}

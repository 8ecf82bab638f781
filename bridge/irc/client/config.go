package client

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Config is the [irc.client] table.
type Config struct {
	Listen              string             `toml:"listen"`               // host:port without TLS; "" for none
	TLSListen           string             `toml:"tls_listen"`           // host:port with TLS; "" for none
	WebSocket           bool               `toml:"websocket"`            // also over WebSocket, at [Path] on the HTTP listener
	Network             string             `toml:"network"`              // NETWORK= in 005
	Channels            []string           `toml:"channels"`             // shared with links that list them; the first is the default for offers
	RelayChat           []string           `toml:"relay_chat"`           // channels whose text is exchanged with links that list them
	Formatting          bool               `toml:"formatting"`           // text keeps formatting codes, in both directions
	History             bool               `toml:"history"`              // text is stored, and CHATHISTORY is offered
	ReplayOnJoin        int                `toml:"replay_on_join"`       // number of lines for a joining client without CHATHISTORY
	AccountRegistration bool               `toml:"account_registration"` // strangers may register an account
	Dialect             federation.Dialect `toml:"dialect"`              // dialect of offers from networks without tags
	MaxClients          int                `toml:"max_clients"`          // concurrent connections
	RegistrationTimeout time.Duration      `toml:"registration_timeout"` // time from connection to welcome, including TLS
	PingInterval        time.Duration      `toml:"ping_interval"`        // silence before a PING, and time to answer it
	SendQueueBytes      int                `toml:"send_queue_bytes"`     // queue limit per client; slower readers are disconnected
}

// DefaultConfig returns the defaults of the table. No listener is open by default.
func DefaultConfig() Config {
	return Config{
		Network: "Baton", Channels: []string{"#ops"}, Formatting: true, History: true, Dialect: federation.HandoffTags, MaxClients: 10000,
		RegistrationTimeout: 30 * time.Second, PingInterval: time.Minute, SendQueueBytes: 1 << 20,
	}
}

// Enabled reports whether the configuration admits any client.
func (c Config) Enabled() bool { return c.Listen != "" || c.TLSListen != "" || c.WebSocket }

// Path is the path of the WebSocket, below the gateway's public address.
const Path = "/irc"

const (
	leastQueueBytes = 64 << 10 // a few steps
	leastTime       = time.Second
)

func (c Config) check(secure, web bool) error {
	var errs []error
	wrong := func(key, why string) { errs = append(errs, &bridge.KeyError{Key: key, Why: why}) }
	for key, address := range map[string]string{"listen": c.Listen, "tls_listen": c.TLSListen} {
		if address != "" && !irc.ValidListen(address) && !strings.HasSuffix(address, ":0") {
			wrong(key, `want "host:port" or ":port" of this machine`)
		}
	}
	if c.TLSListen != "" && !secure {
		wrong("tls_listen", "needs a certificate of this gateway: see [tls]")
	}
	if c.WebSocket && !web {
		wrong("websocket", "needs http.listen")
	}
	if c.Network == "" || len(c.Network) > maxNetworkBytes || strings.ContainsFunc(c.Network, notInToken) {
		wrong("network", fmt.Sprintf("want 1 to %d characters without space", maxNetworkBytes))
	}
	if c.Dialect != federation.HandoffTags && c.Dialect != federation.ActTags {
		wrong("dialect", fmt.Sprintf("want %q or %q", federation.HandoffTags, federation.ActTags))
	}
	if c.MaxClients < 1 {
		wrong("max_clients", "want at least 1")
	}
	if c.RegistrationTimeout < leastTime {
		wrong("registration_timeout", "want at least "+leastTime.String())
	}
	if c.PingInterval < leastTime {
		wrong("ping_interval", "want at least "+leastTime.String())
	}
	if c.SendQueueBytes < leastQueueBytes {
		wrong("send_queue_bytes", "want at least "+strconv.Itoa(leastQueueBytes))
	}
	if c.ReplayOnJoin < 0 || c.ReplayOnJoin > maxHistory || c.ReplayOnJoin > 0 && !c.History {
		wrong("replay_on_join", fmt.Sprintf("want 0 to %d, and 0 without history", maxHistory))
	}
	if err := checkChannels(c.Channels); err != nil {
		wrong("channels", err.Error())
	} else if _, err := irc.Relayed(c.RelayChat, venues(c.Channels)); err != nil {
		wrong("relay_chat", err.Error())
	}
	return errors.Join(errs...)
}

// The network name is part of a 005 token.
const maxNetworkBytes = 32

func notInToken(r rune) bool {
	return r <= ' ' || r > unicode.MaxASCII || r == '='
}

func checkChannels(names []string) error {
	if len(names) == 0 {
		return errors.New(`want at least one, as in ["#ops"]`)
	}
	var venues []string
	for _, name := range names {
		venue, ok := channelName(name)
		switch {
		case !ok:
			return fmt.Errorf("%q is no channel: want \"#\" and up to %d bytes without space, comma or capital letters outside of ASCII", name, maxChannelBytes-1)
		case slices.Contains(venues, venue):
			return fmt.Errorf("%q is listed twice", name)
		}
		venues = append(venues, venue)
	}
	return nil
}

func venues(names []string) []string {
	var all []string
	for _, name := range names {
		venue, _ := channelName(name)
		all = append(all, venue)
	}
	return all
}

// channelName returns a channel as a venue. A name is valid only if the casemappings of clients and
// venues agree on it.
func channelName(name string) (venue string, ok bool) {
	venue, ok = translate.Channel(name)
	ok = ok && len(name) > 1 && len(name) <= maxChannelBytes && venue == fold(name) && !strings.ContainsFunc(name, unicode.IsControl)
	return venue, ok
}

// spec: isupport "CASEMAPPING", ascii
func fold(name string) string {
	folded := []byte(name)
	for i, c := range folded {
		if 'A' <= c && c <= 'Z' {
			folded[i] = c + 'a' - 'A'
		}
	}
	return string(folded)
}

//go:embed reference.toml
var referenceFile string

// Network describes the server for IRC clients. Its link gets its own ports instead of those in deps.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "irc.client", Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if !cfg.Enabled() {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(cfg, deps)
		},
	}
}

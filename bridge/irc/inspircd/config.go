package inspircd

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Config is one [[irc.spanningtree]] table.
type Config struct {
	Name               string             `toml:"name"`                // unique among all links; label in logs and metrics
	ServerName         string             `toml:"server_name"`         // of the peer
	Address            string             `toml:"address"`             // host:port to dial the peer, or
	Listen             string             `toml:"listen"`              // host:port at which the peer dials
	SID                string             `toml:"sid"`                 // our server ID, unique on that network
	SendPasswordFile   string             `toml:"send_password_file"`  // our password, the peer's recvpass
	RecvPasswordFile   string             `toml:"recv_password_file"`  // the peer's password, its sendpass
	PlaintextPasswords bool               `toml:"plaintext_passwords"` // for a peer without CHALLENGE
	TLS                bool               `toml:"tls"`                 // from the first byte
	TLSFingerprint     string             `toml:"tls_fingerprint"`     // hex SHA-256 of the peer's certificate
	Channels           []string           `toml:"channels"`            // linked channels, see [irc.ParseChannels]; the first is the default for offers
	RelayChat          []string           `toml:"relay_chat"`          // channels whose text is exchanged with other links that list them
	Formatting         bool               `toml:"formatting"`          // text keeps formatting codes, in both directions
	History            bool               `toml:"history"`             // the listener's history includes text of this link
	Dialect            federation.Dialect `toml:"dialect"`             // dialect of offers from networks without tags
	Nick               string             `toml:"nick"`                // of the gateway's own user
	NickSuffix         string             `toml:"nick_suffix"`         // for nicks of agents
	Summaries          bool               `toml:"summaries"`           // a readable NOTICE for each step
}

// DefaultConfig returns the defaults of the table. Empty keys are required, except nick_suffix, one
// of address and listen, and tls_fingerprint without tls.
func DefaultConfig() Config {
	return Config{Formatting: true, History: true, Dialect: federation.HandoffTags, Nick: "Baton", Summaries: true}
}

// InspIRCd has the same default.
const maxChannelBytes = 64

func (c Config) check() error {
	var errs []error
	wrong := func(key, why string) { errs = append(errs, &bridge.KeyError{Key: key, Why: why}) }
	required := func(key, value string) {
		if value == "" {
			wrong(key, "is required")
		}
	}
	required("name", c.Name)
	required("send_password_file", c.SendPasswordFile)
	required("recv_password_file", c.RecvPasswordFile)
	if !validServerName(c.ServerName) {
		wrong("server_name", `want the name of the other server, as in "irc.example"`)
	}
	switch {
	case (c.Address == "") == (c.Listen == ""):
		wrong("address", "want exactly one of address, to dial, and listen, to be dialled")
	case c.Address != "" && !irc.ValidAddress(c.Address):
		wrong("address", `want "host:port" of the other server`)
	case c.Listen != "" && !irc.ValidListen(c.Listen):
		wrong("listen", `want "host:port" or ":port" of this machine`)
	}
	if !validSID(c.SID) {
		wrong("sid", `want a digit and two more digits or upper-case letters, as in "9GW"`)
	}
	if c.Dialect != federation.HandoffTags && c.Dialect != federation.ActTags {
		wrong("dialect", fmt.Sprintf("want %q or %q", federation.HandoffTags, federation.ActTags))
	}
	if !irc.ValidNick(c.Nick) {
		wrong("nick", "is not an IRC nick")
	}
	if !irc.ValidNickSuffix(c.NickSuffix) {
		wrong("nick_suffix", "has characters that are not allowed in an IRC nick")
	}
	if channels, err := irc.ParseChannels(c.Channels, maxChannelBytes); err != nil {
		wrong("channels", err.Error())
	} else if _, err := channels.Relayed(c.RelayChat); err != nil {
		wrong("relay_chat", err.Error())
	}
	return errors.Join(errs...)
}

// InspIRCd requires host name characters with at least one dot.
func validServerName(s string) bool {
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '-'
	}
	return strings.Contains(s, ".") && !strings.HasPrefix(s, ".") && !strings.ContainsFunc(s, odd)
}

func validSID(s string) bool {
	return len(s) == sidBytes && isDigit(s[0]) && isServerID(s[1]) && isServerID(s[2])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isServerID(c byte) bool { return isDigit(c) || 'A' <= c && c <= 'Z' }

type passwords struct {
	send, recv string
}

func readPasswords(c Config, secrets bridge.Secrets) (passwords, error) {
	send, sendErr := readPassword("send_password_file", c.SendPasswordFile, secrets)
	recv, recvErr := readPassword("recv_password_file", c.RecvPasswordFile, secrets)
	return passwords{send: send, recv: recv}, errors.Join(sendErr, recvErr)
}

func readPassword(key, file string, secrets bridge.Secrets) (string, error) {
	if file == "" {
		return "", nil // already reported as a required key
	}
	password, err := secrets.Secret(file)
	switch {
	case err != nil:
		return "", &bridge.KeyError{Key: key, Why: err.Error()}
	case password == "" || strings.HasPrefix(password, ":") || strings.ContainsFunc(password, notInPassword):
		return "", &bridge.KeyError{Key: key, Why: "want a password without spaces and without a leading colon"}
	}
	return password, nil
}

func notInPassword(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

//go:embed reference.toml
var referenceFile string

// Network describes InspIRCd networks. Their users list and find handoffs by command.
func Network(record *registry.Record) bridge.Network {
	return bridge.Network{
		Name: network, Table: "irc.spanningtree", Many: true, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg := DefaultConfig()
			t.Decode(&cfg)
			return Open(cfg, Deps{Ports: p, Record: record})
		},
	}
}

// The versions differ in the lines of this file, and in the names of limits and modules, whose sets
// do not overlap.
//
// spec: InspIRCd spanning tree 1205, 1206
type version int

const (
	version1205 version = 1205 // InspIRCd 3, also accepted by 4
	version1206 version = 1206 // InspIRCd 4, also accepted by 5
)

// choose returns the newest common version. A peer relies on the version in the response. It strips
// all tags of a server that announces one version and then uses another.
func choose(announced string) (version, error) {
	theirs, err := strconv.Atoi(announced)
	if err != nil || version(theirs) < version1205 {
		return 0, fmt.Errorf("the peer speaks protocol %q, want %d or newer: upgrade it", announced, version1205)
	}
	return min(version(theirs), version1206), nil
}

func (v version) hello(name, password, sid string) string {
	if v == version1205 {
		sid = "0 " + sid // number of servers in between
	}
	return fmt.Sprintf("SERVER %s %s %s :Baton", name, password, sid)
}

func (v version) readHello(params []string) (name, password, sid string, ok bool) {
	at := 2
	if v == version1205 {
		at = 3
	}
	if len(params) < at+1 {
		return "", "", "", false
	}
	return params[0], params[1], params[at], true
}

func (v version) software(home string) [][2]string {
	if v == version1205 {
		return [][2]string{{"version", "Baton. " + home + " :"}, {"rawversion", "Baton"}}
	}
	return [][2]string{{"customversion", ""}, {"rawbranch", "Baton"}, {"rawversion", "Baton"}}
}

// From 1206 on, a UID has the shown user name after the real one.
func (v version) idents(ident string) string {
	if v == version1205 {
		return ident
	}
	return ident + " " + ident
}

func (v version) uidParams() int {
	if v == version1205 {
		return 10
	}
	return 11
}

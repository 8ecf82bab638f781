package inspircd_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// keysOf returns the keys of all KeyErrors in an error.
func keysOf(err error) []string {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var keys []string
		for _, each := range many.Unwrap() {
			keys = append(keys, keysOf(each)...)
		}
		return keys
	}
	if wrong, ok := errors.AsType[*bridge.KeyError](err); ok {
		return []string{wrong.Key}
	}
	return []string{fmt.Sprintf("%v", err)}
}

func TestOpenChecksTheTable(t *testing.T) {
	tests := []struct {
		name  string
		tweak func(*inspircd.Config)
		want  []string
	}{
		{"takes a table with all that is required", func(*inspircd.Config) {}, nil},
		{"names every key of an empty table", func(c *inspircd.Config) { *c = inspircd.DefaultConfig() }, []string{
			"name", "send_password_file", "recv_password_file", "server_name", "address", "sid", "channels",
		}},
		{"wants a server name with a dot", func(c *inspircd.Config) { c.ServerName = "irc" }, []string{"server_name"}},
		{"wants a port", func(c *inspircd.Config) { c.Address = "irc.example" }, []string{"address"}},
		{"wants a port that exists", func(c *inspircd.Config) { c.Address = "irc.example:70000" }, []string{"address"}},
		{"takes a port of its own", func(c *inspircd.Config) { c.Address, c.Listen = "", "127.0.0.1:7000" }, nil},
		{"takes a port on all addresses", func(c *inspircd.Config) { c.Address, c.Listen = "", ":7000" }, nil},
		{"wants a port of its own that exists", func(c *inspircd.Config) { c.Address, c.Listen = "", "127.0.0.1" }, []string{"listen"}},
		{"does not dial and listen", func(c *inspircd.Config) { c.Listen = "127.0.0.1:7001" }, []string{"address"}},
		{"wants a dialect that there is", func(c *inspircd.Config) { c.Dialect = "irc" }, []string{"dialect"}},
		{"wants a certificate for TLS", func(c *inspircd.Config) { c.TLS, c.TLSFingerprint = true, strings.Repeat("ab", 32) }, []string{"tls"}},
		{"wants to know theirs for TLS", func(c *inspircd.Config) { c.TLS = true }, []string{"tls_fingerprint"}},
		{"wants a fingerprint in lower case", func(c *inspircd.Config) { c.TLS, c.TLSFingerprint = true, strings.Repeat("AB", 32) }, []string{"tls_fingerprint"}},
		{"pins nothing without TLS", func(c *inspircd.Config) { c.TLSFingerprint = strings.Repeat("ab", 32) }, []string{"tls_fingerprint"}},
		{"wants a SID that starts with a digit", func(c *inspircd.Config) { c.SID = "GW9" }, []string{"sid"}},
		{"wants a SID in upper case", func(c *inspircd.Config) { c.SID = "9gw" }, []string{"sid"}},
		{"wants channels", func(c *inspircd.Config) { c.Channels = nil }, []string{"channels"}},
		{"wants channels with a #", func(c *inspircd.Config) { c.Channels = []string{"ops"} }, []string{"channels"}},
		{"wants channels with a name", func(c *inspircd.Config) { c.Channels = []string{"#"} }, []string{"channels"}},
		{"relays channels of the link", func(c *inspircd.Config) { c.RelayChat = []string{"#elsewhere"} }, []string{"relay_chat"}},
		{"takes a channel once in any case", func(c *inspircd.Config) { c.Channels = []string{"#ops", "#OPS"} }, []string{"channels"}},
		{"wants a nick", func(c *inspircd.Config) { c.Nick = "1st" }, []string{"nick"}},
		{"wants a suffix that a nick may end in", func(c *inspircd.Config) { c.NickSuffix = "!gw" }, []string{"nick_suffix"}},
		{"wants files of secrets that are there", func(c *inspircd.Config) { c.SendPasswordFile = "x" }, []string{"send_password_file"}},
		{"wants a password without a space", func(c *inspircd.Config) { c.RecvPasswordFile = "spaced" }, []string{"recv_password_file"}},
		{"wants a password without a leading colon", func(c *inspircd.Config) { c.RecvPasswordFile = "colon" }, []string{"recv_password_file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig("127.0.0.1:7000")
			tt.tweak(&cfg)
			_, err := inspircd.Open(cfg, inspircd.Deps{Ports: bridge.Ports{Home: home, Log: slog.New(slog.DiscardHandler), Secrets: secrets()}})
			if diff := cmp.Diff(tt.want, keysOf(err)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

package freeq_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
)

// goodConfig returns a complete table.
func goodConfig() freeq.Config {
	c := freeq.DefaultConfig()
	c.Name, c.ServerName, c.EndpointID = linkName, "irc.freeq.example", hexOf("theirs")
	c.PeerAPI, c.Channels = "https://irc.freeq.example", []string{"#ops"}
	return c
}

func TestOpenNamesTheKeysOfMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*freeq.Config)
		key    string
	}{
		"no name":                    {func(c *freeq.Config) { c.Name = "" }, "name"},
		"no server":                  {func(c *freeq.Config) { c.ServerName = "" }, "server_name"},
		"a server in capitals":       {func(c *freeq.Config) { c.ServerName = "IRC.example" }, "server_name"},
		"a short endpoint id":        {func(c *freeq.Config) { c.EndpointID = "abc" }, "endpoint_id"},
		"an endpoint id in capitals": {func(c *freeq.Config) { c.EndpointID = "AA" + c.EndpointID[2:] }, "endpoint_id"},
		"an API without a scheme":    {func(c *freeq.Config) { c.PeerAPI = "irc.example" }, "peer_api"},
		"an API with a last slash":   {func(c *freeq.Config) { c.PeerAPI += "/" }, "peer_api"},
		"no channels":                {func(c *freeq.Config) { c.Channels = nil }, "channels"},
		"a relayed channel of none":  {func(c *freeq.Config) { c.RelayChat = []string{"#elsewhere"} }, "relay_chat"},
		"a channel twice":            {func(c *freeq.Config) { c.Channels = []string{"#a", "#A"} }, "channels"},
		"a channel without its mark": {func(c *freeq.Config) { c.Channels = []string{"ops"} }, "channels"},
		"a suffix that no nick has":  {func(c *freeq.Config) { c.NickSuffix = "@gw" }, "nick_suffix"},
		"no such transport":          {func(c *freeq.Config) { c.Transport = "quic" }, "transport"},
		"a program without an ip":    {func(c *freeq.Config) { c.Address = "irc.example:4433" }, "address"},
		"no program":                 {func(c *freeq.Config) { c.DialCommand = nil }, "dial_command"},
		"no program to listen":       {func(c *freeq.Config) { c.ListenCommand = []string{""} }, "listen_command"},
		"a socket to nowhere":        {func(c *freeq.Config) { c.Transport = freeq.TCP }, "address"},
		"a socket without a port":    {func(c *freeq.Config) { c.Transport, c.Address = freeq.TCP, "irc.example" }, "address"},
		"the gateway's own id":       {func(c *freeq.Config) { c.EndpointID = hexOf("our endpoint") }, "endpoint_id"},
		"belongs to another":         {func(c *freeq.Config) { c.Address = freeq.Ticket(hexOf("somebody"), nil, nil) }, "address"},
		"a port of no program":       {func(c *freeq.Config) { c.Address, c.Listen = "127.0.0.1:1", "localhost" }, "listen"},
		"nowhere to be dialled":      {func(c *freeq.Config) { c.Transport, c.Address, c.Listen = freeq.TCP, "irc.example:1", "here" }, "listen"},
	} {
		t.Run(name, func(t *testing.T) {
			c := goodConfig()
			test.change(&c)
			_, err := freeq.Open(c, freeq.Deps{Ports: bridge.Ports{Log: slog.New(slog.DiscardHandler)}, Endpoint: signer("", seeded("our endpoint"))})
			if mistake, ok := errors.AsType[*bridge.KeyError](err); !ok || mistake.Key != test.key {
				t.Errorf("%v, want a mistake in %s", err, test.key)
			}
		})
	}
}

func TestOpenAcceptsAGoodTable(t *testing.T) {
	for name, change := range map[string]func(*freeq.Config){
		"dialled by a program":          func(c *freeq.Config) { c.Address = "192.0.2.7:4433" },
		"dialled by a program, by id":   func(*freeq.Config) {},
		"listened for by a program":     func(c *freeq.Config) { c.Listen = "[::1]:4433" },
		"a socket":                      func(c *freeq.Config) { c.Transport, c.Address = freeq.TCP, "irc.example:4433" },
		"both ways by a program":        func(c *freeq.Config) { c.Address, c.Listen = "192.0.2.7:4433", "0.0.0.0:4433" },
		"both ways by a socket":         func(c *freeq.Config) { c.Transport, c.Address, c.Listen = freeq.Unix, "/run/freeq", "/run/gw" },
		"a socket that is listened for": func(c *freeq.Config) { c.Transport, c.Listen = freeq.Unix, "/run/freeq" },
	} {
		t.Run(name, func(t *testing.T) {
			c := goodConfig()
			change(&c)
			if _, err := freeq.Open(c, freeq.Deps{Ports: bridge.Ports{Log: slog.New(slog.DiscardHandler)}}); err != nil {
				t.Error(err)
			}
		})
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/bridge/conform/airc"
	"github.com/baton-gateway/baton/bridge/conform/irc"
	"github.com/baton-gateway/baton/bridge/conform/rest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type conformCommand struct {
	URL     string `arg:"" help:"URL of the server: irc://HOST:PORT, ircs://, ws:// or wss:// for irc; http:// or https:// for rest and airc." name:"url"`
	Suite   string `enum:"irc,rest,airc" help:"Suite to run: irc, rest or airc." required:""`
	KeyFile string `help:"File with the Ed25519 seed of the offering DID or the sending agent, 64 hexadecimal characters. Default: a new key for each case." name:"key-file" placeholder:"FILE"`
}

// Help shows examples.
func (conformCommand) Help() string {
	return "Examples:\n\n\tbaton conform irc://127.0.0.1:6667 --suite irc\n\tbaton conform http://127.0.0.1:8080 --suite rest\n\tbaton conform https://registry.example --suite airc\n"
}

// Run ends with a refusal if a case failed.
func (v conformCommand) Run(ctx context.Context, c *cli, streams std) error {
	key := func(string) (federation.SigningKey, error) { return identity.NewPerson(), nil }
	if v.KeyFile != "" {
		given, err := identity.ReadSeed(v.KeyFile)
		if err != nil {
			return err
		}
		key = func(name string) (federation.SigningKey, error) {
			if name == irc.Offerer || name == rest.Offerer || name == airc.Sender {
				return given, nil
			}
			return identity.NewPerson(), nil
		}
	}
	results, err := v.run(ctx, key, func(r conform.Result) {
		if !c.JSON {
			fmt.Fprintln(streams.out, render.Printable(r.String()))
		}
	})
	if err != nil {
		return err
	}
	if c.JSON {
		page := conformPage{Totals: conform.Count(results)}
		for _, r := range results {
			page.Items = append(page.Items, r.Item())
		}
		err = printJSON(streams, page)
	} else {
		_, err = fmt.Fprintln(streams.out, conform.Count(results))
	}
	if err != nil {
		return err
	}
	return conform.Failed(results)
}

type conformPage struct {
	admin.Page[conform.Item]

	Totals conform.Totals `json:"totals"`
}

func (v conformCommand) run(
	ctx context.Context, key func(name string) (federation.SigningKey, error), tell func(conform.Result),
) ([]conform.Result, error) {
	switch v.Suite {
	case "irc":
		return irc.Run(ctx, irc.Config{URL: v.URL, Key: key}, tell)
	case "airc":
		return airc.Run(ctx, airc.Config{URL: v.URL, Key: key}, tell)
	}
	return rest.Run(ctx, rest.Config{URL: v.URL, Key: key}, tell)
}

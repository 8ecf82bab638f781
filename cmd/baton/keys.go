package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation/identity"
)

type keysCommands struct {
	List   keysList   `cmd:"" example:"keys list" help:"List the keys, including rotated ones."`
	Create keysCreate `cmd:"" help:"Create a key, and print its public part."`
	Show   keysShow   `cmd:"" example:"keys show endpoint" help:"Print the public part of a key."`
	Rotate keysRotate `cmd:"" example:"keys rotate server --overlap 48h" help:"Replace a key now; the old key stays valid for an overlap."`
}

type keysList struct{}

// Run prints a table, or with --json a list.
func (keysList) Run(ctx context.Context, c *cli, streams std) error {
	file, err := c.keysConfig()
	if err != nil {
		return err
	}
	keys, err := server.KeyFolder(file).List(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	page := admin.Page[admin.Key]{Items: []admin.Key{}}
	for _, key := range keys {
		page.Items = append(page.Items, server.ShowKey(key, file, now))
	}
	return printDocument(c, streams, page, func(out io.Writer, page admin.Page[admin.Key]) error {
		return render.Keys.Print(out, true, time.Now(), page.Items...)
	})
}

type keysCreate struct {
	Name     string `arg:"" help:"server, registry or endpoint; with --force also token or kept."`
	Force    bool   `help:"Replace the key at once and permanently. The next start accepts the new key instead of a lost one."`
	Smallest bool   `help:"For an endpoint: try keys until the ID starts with 0000, which takes a few seconds."`
}

// Help explains when to replace a key, with an example.
func (keysCreate) Help() string {
	return `The gateway does not start if a key of the record is missing. Restore that key from a backup. Without a backup, --force
creates a new key for the next start. Signatures by the lost key stay valid for readers that know it.

A new secret "token" ends all sessions; a new secret "kept" gives each agent another DID. For a key of keys.signer, --force
accepts the current key of the signer.

Example:

	baton keys create endpoint --smallest`
}

// Run refuses to replace a key, and prints the output of show. A secret has no public part, so its
// fingerprint is printed.
func (cmd keysCreate) Run(ctx context.Context, c *cli, streams std) error {
	if secret, err := identity.ParseSecretName(cmd.Name); err == nil && cmd.Force {
		file, err := c.keysConfig()
		if err != nil {
			return err
		}
		mark, err := identity.ReplaceSecret(server.KeyFolder(file).Dir, secret, time.Now())
		if err != nil {
			return err
		}
		return printDocument(c, streams, admin.Key{Name: mark.Name, KeyID: mark.Fingerprint, Since: admin.Moment(mark.Since).String(), State: "active"}, render.WriteKey)
	}
	name, file, err := c.namedKey(cmd.Name)
	if err != nil {
		return err
	}
	var prefix string
	if cmd.Smallest {
		if name != identity.EndpointKey {
			return &usageError{errors.New("--smallest is for the endpoint: no other id is compared")}
		}
		prefix = identity.SmallEndpoint
	}
	now := time.Now()
	key, err := server.KeyFolder(file).Create(ctx, name, cmd.Force, prefix, now)
	if err != nil {
		return err
	}
	return printDocument(c, streams, server.ShowKey(key, file, now), render.WriteKey)
}

type keysShow struct {
	Name string `arg:"" help:"server, registry or endpoint."`
}

// Run prints the public part of the current key.
func (cmd keysShow) Run(ctx context.Context, c *cli, streams std) error {
	name, file, err := c.namedKey(cmd.Name)
	if err != nil {
		return err
	}
	key, err := server.KeyFolder(file).Key(ctx, name)
	if err != nil {
		return err
	}
	return printDocument(c, streams, server.ShowKey(key, file, time.Now()), render.WriteKey)
}

type keysRotate struct {
	reasonFlag

	Name    string `arg:"" help:"server or registry."`
	Overlap string `default:"24h" help:"How long signatures by the old key stay valid." placeholder:"DURATION"`
}

// Run prints the new key like show.
func (cmd keysRotate) Run(ctx context.Context, c *cli, streams std) error {
	rotation := route.JSON(admin.Rotation{Overlap: cmd.Overlap, Reason: cmd.Reason})
	return show(ctx, c, streams, admin.RotateKey, admin.KeyRotation{Name: cmd.Name, Body: rotation}, render.WriteKey)
}

func (c *cli) namedKey(argument string) (identity.KeyName, *configs.File, error) {
	name, err := identity.ParseKeyName(argument)
	if err != nil {
		return "", nil, &usageError{err}
	}
	file, err := c.keysConfig()
	return name, file, err
}

// keysConfig reads the configuration without its networks, because their secret files may not exist
// yet.
func (c *cli) keysConfig() (*configs.File, error) {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return nil, err
	}
	return file, server.SkipLinks(file, networks)
}

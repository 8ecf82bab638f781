package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type linkCommands struct {
	List linkList `cmd:"" example:"link list --watch" help:"List links and their status."`
	Show linkShow `cmd:"" example:"link show lab" help:"Show one link and its negotiated options."`

	Down linkDown `cmd:"" example:"link down lab --reason \"their server moves\"" help:"Disconnect a link until link up, or until the gateway restarts."`
	Up   linkUp   `cmd:"" example:"link up lab" help:"Connect a link after link down."`
	Dial linkDial `cmd:"" example:"link dial lab" help:"Reconnect a link now, without waiting for the backoff."`

	Explain linkExplain `cmd:"" example:"link explain freeq" help:"Print the configuration for the other side of a link."`
}

type linkList struct {
	listFlags
	watchFlag
}

// Run prints the list.
func (cmd linkList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListLinks, cmd.of(cmd.page()), render.Links)
}

type linkShow struct {
	Name string `arg:"" help:"The name of the link."`
}

// Run prints the link.
func (cmd linkShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(ctx, c, streams, admin.GetLink, admin.ByName{Name: cmd.Name}, func(out io.Writer, l admin.Link) error {
		return render.Link(out, l, time.Now())
	})
}

type linkChange struct {
	changeFlags

	Name string `arg:"" help:"The name of the link."`
}

func (cmd linkChange) ask(ctx context.Context, c *cli, streams std, verb, done string) error {
	in := admin.LinkChange{Name: cmd.Name, Verb: verb, Body: cmd.body()}
	return change(ctx, c, streams, cmd.changeFlags, admin.ChangeLink, in, func(changed int) string {
		if changed == 0 {
			return fmt.Sprintf("link %s was already in that state", cmd.Name)
		}
		return fmt.Sprintf("link %s %s", cmd.Name, done)
	})
}

type linkDown struct{ linkChange }

// Run disconnects the link and waits until it is down.
func (cmd linkDown) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.ask(ctx, c, streams, "down", "is disconnected")
}

type linkUp struct{ linkChange }

// Run connects the link.
func (cmd linkUp) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.ask(ctx, c, streams, "up", "connects")
}

type linkDial struct{ linkChange }

// Run dials the link.
func (cmd linkDial) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.ask(ctx, c, streams, "dial", "dials now")
}

type linkExplain struct {
	Name string `arg:"" help:"The name of the link."`
}

// Run reads only the configuration. It needs no running gateway.
func (cmd linkExplain) Run(c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	network, told, err := explain(file, func(l bridge.Link) bool { return l.Name() == cmd.Name })
	switch {
	case err != nil:
		return err
	case network == "":
		return fmt.Errorf("no link %q in %s", cmd.Name, c.configPath())
	}
	return printDocument(c, streams, map[string]string{"name": cmd.Name, "network": network, "text": told}, func(out io.Writer, _ map[string]string) error {
		_, err := io.WriteString(out, told)
		return err
	})
}

// explain returns the settings needed on the other side of the first chosen link, and its network.
// The network is "" if no chosen link has another side to configure. It creates no key.
func explain(file *configs.File, chosen func(bridge.Link) bool) (network, told string, err error) {
	links, err := server.OpenLinks(file, networks, server.Wiring{
		Ports:    bridge.Ports{PublicURL: file.HTTP.PublicURL},
		Endpoint: func() (federation.SigningKey, string, error) { return knownEndpoint(file) },
	})
	if err != nil {
		return "", "", err
	}
	for _, o := range links {
		if explainer, ok := o.Link.(bridge.Explainer); ok && chosen(o.Link) {
			return o.Link.Network(), explainer.Explain(), nil
		}
	}
	return "", "", nil
}

// knownEndpoint returns the endpoint key and its seed. It creates no key.
func knownEndpoint(file *configs.File) (key federation.SigningKey, seed string, err error) {
	folder := server.KeyFolder(file).Dir
	_, err = os.Stat(filepath.Join(folder, string(identity.EndpointKey)))
	if errors.Is(err, fs.ErrNotExist) {
		return key, "", errors.New(`there is no endpoint key yet: run "baton keys create endpoint --smallest"`)
	}
	return identity.OpenEndpoint(folder)
}

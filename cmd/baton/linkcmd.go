package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/text"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
)

// linkCommands look at links.
type linkCommands struct {
	List linkList `cmd:"" example:"link list --watch" help:"List links, and how they stand."`
	Show linkShow `cmd:"" example:"link show lab" help:"Show one link, with what was negotiated."`

	Down linkDown `cmd:"" example:"link down lab --reason \"their server moves\"" help:"Disconnect a link until link up, or the end of the gateway."`
	Up   linkUp   `cmd:"" example:"link up lab" help:"Connect a link that link down disconnected."`
	Dial linkDial `cmd:"" example:"link dial lab" help:"Dial now instead of later."`

	Explain linkExplain `cmd:"" example:"link explain freeq" help:"Tell what the other side of a link must set."`
}

// linkList lists links.
type linkList struct {
	listFlags
	watchFlag
}

// Run prints the list.
func (cmd linkList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListLinks(ctx, &contract.ListLinksParams{Limit: &cmd.Limit, Cursor: cmd.Cursor, Watch: cmd.parameter()})
	}, cmd.Watch, text.Links(time.Now))
}

// linkShow shows one link.
type linkShow struct {
	Name string `arg:"" help:"The name of the link."`
}

// Run prints the link.
func (cmd linkShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.GetLink(ctx, cmd.Name)
	}, func(out io.Writer, l contract.Link) error { return text.Link(out, l, time.Now()) }, cmd.Name)
}

// linkExplain tells what the other side of a link must set.
type linkExplain struct {
	Name string `arg:"" help:"The name of the link."`
}

// Run reads the configuration alone: nothing has to run.
func (cmd linkExplain) Run(c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	links, err := openLinks(file, wiring{
		ports:    bridge.Ports{PublicURL: file.HTTP.PublicURL},
		endpoint: func() (federation.SigningKey, string, error) { return knownEndpoint(file) },
	})
	if err != nil {
		return err
	}
	for _, o := range links {
		explainer, ok := o.Link.(bridge.Explainer)
		if !ok || o.Link.Name() != cmd.Name {
			continue
		}
		if c.JSON {
			return printJSON(streams, map[string]string{"name": cmd.Name, "network": o.Link.Network(), "text": explainer.Explain()})
		}
		_, err := io.WriteString(streams.out, explainer.Explain())
		return err
	}
	return fmt.Errorf("no link %q in %s", cmd.Name, c.configPath())
}

// knownEndpoint returns the endpoint key of this gateway and its seed. It makes no key.
func knownEndpoint(file *configs.File) (key federation.SigningKey, seed string, err error) {
	folder := file.Path(keysFolder)
	_, err = os.Stat(filepath.Join(folder, string(identity.EndpointKey)))
	if errors.Is(err, fs.ErrNotExist) {
		return key, "", errors.New(`there is no endpoint key yet: run "baton keys create endpoint --smallest"`)
	}
	return identity.OpenEndpoint(folder)
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"baton/bridge"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
)

// linkExplain tells what the other side of a link must set.
type linkExplain struct {
	Name string `arg:"" help:"The name of the link."`
}

// Help has one example.
func (linkExplain) Help() string { return "Example:\n\n\tbaton link explain freeq" }

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
			return json.NewEncoder(streams.out).Encode(map[string]string{"name": cmd.Name, "network": o.Link.Network(), "text": explainer.Explain()})
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

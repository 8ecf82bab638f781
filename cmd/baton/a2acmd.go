package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type a2aCommands struct {
	List a2aList `cmd:"" example:"a2a list" help:"List external A2A agents, and the state of their links."`
	Show a2aShow `cmd:"" example:"a2a show researcher" help:"Show one agent, with its card."`

	Check   a2aCheck   `cmd:"" example:"a2a check https://agents.example.com" help:"Read and verify an agent card. No gateway is needed."`
	Add     a2aAdd     `cmd:"" example:"a2a add https://agents.example.com --name researcher" help:"Check an agent, add it to the configuration, and reload the gateway."`
	Remove  a2aRemove  `cmd:"" example:"a2a remove researcher" help:"Remove an agent from the configuration, and reload the gateway."`
	Confirm a2aConfirm `cmd:"" example:"a2a confirm researcher" help:"Accept the changed key of a card, and connect."`
}

func agentLinks(ctx context.Context, gateway *client.Client) ([]admin.Link, error) {
	page, err := client.Call(ctx, gateway, admin.ListLinks, admin.Watching{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(page.Items, func(l admin.Link) bool { return l.Network != a2aclient.Label }), nil
}

type a2aList struct{}

// Run prints the list.
func (a2aList) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	links, err := agentLinks(ctx, gateway)
	if err != nil {
		return err
	}
	return printDocument(c, streams, admin.Page[admin.Link]{Items: links}, func(out io.Writer, page admin.Page[admin.Link]) error {
		if len(page.Items) == 0 {
			_, err := fmt.Fprintln(out, render.Agents.Empty)
			return err
		}
		return render.Agents.Print(out, true, time.Now(), page.Items...)
	})
}

func checkAgent(ctx context.Context, gateway *client.Client, name string) error {
	links, err := agentLinks(ctx, gateway)
	if err == nil && !slices.ContainsFunc(links, func(l admin.Link) bool { return l.Name == name }) {
		err = fmt.Errorf("no external agent %q: see baton a2a list", name)
	}
	return err
}

type a2aShow struct {
	Name string `arg:"" help:"The name of the agent."`
}

// Run prints the agent's link.
func (cmd a2aShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	if err := checkAgent(ctx, gateway, cmd.Name); err != nil {
		return err
	}
	return linkShow(cmd).Run(ctx, c, streams)
}

type a2aCheck struct {
	URL          string `arg:"" help:"URL of the agent card, or only its host."`
	AllowPrivate bool   `help:"Allow a private address and plain http."`
}

func (cmd a2aCheck) inspect(ctx context.Context) (a2aclient.Inspection, error) {
	return a2aclient.Inspect(ctx, cmd.URL, cmd.AllowPrivate, identity.NewTransport(identity.FetchConfig{AllowPrivate: cmd.AllowPrivate}))
}

// Run prints a summary of the card.
func (cmd a2aCheck) Run(ctx context.Context, c *cli, streams std) error {
	found, err := cmd.inspect(ctx)
	if err != nil {
		return err
	}
	return printDocument(c, streams, found, printAgent)
}

func printAgent(out io.Writer, a a2aclient.Inspection) error {
	signature := "none"
	if a.Key != "" {
		signature = "valid, key " + a.Key[:16]
	} else if a.Doubt != "" {
		signature = "unverifiable: " + a.Doubt
	}
	for _, line := range [][2]string{
		{"agent", a.Name + " " + a.Version},
		{"card", a.Card},
		{"interface", a.Binding + " " + a.Protocol + " at " + a.URL},
		{"updates", a.Updates},
		{"skills", cmp.Or(strings.Join(a.Skills, " "), "-")},
		{"credentials", cmp.Or(strings.Join(a.Schemes, " "), "none")},
		{"signature", signature},
	} {
		if _, err := fmt.Fprintf(out, "%-12s %s\n", line[0], render.Cell(line[1])); err != nil {
			return err
		}
	}
	return nil
}

type a2aAdd struct {
	a2aCheck
	yesFlag

	Name            string   `required:"" help:"Name of the agent and of its link." placeholder:"NAME"`
	CredentialsFile string   `help:"Secret file with a bearer token, an API key, or user:password." placeholder:"FILE"`
	Claims          []string `help:"Capabilities of the open offers that the agent gets." placeholder:"NAME"`
	DryRun          bool     `help:"Check the card, and change nothing." name:"dry-run"`
}

// Run checks the card, writes the table and reloads the gateway.
func (cmd a2aAdd) Run(ctx context.Context, c *cli, streams std) error {
	if !federation.ValidName(cmd.Name) {
		return &usageError{errors.New("--name: want lower-case letters, digits and hyphens")}
	}
	found, err := cmd.inspect(ctx)
	if err != nil {
		return err
	}
	if cmd.DryRun {
		return printDocument(c, streams, found, printAgent)
	}
	if !c.JSON {
		if err := printAgent(streams.out, found); err != nil {
			return err
		}
	}
	if err := cmd.ask(streams, false, "Add "+cmd.Name+" to "+c.configPath()+"?"); err != nil {
		return err
	}
	table := fmt.Sprintf("\n[[a2a.agents]]\nname = %q\ncard = %q\n", cmd.Name, found.Card)
	if cmd.CredentialsFile != "" {
		table += fmt.Sprintf("credentials_file = %q\n", cmd.CredentialsFile)
	}
	if len(cmd.Claims) > 0 {
		table += "claims = " + strings.ReplaceAll(fmt.Sprintf("%q", cmd.Claims), `" "`, `", "`) + "\n"
	}
	if cmd.AllowPrivate {
		table += "allow_private = true\n"
	}
	return changeConfig(ctx, c, streams, "agent "+cmd.Name+" added", func(text []byte) ([]byte, error) {
		if start, _ := agentTable(text, cmd.Name); start >= 0 {
			return nil, fmt.Errorf("the configuration has an agent %q already", cmd.Name)
		}
		return append(bytes.TrimRight(text, "\n"), "\n"+table...), nil
	})
}

type a2aRemove struct {
	yesFlag

	Name string `arg:"" help:"The name of the agent."`
}

// Run removes the table and reloads the gateway.
func (cmd a2aRemove) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, false, "Remove "+cmd.Name+" from "+c.configPath()+"?"); err != nil {
		return err
	}
	return changeConfig(ctx, c, streams, "agent "+cmd.Name+" removed", func(text []byte) ([]byte, error) {
		start, end := agentTable(text, cmd.Name)
		if start < 0 {
			return nil, fmt.Errorf("the configuration has no table [[a2a.agents]] with the name %q", cmd.Name)
		}
		return slices.Concat(bytes.TrimRight(text[:start], "\n"), []byte("\n"), text[end:]), nil
	})
}

// agentTable returns the bounds of an agent's table in a configuration, or -1.
func agentTable(text []byte, name string) (start, end int) {
	start, found, at := -1, false, 0
	for line := range bytes.Lines(text) {
		trimmed := string(bytes.TrimSpace(line))
		if strings.HasPrefix(trimmed, "[") {
			if found {
				return start, at
			}
			start = -1
			if trimmed == "[[a2a.agents]]" {
				start = at
			}
		}
		key, value, _ := strings.Cut(trimmed, "=")
		if start >= 0 && strings.TrimSpace(key) == "name" && strings.Trim(strings.TrimSpace(value), `"'`) == name {
			found = true
		}
		at += len(line)
	}
	if found {
		return start, at
	}
	return -1, -1
}

func changeConfig(ctx context.Context, c *cli, streams std, done string, change func(text []byte) ([]byte, error)) error {
	path := c.configPath()
	before, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	after, err := change(before)
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, after, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	file, err := configs.Load(next)
	if err == nil {
		_, err = server.OpenLinks(file, networks, server.Wiring{})
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	gateway, err := c.client()
	if err == nil {
		_, err = client.Call(ctx, gateway, admin.ReloadConfig, route.JSON(admin.Act{Reason: done}))
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		done += "; no gateway is running: it takes effect at the next start"
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s is written, and not reloaded: %w", path, err)
	}
	return printLine(c, streams, map[string]string{"file": path, "done": done}, done)
}

type a2aConfirm struct {
	changeFlags

	Name string `arg:"" help:"The name of the agent."`
}

// Run makes the link accept the key and dial.
func (cmd a2aConfirm) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	if err := checkAgent(ctx, gateway, cmd.Name); err != nil {
		return err
	}
	return linkDial{linkChange(cmd)}.Run(ctx, c, streams)
}

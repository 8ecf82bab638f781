package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"baton/bridge/agents/mcp"
	"baton/federation"
	"baton/federation/identity"
)

// mcpCommand serves MCP on standard input and output for one agent.
type mcpCommand struct {
	As      string `help:"For which agent: a DID that the gateway has bound, or that of the key." placeholder:"DID"`
	Device  string `default:"mcp" help:"The reader of the inbox, with a position of its own." placeholder:"NAME"`
	KeyFile string `help:"Sign each step here, as the did:key of this seed: 64 hexadecimal characters, mode 0600." name:"key-file" placeholder:"FILE"`
	Channel bool   `help:"Wake the client with each arrival, on hosts that have channels."`
}

// Help has one example.
func (mcpCommand) Help() string {
	return "Example, in the configuration of an agent host:\n\n\t\"baton\": {\"command\": \"baton\", \"args\": [\"mcp\", \"--as\", \"did:key:z6Mk…\"]}"
}

// Run serves until standard input ends. It begins only where the gateway can act for the DID.
func (cmd mcpCommand) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	did, key, err := cmd.agent()
	if err != nil {
		return err
	}
	account := gateway.Account(did, key)
	if err := account.Act(ctx, key != nil); err != nil {
		return err
	}
	options := mcp.Options{Device: cmd.Device, Version: buildVersion().Version, Channel: cmd.Channel}
	return mcp.Serve(ctx, account, options, os.Stdin, streams.out)
}

// agent returns the DID to act as, and its key where that is given.
func (cmd mcpCommand) agent() (federation.DID, *federation.SigningKey, error) {
	if cmd.KeyFile == "" {
		if cmd.As == "" {
			return "", nil, &usageError{errors.New("--as or --key-file says for which agent")}
		}
		did, err := federation.ParseDID(cmd.As)
		if err != nil {
			return "", nil, &usageError{fmt.Errorf("--as: %w", err)}
		}
		return did, nil, nil
	}
	key, err := identity.ReadSeed(cmd.KeyFile)
	if err != nil {
		return "", nil, err
	}
	if cmd.As != "" && cmd.As != string(key.DID) {
		return "", nil, &usageError{fmt.Errorf("--as is %s, and the key is of %s", cmd.As, key.DID)}
	}
	return key.DID, &key, nil
}

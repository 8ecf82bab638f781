package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type mcpCommand struct {
	As      string `help:"The DID to act as: a DID bound at the gateway, or the DID of the key." placeholder:"DID"`
	Device  string `default:"mcp" help:"Name of this device, which has its own read position." placeholder:"NAME"`
	KeyFile string `help:"Sign each step locally, as the did:key of the seed in this file: 64 hexadecimal characters, mode 0600." name:"key-file" placeholder:"FILE"`
	Pair    string `help:"Log in with this pairing code at --gateway, the public address of the gateway. The session is stored for later starts." placeholder:"CODE"`
	Channel bool   `help:"Wake the client when entries arrive, on hosts with channels."`
}

// Help has two examples.
func (mcpCommand) Help() string {
	return "On the machine of the gateway, the command uses the operator API. On any machine, it logs in with --key-file or\n--pair if --gateway is the public address of the gateway and there is no operator token.\n\n" +
		"Examples, in the configuration of an agent host:\n\n\t\"baton\": {\"command\": \"baton\", \"args\": [\"mcp\", \"--as\", \"did:key:z6Mk…\"]}\n" +
		"\t\"baton\": {\"command\": \"baton\", \"args\": [\"mcp\", \"--gateway\", \"https://gw.example\", \"--key-file\", \"agent.seed\"]}"
}

// Run serves until standard input ends. It starts only if the gateway can act for the DID.
func (cmd mcpCommand) Run(ctx context.Context, c *cli, streams std) error {
	account, signed, err := cmd.account(c)
	if err != nil {
		return err
	}
	if err := account.Act(ctx, signed); err != nil {
		return err
	}
	options := mcp.Options{Device: cmd.Device, Version: buildVersion().Version, Channel: cmd.Channel}
	return mcp.Serve(ctx, account, options, os.Stdin, streams.out)
}

func (cmd mcpCommand) account(c *cli) (account *client.Account, signed bool, err error) {
	if !strings.HasPrefix(c.Gateway, "http") || c.TokenFile != "" { // the operator API
		if cmd.Pair != "" {
			return nil, false, &usageError{errors.New("--pair needs --gateway with the public address of the gateway, and no operator token")}
		}
		gateway, err := c.client()
		if err != nil {
			return nil, false, err
		}
		did, key, err := cmd.agent()
		if err != nil {
			return nil, false, err
		}
		return gateway.Account(did, key), key != nil, nil
	}
	switch {
	case cmd.KeyFile != "" && cmd.Pair != "":
		return nil, false, &usageError{errors.New("use --key-file or --pair")}
	case cmd.KeyFile != "":
		_, key, err := cmd.agent()
		if err != nil {
			return nil, false, err
		}
		account, err = client.WithKey(c.Gateway, *key)
		if err != nil {
			err = &usageError{fmt.Errorf("--gateway: %w", err)}
		}
		return account, true, err
	case cmd.As != "":
		return nil, false, &usageError{errors.New("--as needs the operator API: use --key-file or --pair with --gateway")}
	}
	folder, err := stateFolder()
	if err != nil {
		return nil, false, err
	}
	account, err = client.WithPairing(c.Gateway, cmd.Pair, folder)
	if err != nil {
		err = &usageError{fmt.Errorf("--gateway: %w", err)}
	}
	return account, false, err
}

// spec: XDG Base Directory
func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "baton"), nil
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("save session: %w", err)
	}
	return filepath.Join(dir, ".local", "state", "baton"), nil
}

// The key is nil if none is given.
func (cmd mcpCommand) agent() (federation.DID, *federation.SigningKey, error) {
	if cmd.KeyFile == "" {
		if cmd.As == "" {
			return "", nil, &usageError{errors.New("name the agent with --as or --key-file")}
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
		return "", nil, &usageError{fmt.Errorf("--as is %s, but the key belongs to %s", cmd.As, key.DID)}
	}
	return key.DID, &key, nil
}

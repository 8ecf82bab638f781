package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	setup "github.com/baton-gateway/baton/configs/quickstart"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type quickstart struct {
	Home    string `help:"The domain of the gateway." placeholder:"NAME"`
	Network string `enum:",spanningtree,freeq,client,none" default:"" help:"The first network: spanningtree, freeq, client or none." placeholder:"NETWORK"`
	For     string `enum:",systemd,compose,laptop,none" default:"" help:"Service manager: systemd, compose or none; or laptop, for a gateway used only by programs on this machine." placeholder:"WHAT"`
	Dir     string `default:"." help:"Output folder." placeholder:"DIR"`
	Force   bool   `help:"Replace existing files, and keep them as .bak."`
}

// Help implements [kong.HelpProvider].
func (quickstart) Help() string {
	return `On a terminal, the command asks for each value without a flag. It writes only below the folder.

Example:

	baton quickstart --home gw.example --network spanningtree --for systemd --dir /etc/baton
	baton quickstart --for laptop --dir baton`
}

// Run writes the files and prints the next steps.
func (cmd quickstart) Run(c *cli, streams std) error {
	cmd, err := cmd.ask(streams)
	if err != nil {
		return err
	}
	if cmd.Dir, err = filepath.Abs(cmd.Dir); err != nil {
		return fmt.Errorf("find folder: %w", err)
	}
	if err := setup.CheckDir(cmd.Dir); err != nil {
		return &usageError{fmt.Errorf("--dir: %w", err)}
	}
	values := setup.Setup{Home: cmd.Home, Network: cmd.Network, For: cmd.For, Dir: cmd.Dir, User: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())}
	paths, err := values.Write(cmd.Force)
	if there, ok := errors.AsType[*setup.ExistsError](err); ok {
		return fmt.Errorf("%w: name another --dir, or use --force", there)
	}
	if err != nil {
		return err
	}
	peer, err := cmd.forPeer()
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, map[string]any{"files": paths, "peer": peer})
	}
	next, err := values.Next(cmd.ownName(), peer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(streams.out, next)
	return err
}

// ownName returns the name of this program for a shell: "baton", or its path. Systemd units find
// only programs in system folders by name.
func (cmd quickstart) ownName() string {
	const name = "baton"
	own, err := os.Executable()
	if err != nil {
		return name
	}
	found, err := exec.LookPath(name)
	if err == nil && (cmd.For != "systemd" || slices.Contains([]string{"/usr/local/bin", "/usr/bin"}, filepath.Dir(found))) {
		running, _ := os.Stat(own) // nil if there is no other program
		if there, err := os.Stat(found); err == nil && os.SameFile(running, there) {
			return name
		}
	}
	return render.Shell(own)
}

// ask reads missing values from the terminal. Without a terminal, a missing value is a usage error.
func (cmd quickstart) ask(streams std) (quickstart, error) {
	if cmd.For == "laptop" { // other homes cannot reach a laptop
		cmd.Home, cmd.Network = cmp.Or(cmd.Home, "baton.localhost"), cmp.Or(cmd.Network, "client")
	}
	input, terminal := bufio.NewReader(os.Stdin), isatty.IsTerminal(os.Stdin.Fd())
	for _, each := range []struct {
		flag, question string
		value          *string
		choices        []string
	}{
		{"home", "The domain of the gateway, such as gw.example", &cmd.Home, nil},
		{"network", "The first network", &cmd.Network, setup.Networks()},
		{"for", "What starts the gateway", &cmd.For, setup.Starters()},
	} {
		for *each.value == "" || each.choices != nil && !slices.Contains(each.choices, *each.value) {
			if !terminal {
				return cmd, &usageError{fmt.Errorf("--%s is missing, and there is no terminal to ask on", each.flag)}
			}
			fmt.Fprintf(streams.err, "%s %s: ", each.question, strings.Join(each.choices, ", "))
			line, err := input.ReadString('\n')
			if err != nil {
				return cmd, &usageError{fmt.Errorf("--%s is missing", each.flag)}
			}
			*each.value = strings.TrimSpace(line)
		}
	}
	if err := setup.CheckHome(cmd.Home); err != nil {
		return cmd, &usageError{fmt.Errorf("--home: %w", err)}
	}
	return cmd, nil
}

// forPeer returns the information for the operator of the first peer. It creates the key of a link
// to freeq if necessary.
func (cmd quickstart) forPeer() (string, error) {
	if cmd.Network != "spanningtree" && cmd.Network != "freeq" {
		return "home " + cmd.Home + ", " + string(federation.HomeID(cmd.Home).DID()) + "\nbaton peer add https://" + cmd.Home, nil
	}
	file, err := configs.Load(filepath.Join(cmd.Dir, "baton.toml"))
	if err != nil {
		return "", err
	}
	if cmd.Network == "freeq" {
		if _, _, err := identity.OpenEndpoint(server.KeyFolder(file).Dir); err != nil {
			return "", err
		}
	}
	_, text, err := explain(file, func(l bridge.Link) bool { return l.Network() == cmd.Network })
	if text == "" && err == nil {
		err = errors.New("the link has nothing to send")
	}
	return strings.TrimSpace(text), err
}

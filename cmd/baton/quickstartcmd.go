package main

import (
	"bufio"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/mattn/go-isatty"

	"baton/bridge"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
)

//go:embed quickstart
var quickstartFiles embed.FS

// quickstart writes the configuration of a new gateway.
type quickstart struct {
	Home    string `help:"The domain of the gateway." placeholder:"NAME"`
	Network string `enum:",spanningtree,freeq,client,none" default:"" help:"What it links first: spanningtree, freeq, client or none." placeholder:"NETWORK"`
	For     string `enum:",systemd,compose,none" default:"" help:"What starts it: systemd, compose or none." placeholder:"WHAT"`
	Dir     string `default:"." help:"The folder to write below." placeholder:"DIR"`
	Force   bool   `help:"Replace files, and keep the old ones as .bak."`
}

// Help has one example.
func (quickstart) Help() string {
	return `On a terminal it asks for each value that no flag gives. It writes below the folder alone.

Example:

	baton quickstart --home gw.example --network spanningtree --for systemd --dir /etc/baton`
}

// written is a file of a quickstart.
type written struct {
	path string
	text string
	mode fs.FileMode
}

// quickstartValues is what the templates are filled with.
type quickstartValues struct {
	quickstart

	User string // of the container
	Peer string // what the first peer needs
}

// Run writes the files and prints what comes next.
func (cmd quickstart) Run(c *cli, streams std) error {
	cmd, err := cmd.ask(streams)
	if err != nil {
		return err
	}
	if cmd.Dir, err = filepath.Abs(cmd.Dir); err != nil {
		return fmt.Errorf("find folder: %w", err)
	}
	if !pathSyntax().MatchString(cmd.Dir) {
		return &usageError{fmt.Errorf("--dir: want a path of letters, digits and ._-, not %q: a unit file and a shell read it", cmd.Dir)}
	}
	values := quickstartValues{quickstart: cmd, User: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())}
	files, err := values.files()
	if err != nil {
		return err
	}
	if err := cmd.write(files); err != nil {
		return err
	}
	if values.Peer, err = cmd.forPeer(); err != nil {
		return err
	}
	if c.JSON {
		paths := []string{}
		for _, f := range files {
			paths = append(paths, f.path)
		}
		return printJSON(streams, map[string]any{"files": paths, "peer": values.Peer})
	}
	text, err := values.fill("next.txt")
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(streams.out, text)
	return err
}

// ask returns the command with each value that no flag gave, which it asks for on the terminal.
// Without a terminal that is a mistake of the command line.
func (cmd quickstart) ask(streams std) (quickstart, error) {
	input, terminal := bufio.NewReader(os.Stdin), isatty.IsTerminal(os.Stdin.Fd())
	for _, each := range []struct {
		flag, question string
		value          *string
		choices        []string
	}{
		{"home", "The domain of the gateway, such as gw.example", &cmd.Home, nil},
		{"network", "The first network", &cmd.Network, []string{"spanningtree", "freeq", "client", "none"}},
		{"for", "What starts the gateway", &cmd.For, []string{"systemd", "compose", "none"}},
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
	if !domainSyntax().MatchString(cmd.Home) {
		return cmd, &usageError{fmt.Errorf("--home: want a domain in lower case, not %q", cmd.Home)}
	}
	return cmd, nil
}

func pathSyntax() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9/._-]+$`) }

func domainSyntax() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$`)
}

// files returns the files to write.
func (v quickstartValues) files() ([]written, error) {
	names := []string{"baton.toml"}
	switch v.For {
	case "systemd":
		names = append(names, "baton.service")
	case "compose":
		names = append(names, "compose.yaml")
	}
	var files []written
	for _, name := range names {
		text, err := v.fill(name)
		if err != nil {
			return nil, err
		}
		files = append(files, written{filepath.Join(v.Dir, name), text, 0o644})
	}
	if v.Network == "spanningtree" {
		for _, name := range []string{"lab.send", "lab.recv"} {
			files = append(files, written{filepath.Join(v.Dir, "data", name), rand.Text() + "\n", 0o600})
		}
	}
	return files, nil
}

// fill returns a file with the values in it.
func (v quickstartValues) fill(name string) (string, error) {
	parsed, err := template.ParseFS(quickstartFiles, "quickstart/"+name+".tmpl")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, v)
	return text.String(), err
}

// write writes files, none where one is there already; with --force it keeps the old ones.
func (cmd quickstart) write(files []written) error {
	for _, f := range files {
		_, err := os.Lstat(f.path)
		if err == nil && !cmd.Force {
			return fmt.Errorf("%s is there already, and nothing was written: name another --dir, or say --force", f.path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(cmd.Dir, 0o755); err != nil { //nolint:gosec // the service reads the configuration as another user
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(cmd.Dir, "data", keysFolder), 0o700); err != nil {
		return fmt.Errorf("make data_dir: %w", err)
	}
	for _, f := range files {
		if err := os.Rename(f.path, f.path+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the old file: %w", err)
		}
		if err := os.WriteFile(f.path, []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

// forPeer returns what the operator of the first peer needs. A link to freeq has a key of its own,
// which is made here where there is none.
func (cmd quickstart) forPeer() (string, error) {
	if cmd.Network != "spanningtree" && cmd.Network != "freeq" {
		return "home " + cmd.Home + ", " + string(federation.HomeID(cmd.Home).DID()) + "\nbaton peer add https://" + cmd.Home, nil
	}
	file, err := configs.Load(filepath.Join(cmd.Dir, "baton.toml"))
	if err != nil {
		return "", err
	}
	if cmd.Network == "freeq" {
		if _, err := os.Stat(file.Path(filepath.Join(keysFolder, string(identity.EndpointKey)))); errors.Is(err, fs.ErrNotExist) {
			if _, _, err := identity.OpenEndpoint(file.Path(keysFolder)); err != nil {
				return "", err
			}
		}
	}
	links, err := openLinks(file, wiring{
		ports:    bridge.Ports{PublicURL: file.HTTP.PublicURL},
		endpoint: func() (federation.SigningKey, string, error) { return knownEndpoint(file) },
	})
	if err != nil {
		return "", err
	}
	for _, o := range links {
		if explainer, ok := o.Link.(bridge.Explainer); ok && o.Link.Network() == cmd.Network {
			return strings.TrimSpace(explainer.Explain()), nil
		}
	}
	return "", errors.New("the link has nothing to send")
}

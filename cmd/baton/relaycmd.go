package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/federation/relay"
)

// hubFile is the name of the configuration of a NATS server that homes meet at.
const hubFile = "hub.conf"

// seedSuffix ends the names of files with nkey seeds.
const seedSuffix = ".nk"

// relayCommands are about the NATS servers that homes meet at.
type relayCommands struct {
	Check    relayCheck    `cmd:"" help:"Examine the server that homes meet at: clock, account, limits, sync, and who lags."`
	Accounts relayAccounts `cmd:"" help:"Write the configuration of a server that homes meet at, and an nkey seed for each home."`
}

// relayCheck shows how the server stands that homes meet at.
type relayCheck struct{}

// Help has one example.
func (relayCheck) Help() string { return "Example:\n\n\tbaton relay check" }

// Run prints one line a check. It fails where one does.
func (relayCheck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	page, err := answered[operatorapi.Page[operatorapi.Check]](gateway.CheckRelay(ctx, &contract.CheckRelayParams{}))
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(streams, page)
	} else {
		out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
		for _, each := range page.Items {
			fmt.Fprintf(out, "%s\t%s\t%s\n", shown(each.State), shown(each.Check), shown(each.Detail))
		}
		err = out.Flush()
	}
	if failed := slices.IndexFunc(page.Items, func(each operatorapi.Check) bool { return each.State == string(federation.FindingFail) }); err == nil && failed >= 0 {
		return fmt.Errorf("%s: %s", page.Items[failed].Check, page.Items[failed].Detail)
	}
	return err
}

// checkRelay examines what wakes those who wait inside this gateway, and the server that
// homes meet at.
func (p *program) checkRelay(ctx context.Context) []operatorapi.Check {
	found := []federation.Finding{{What: "inside", State: federation.FindingOK, Detail: p.relay.Where()}}
	if err := p.relay.Ready(); err != nil {
		found[0].State, found[0].Detail = federation.FindingWarn, err.Error()+": who waits looks every second"
	}
	if p.hub == nil {
		found = append(found, federation.Finding{What: "hub", State: federation.FindingOK, Detail: "none: homes are reached by HTTPS"})
	} else {
		found = append(found, p.hub.Check(ctx, p.homes.peers(), time.Now)...)
	}
	return checksOf(found)
}

// clusterSecretFile is the name of the file with the secret of the servers of a hub.
const clusterSecretFile = "cluster.secret"

// relayAccounts writes accounts.
type relayAccounts struct {
	Names    []string `arg:"" name:"name" help:"The homes, each by its home.name."`
	Out      string   `default:"." help:"Where the files are written; seeds that are there stay as they are." placeholder:"DIR"`
	Replicas int      `default:"1" help:"How many servers keep a copy of each stream." placeholder:"N"`
	Cluster  []string `help:"A server of a hub of several, and where homes reach it; once for each. The servers reach each other 2000 ports above that." placeholder:"NAME=HOST[:PORT]" sep:"none"`
}

// Help has one example for each form of a hub.
func (relayAccounts) Help() string {
	return `Examples:

	baton relay accounts a.example b.example c.example --out hub
	baton relay accounts a.example b.example c.example --out hub --replicas 3 \
	  --cluster hub-1=hub-1.example --cluster hub-2=hub-2.example --cluster hub-3=hub-3.example`
}

// account is what was written for one home.
type account struct {
	Name      string `json:"name"`
	PublicKey string `json:"public_key"`
	SeedFile  string `json:"seed_file"`
	Made      bool   `json:"made"` // now; else it was there
}

// Run writes the configuration of each server, and a seed for each home, which is to be sent
// to that home alone.
func (cmd relayAccounts) Run(c *cli, streams std) error {
	if err := os.MkdirAll(cmd.Out, 0o700); err != nil {
		return err
	}
	layout, err := cmd.layout()
	if err != nil {
		return &usageError{err}
	}
	var accounts []relay.Account
	for _, name := range cmd.Names {
		accounts = append(accounts, relay.Account{Home: federation.HomeID(name)})
	}
	if _, err := relay.WriteAccounts(accounts, layout); err != nil { // before a file has a name that is no name of a home
		return &usageError{err}
	}
	if len(layout.Servers) > 0 {
		if layout.Secret, err = clusterSecret(cmd.Out); err != nil {
			return err
		}
	}
	written := []account{}
	for i, a := range accounts {
		made, err := seedOf(string(a.Home), cmd.Out)
		if err != nil {
			return err
		}
		written, accounts[i].Public = append(written, made), made.PublicKey
	}
	files, err := relay.WriteAccounts(accounts, layout)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(cmd.Out, file.Name), []byte(file.Text), 0o600); err != nil {
			return err
		}
	}
	return cmd.tell(c, streams, layout, files, written)
}

// layout returns the servers of the hub.
func (cmd relayAccounts) layout() (relay.HubLayout, error) {
	layout := relay.HubLayout{Replicas: cmd.Replicas, Secret: "none yet"}
	for _, text := range cmd.Cluster {
		name, address, ok := strings.Cut(text, "=")
		s := relay.HubServer{Name: name, Host: address}
		if host, port, err := net.SplitHostPort(address); err == nil {
			s.Host = host
			if s.Port, err = strconv.Atoi(port); err != nil {
				ok = false
			}
		}
		if !ok {
			return layout, fmt.Errorf("--cluster %s: want NAME=HOST or NAME=HOST:PORT", text)
		}
		layout.Servers = append(layout.Servers, s)
	}
	return layout, nil
}

// tell prints what was written, and what each home has in its configuration.
func (cmd relayAccounts) tell(c *cli, streams std, layout relay.HubLayout, files []relay.HubFile, written []account) error {
	if c.JSON {
		paths := []string{}
		for _, file := range files {
			paths = append(paths, filepath.Join(cmd.Out, file.Name))
		}
		return printJSON(streams, map[string]any{"configuration": paths[0], "configurations": paths, "accounts": written})
	}
	for _, file := range files {
		fmt.Fprintf(streams.out, "%s: for the server\n", filepath.Join(cmd.Out, file.Name))
	}
	for _, a := range written {
		kept := ""
		if !a.Made {
			kept = ", as it was"
		}
		fmt.Fprintf(streams.out, "%s: for %s alone%s\n", a.SeedFile, a.Name, kept)
	}
	urls, replicas := []string{`"tls://HUB:4222"`}, ""
	if len(layout.Servers) > 0 {
		urls = nil
		for _, s := range layout.Servers {
			urls = append(urls, strconv.Quote("tls://"+s.Address()))
		}
		replicas = fmt.Sprintf("replicas = %d\n", layout.Replicas)
	}
	_, err := fmt.Fprintf(streams.out, "Each home has in its configuration:\n\n[relay.hub]\nurls = [%s]\nnkey_file = \"NAME%s\"\n%s", strings.Join(urls, ", "), seedSuffix, replicas)
	return err
}

// clusterSecret returns the secret with which the servers of a hub identify to each other. It
// makes one where the folder has none.
func clusterSecret(dir string) (string, error) {
	path := filepath.Join(dir, clusterSecretFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text() + "\n")
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if strings.Trim(secret, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || len(secret) < 16 {
		return "", fmt.Errorf("%s: want letters from A to Z and digits from 2 to 7; delete it to have another one", path)
	}
	return secret, nil
}

// seedOf returns the account of a home by the seed in its file, which is made where it is
// not there.
func seedOf(name, dir string) (account, error) {
	a := account{Name: name, SeedFile: filepath.Join(dir, name+seedSuffix)}
	seed, err := os.ReadFile(a.SeedFile)
	if errors.Is(err, fs.ErrNotExist) {
		if seed, err = relay.NewSeed(); err == nil {
			a.Made, err = true, os.WriteFile(a.SeedFile, seed, 0o600)
		}
	}
	if err != nil {
		return a, err
	}
	if a.PublicKey, err = relay.PublicOf(seed); err != nil {
		return a, fmt.Errorf("%s: %w", a.SeedFile, err)
	}
	return a, nil
}

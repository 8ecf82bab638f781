package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// relayAccounts writes accounts.
type relayAccounts struct {
	Names []string `arg:"" name:"name" help:"The homes, each by its home.name."`
	Out   string   `default:"." help:"Where the files are written; seeds that are there stay as they are." placeholder:"DIR"`
}

// Help has one example.
func (relayAccounts) Help() string {
	return "Example:\n\n\tbaton relay accounts a.example b.example c.example --out hub"
}

// account is what was written for one home.
type account struct {
	Name      string `json:"name"`
	PublicKey string `json:"public_key"`
	SeedFile  string `json:"seed_file"`
	Made      bool   `json:"made"` // now; else it was there
}

// Run writes hub.conf and a seed for each home, which is to be sent to that home alone.
func (cmd relayAccounts) Run(c *cli, streams std) error {
	if err := os.MkdirAll(cmd.Out, 0o700); err != nil {
		return err
	}
	var accounts []relay.Account
	for _, name := range cmd.Names {
		accounts = append(accounts, relay.Account{Home: federation.HomeID(name)})
	}
	if _, err := relay.WriteAccounts(accounts); err != nil { // before a file has a name that nobody can mean
		return &usageError{err}
	}
	written := []account{}
	for i, a := range accounts {
		made, err := seedOf(string(a.Home), cmd.Out)
		if err != nil {
			return err
		}
		written, accounts[i].Public = append(written, made), made.PublicKey
	}
	text, err := relay.WriteAccounts(accounts)
	if err != nil {
		return err
	}
	file := filepath.Join(cmd.Out, hubFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, map[string]any{"configuration": file, "accounts": written})
	}
	fmt.Fprintf(streams.out, "%s: for the server\n", file)
	for _, a := range written {
		kept := ""
		if !a.Made {
			kept = ", as it was"
		}
		fmt.Fprintf(streams.out, "%s: for %s alone%s\n", a.SeedFile, a.Name, kept)
	}
	_, err = fmt.Fprint(streams.out, "Each home has in its configuration:\n\n[relay.hub]\nurls = [\"tls://HUB:4222\"]\nnkey_file = \"NAME"+seedSuffix+"\"\n")
	return err
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

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/signing"
)

// keysCommands work on the gateway's own keys.
type keysCommands struct {
	List   keysList   `cmd:"" help:"List the keys, those that were rotated away among them."`
	Create keysCreate `cmd:"" help:"Make a key and print its public part."`
	Show   keysShow   `cmd:"" help:"Print the public part of a key."`
	Rotate keysRotate `cmd:"" help:"Make a new key now; the old one is good for an overlap."`
}

// keysList lists the keys in the files of a gateway.
type keysList struct{}

// Help has one example.
func (keysList) Help() string { return "Example:\n\n\tbaton keys list" }

// Run prints a table, or with --json a list.
func (keysList) Run(ctx context.Context, c *cli, streams std) error {
	file, err := c.keysConfig()
	if err != nil {
		return err
	}
	keys, err := ownKeys(ctx, file)
	if err != nil {
		return err
	}
	now := time.Now()
	items := []shownKey{}
	for _, key := range keys {
		items = append(items, showKey(key, file, now))
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(map[string]any{"items": items, "next_cursor": ""})
	}
	columns := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "NAME\tID\tKEY\tSINCE\tSTATE")
	for _, key := range items {
		since := "-"
		if key.Since != "" {
			since = key.Since
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\n", key.Name, idOf(key), key.KeyID, since, key.State)
	}
	return columns.Flush()
}

// keysCreate makes a key.
type keysCreate struct {
	Name     string `arg:"" help:"server, registry or endpoint; with --force also token or kept."`
	Force    bool   `help:"Replace the key, at once and for good; the next start accepts it in the place of a lost one."`
	Smallest bool   `help:"Of an endpoint: try keys until the id starts with 0000, which takes a few seconds."`
}

// Help has one example.
func (keysCreate) Help() string {
	return `A start with a record fails where a key is missing that the record was written with. Restore that key from a
backup; where there is none, --force makes another one that the next start accepts. Signatures by the lost key stay
valid while readers know it. Another secret "token" ends all sessions; another secret "kept" gives each agent another
DID. For a key of keys.signer, --force accepts the one that the signer has now.

Example:

	baton keys create endpoint --smallest`
}

// Run refuses where there is a key, and prints what show prints.
func (cmd keysCreate) Run(ctx context.Context, c *cli, streams std) error {
	if secret, err := identity.ParseSecretName(cmd.Name); err == nil && cmd.Force {
		return cmd.replaceSecret(secret, c, streams)
	}
	name, file, err := c.namedKey(cmd.Name)
	if err != nil {
		return err
	}
	var prefix string
	if cmd.Smallest {
		if name != identity.EndpointKey {
			return &usageError{errors.New("--smallest is for the endpoint: no other id is compared")}
		}
		prefix = identity.SmallEndpoint
	}
	if signs(file, name) && cmd.Force {
		key, err := identity.AcceptKey(ctx, file.Path(keysFolder), file.Keys.Signer, name)
		if err != nil {
			return err
		}
		return printKey(c, streams, showKey(key, file, time.Now()))
	}
	if signs(file, name) {
		return fmt.Errorf("%w: %s keeps it", identity.ErrKeyExists, file.Keys.Signer[0])
	}
	now := time.Now()
	key, err := identity.CreateKey(file.Path(keysFolder), name, cmd.Force, prefix, now)
	if err != nil {
		return err
	}
	return printKey(c, streams, showKey(key, file, now))
}

// replaceSecret makes a secret in the place of another. It has no public part; its
// fingerprint is printed.
func (keysCreate) replaceSecret(name identity.KeyName, c *cli, streams std) error {
	file, err := c.keysConfig()
	if err != nil {
		return err
	}
	mark, err := identity.ReplaceSecret(file.Path(keysFolder), name, time.Now())
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(shownKey{Name: string(name), KeyID: mark.Fingerprint, Since: moment(mark.Since), State: "active"})
	}
	_, err = fmt.Fprintln(streams.out, mark.Fingerprint)
	return err
}

// keysShow shows one key.
type keysShow struct {
	Name string `arg:"" help:"server, registry or endpoint."`
}

// Help has one example.
func (keysShow) Help() string { return "Example:\n\n\tbaton keys show endpoint" }

// Run prints the public part of the key that signs now.
func (cmd keysShow) Run(ctx context.Context, c *cli, streams std) error {
	name, file, err := c.namedKey(cmd.Name)
	if err != nil {
		return err
	}
	keys, err := ownKeys(ctx, file)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(keys, func(key identity.NamedKey) bool { return key.Name == name })
	if at < 0 {
		return fmt.Errorf("%w: no key %s in %s; baton keys create %s makes one", federation.ErrNotFound, name, file.Path(keysFolder), name)
	}
	return printKey(c, streams, showKey(keys[at], file, time.Now()))
}

// shownKey is the public part of a key as it is printed.
type shownKey = contract.Key

func showKey(key identity.NamedKey, file *configs.File, now time.Time) shownKey {
	shown := shownKey{
		Name: string(key.Name), PublicKey: base64.RawURLEncoding.EncodeToString(key.Public), KeyID: federation.KeyID(key.Public),
		Since: moment(key.Since), State: key.State(now), Until: moment(key.Until),
	}
	switch key.Name {
	case identity.ServerKey:
		shown.DID, shown.DIDKey = federation.HomeID(file.Home.Name).DID(), identity.KeyDID(key.Public)
	case identity.RegistryKey:
		shown.KeyID = signing.RegistryKeyID(key.Public)
	case identity.EndpointKey:
		shown.EndpointID = identity.EndpointID(key.Public)
	case identity.KeptSecret, identity.TokenSecret: // have no public part
	}
	return shown
}

// idOf returns the name by which other programs know a key.
func idOf(k shownKey) string {
	switch {
	case k.DID != "":
		return string(k.DID)
	case k.EndpointID != "":
		return k.EndpointID
	}
	return k.PublicKey
}

// moment returns a time as the commands print it, and nothing for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// printKey writes what others need of a key, each on a line.
func printKey(c *cli, streams std, key shownKey) error {
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(key)
	}
	lines := []string{key.PublicKey, key.KeyID}
	switch identity.KeyName(key.Name) {
	case identity.ServerKey:
		lines = []string{string(key.DID), string(key.DIDKey)}
	case identity.EndpointKey:
		lines = []string{key.EndpointID}
	case identity.RegistryKey, identity.KeptSecret, identity.TokenSecret:
	}
	_, err := fmt.Fprintln(streams.out, strings.Join(lines, "\n"))
	return err
}

// ownKeys returns the keys of a gateway: those in its files, and those of its signer.
func ownKeys(ctx context.Context, file *configs.File) ([]identity.NamedKey, error) {
	keys, err := identity.ListKeys(file.Path(keysFolder))
	if err != nil || len(file.Keys.Signer) == 0 {
		return keys, err
	}
	keys = slices.DeleteFunc(keys, func(key identity.NamedKey) bool { return signs(file, key.Name) })
	for _, name := range []identity.KeyName{identity.RegistryKey, identity.ServerKey} {
		public, err := identity.Signer(file.Keys.Signer).Public(ctx, name)
		if err != nil {
			return nil, &federation.UnavailableError{What: "key " + string(name), Err: err}
		}
		keys = slices.Insert(keys, 0, identity.NamedKey{Name: name, OwnKey: federation.OwnKey{Public: public}})
	}
	return keys, nil
}

// signs reports whether a program signs with a key in our place.
func signs(file *configs.File, name identity.KeyName) bool {
	return len(file.Keys.Signer) > 0 && name != identity.EndpointKey
}

// namedKey reads the argument of a command about one key, and the configuration.
func (c *cli) namedKey(argument string) (identity.KeyName, *configs.File, error) {
	name, err := identity.ParseKeyName(argument)
	if err != nil {
		return "", nil, &usageError{err}
	}
	file, err := c.keysConfig()
	return name, file, err
}

// keysConfig reads the configuration without its networks: their secret files need
// not be there when the keys are made.
func (c *cli) keysConfig() (*configs.File, error) {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return nil, err
	}
	for _, n := range networks(wiring{}) {
		tablesOf(file, n)
	}
	file.Tables(peersTable)
	file.Tables("bindings")
	return file, file.Err()
}

// refusedKey returns the word for a key that was not made, and "" for another error.
func refusedKey(err error) string {
	switch {
	case errors.Is(err, identity.ErrKeyExists):
		return "key-exists"
	case errors.Is(err, identity.ErrNotRotated):
		return "not-rotated"
	}
	return ""
}

package relay

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"baton/federation"
)

// The names of the files of accounts.
const (
	HubFile    = hubName + confSuffix // the configuration of the NATS server, of a hub of one
	SeedSuffix = ".nk"                // ends the name of the file with the seed of a home

	secretFile = "cluster.secret" // with which the servers of a hub identify to each other
)

// AccountFile is the seed file of one home.
type AccountFile struct {
	Home   federation.HomeID `json:"name"`
	Public string            `json:"public_key"`
	Seed   string            `json:"seed_file"`
	Made   bool              `json:"made"` // now; else it existed
}

// AccountFiles are the files of a hub at which homes meet.
type AccountFiles struct {
	Server   string        `json:"configuration"`  // the file of the first server
	Servers  []string      `json:"configurations"` // the file of each server
	Accounts []AccountFile `json:"accounts"`
}

// NamesError is returned for names that are no names of homes, or too few.
type NamesError struct{ Err error }

// Error implements error.
func (e *NamesError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NamesError) Unwrap() error { return e.Err }

// SaveAccounts writes the configuration of each server of a hub into a folder, and an nkey seed
// for each home, which the operator sends to that home alone. Seeds that exist, and the secret of
// the servers, stay as they are. It writes nothing for wrong names or a layout that cannot be,
// which are a [*NamesError].
func SaveAccounts(dir string, names []string, layout HubLayout) (AccountFiles, error) {
	files := AccountFiles{Accounts: []AccountFile{}}
	accounts := make([]Account, len(names))
	for i, name := range names {
		accounts[i].Home = federation.HomeID(name)
	}
	layout.Secret = "none yet"
	if _, err := WriteAccounts(accounts, layout); err != nil { // before a wrong name becomes that of a file
		return files, &NamesError{err}
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && len(layout.Servers) > 0 {
		layout.Secret, err = saveSecret(filepath.Join(dir, secretFile))
	}
	if err != nil {
		return files, err
	}
	for i, a := range accounts {
		file, err := saveSeed(dir, a.Home)
		if err != nil {
			return files, err
		}
		files.Accounts, accounts[i].Public = append(files.Accounts, file), file.Public
	}
	servers, err := WriteAccounts(accounts, layout)
	if err != nil {
		return files, err
	}
	for _, each := range servers {
		path := filepath.Join(dir, each.Name)
		if err := os.WriteFile(path, []byte(each.Text), 0o600); err != nil {
			return files, err
		}
		files.Servers = append(files.Servers, path)
	}
	files.Server = files.Servers[0]
	return files, nil
}

// Instructions says which home each file is for, and what the homes set to meet at the hub.
func (f AccountFiles) Instructions(layout HubLayout) string {
	var text strings.Builder
	for _, file := range f.Servers {
		fmt.Fprintf(&text, "%s: for the server\n", file)
	}
	for _, a := range f.Accounts {
		kept := ""
		if !a.Made {
			kept = ", as it was"
		}
		fmt.Fprintf(&text, "%s: for %s alone%s\n", a.Seed, a.Home, kept)
	}
	urls := []string{`"tls://HUB:4222"`}
	for i, server := range layout.Servers {
		urls = append(urls[:i], strconv.Quote("tls://"+server.Address()))
	}
	fmt.Fprintf(&text, "Each home has in its configuration:\n\n[relay.hub]\nurls = [%s]\nnkey_file = \"NAME%s\"\n", strings.Join(urls, ", "), SeedSuffix)
	if layout.Replicas > 1 {
		fmt.Fprintf(&text, "replicas = %d\n", layout.Replicas)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// saveSecret returns the secret in a file. It makes a file that is missing.
func saveSecret(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the folder
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text() + "\n")
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if !clusterSecret.MatchString(secret) {
		return "", fmt.Errorf("%s: want 16 letters and digits or more; delete the file, and the next run makes another one", path)
	}
	return secret, nil
}

// saveSeed returns the account of a home by the seed in its file. It makes a file that is missing.
func saveSeed(dir string, home federation.HomeID) (AccountFile, error) {
	file := AccountFile{Home: home, Seed: filepath.Join(dir, string(home)+SeedSuffix)}
	seed, err := os.ReadFile(file.Seed)
	if errors.Is(err, fs.ErrNotExist) {
		if seed, err = NewSeed(); err == nil {
			file.Made, err = true, os.WriteFile(file.Seed, seed, 0o600)
		}
	}
	if err != nil {
		return file, err
	}
	if file.Public, err = PublicOf(seed); err != nil {
		return file, fmt.Errorf("%s: %w", file.Seed, err)
	}
	return file, nil
}

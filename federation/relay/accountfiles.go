package relay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"baton/federation"
)

// The names of the files of accounts.
const (
	HubFile    = "hub.conf" // the configuration of the NATS server
	SeedSuffix = ".nk"      // ends the name of the file with the seed of a home
)

// AccountFile is the seed file of one home.
type AccountFile struct {
	Home   federation.HomeID `json:"name"`
	Public string            `json:"public_key"`
	Seed   string            `json:"seed_file"`
	Made   bool              `json:"made"` // now; else it existed
}

// AccountFiles are the files of a NATS server at which homes meet.
type AccountFiles struct {
	Server   string        `json:"configuration"` // the file of the server
	Accounts []AccountFile `json:"accounts"`
}

// NamesError is returned for names that are no names of homes, or too few.
type NamesError struct{ Err error }

// Error implements error.
func (e *NamesError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NamesError) Unwrap() error { return e.Err }

// SaveAccounts writes the configuration of a server into a folder, and an nkey seed for each home,
// which the operator sends to that home alone. A seed that exists stays as it is. It writes
// nothing for wrong names, which are a [*NamesError].
func SaveAccounts(dir string, names []string) (AccountFiles, error) {
	files := AccountFiles{Server: filepath.Join(dir, HubFile), Accounts: []AccountFile{}}
	accounts := make([]Account, len(names))
	for i, name := range names {
		accounts[i].Home = federation.HomeID(name)
	}
	if _, err := WriteAccounts(accounts); err != nil { // before a wrong name becomes that of a file
		return files, &NamesError{err}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files, err
	}
	for i, a := range accounts {
		file, err := saveSeed(dir, a.Home)
		if err != nil {
			return files, err
		}
		files.Accounts, accounts[i].Public = append(files.Accounts, file), file.Public
	}
	text, err := WriteAccounts(accounts)
	if err != nil {
		return files, err
	}
	return files, os.WriteFile(files.Server, []byte(text), 0o600)
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

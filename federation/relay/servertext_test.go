package relay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// files is a folder in which only "creds" can be read.
type files struct{}

func (files) Path(name string) string { return "/etc/baton/" + name }

func (files) Secret(name string) (string, error) {
	if name == "creds" {
		return "x", nil
	}
	return "", errors.New("no such file")
}

func TestServerTextNamesEachMistake(t *testing.T) {
	t.Parallel()
	cfg, mistakes := relay.ServerText{URLs: []string{"tls://hub.example:4222"}, CredsFile: "creds", CAFile: "ca.pem"}.Parse(files{})
	if want := (relay.ServerConfig{URLs: []string{"tls://hub.example:4222"}, CredsFile: "/etc/baton/creds", CAFile: "/etc/baton/ca.pem"}); len(mistakes) > 0 || cmp.Diff(want, cfg) != "" {
		t.Errorf("got %+v, %v", cfg, mistakes)
	}
	_, mistakes = relay.ServerText{URLs: []string{"hub.example"}, CredsFile: "creds", NKeyFile: "none"}.Parse(files{})
	want := []federation.Mistake{
		{Key: "urls", Why: `want addresses such as "tls://hub.example:4222"`},
		{Key: "nkey_file", Why: "want one of creds_file and nkey_file"},
		{Key: "nkey_file", Why: "no such file"},
	}
	if diff := cmp.Diff(want, mistakes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSaveAccountsKeepsExistingSeeds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "hub")
	if _, err := relay.SaveAccounts(dir, []string{"a.example", "../b"}, relay.HubLayout{}); !errors.As(err, new(*relay.NamesError)) {
		t.Errorf("a wrong name: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a wrong name writes a file: %v", err)
	}
	first, err := relay.SaveAccounts(dir, []string{"a.example", "b.example"}, relay.HubLayout{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := relay.SaveAccounts(dir, []string{"a.example", "b.example", "c.example"}, relay.HubLayout{})
	if err != nil || len(second.Accounts) != 3 || second.Accounts[0].Made || !second.Accounts[2].Made || second.Accounts[0].Public != first.Accounts[0].Public {
		t.Errorf("got %+v, %v, after %+v", second, err, first)
	}
}

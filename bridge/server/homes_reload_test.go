package server_test

import (
	"path/filepath"
	"testing"

	"baton/bridge/server"
	"baton/configs"
)

func TestAModeHoldsForALinkThatAReloadKept(t *testing.T) {
	t.Parallel()
	file, err := configs.Parse(filepath.Join(t.TempDir(), "baton.toml"), `[home]
name = 'gw.test'
[http]
listen = ''
[admin]
listen = ''
socket = ''
[[peers]]
name = 'p0.test'
did = 'did:web:p0.test'
url = 'https://p0.test'
`)
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := server.NewStill(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gateway.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := gateway.ApplyAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if blocked, err := gateway.BlockHome(t.Context(), "p0.test"); err != nil || !blocked {
		t.Errorf("the link that runs is blocked: %t (%v)", blocked, err)
	}
}

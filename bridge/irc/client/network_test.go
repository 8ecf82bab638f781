package client_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/client"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	defaults := client.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(client.Network(client.Deps{}), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

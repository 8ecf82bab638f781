package mcp_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	defaults := mcp.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(mcp.Network(participant.Deps{}, "1.2.3"), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

type table mcp.Config

// Decode implements [bridge.Table].
func (t table) Decode(into any) { *into.(*mcp.Config) = mcp.Config(t) } //nolint:forcetypeassert // a network decodes its own table

func TestTableDisablesTheNetwork(t *testing.T) {
	t.Parallel()
	network := mcp.Network(participant.Deps{}, "1.2.3")
	if _, err := network.Open(table{Enabled: false}, bridgetest.Ports(nil)); !errors.Is(err, bridge.ErrOff) {
		t.Errorf("turned off: %v", err)
	}
	link, err := network.Open(table{Enabled: true}, bridgetest.Ports(nil))
	if err != nil || link.Name() != "mcp" || link.Network() != "mcp" {
		t.Errorf("turned on: %v, %v", link, err)
	}
}

package a2a_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/agents/a2a"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	defaults := a2a.DefaultConfig()
	if diff, err := bridgetest.ReferenceDiff(a2a.Network(a2a.Deps{}), &defaults); err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

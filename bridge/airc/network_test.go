package airc_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	defaults := airc.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(airc.Network(airc.Deps{}), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

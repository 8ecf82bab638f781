package inspircd_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	defaults := inspircd.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(inspircd.Network(nil), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

package freeq_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	defaults := freeq.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(freeq.Network(freeq.Deps{}, nil), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

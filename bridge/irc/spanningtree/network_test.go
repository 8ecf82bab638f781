package spanningtree_test

import (
	"testing"

	"baton/bridge/bridgetest"
	"baton/bridge/irc/spanningtree"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	defaults := spanningtree.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(spanningtree.Network(nil), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

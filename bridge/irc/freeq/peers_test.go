package freeq_test

import (
	"strconv"
	"testing"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
)

func TestPeersOfALogAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for n := range 2*freeq.MaxPeered + 1 {
		names = append(names, strconv.Itoa(n))
	}
	remembered, last := freeq.RememberServers(names)
	if remembered > freeq.MaxPeered || !last {
		t.Errorf("%d servers are remembered, and the last one: %v; want at most %d, and the last", remembered, last, freeq.MaxPeered)
	}
}

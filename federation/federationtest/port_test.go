package federationtest_test

import (
	"net"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestFreePortIsReturnedOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 200 { // of 16,000: one comes twice in most runs if nothing is held
		addr := federationtest.FreeAddr(t)
		if seen[addr] {
			t.Fatalf("%s is given out twice", addr)
		}
		seen[addr] = true
	}
	var lc net.ListenConfig
	for addr := range seen {
		l, err := lc.Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package federationtest_test

import (
	"net"
	"testing"

	"baton/federation/federationtest"
)

func TestAFreePortIsGivenOutOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 200 { // of 16,000: one comes twice in most runs where nothing is held
		addrs, err := federationtest.FreeAddrs(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if seen[addrs[0]] {
			t.Fatalf("%s is given out twice", addrs[0])
		}
		seen[addrs[0]] = true
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

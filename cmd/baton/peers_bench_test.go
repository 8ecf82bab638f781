package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	main "github.com/baton-gateway/baton/cmd/baton"
	"github.com/baton-gateway/baton/federation"
)

// BenchmarkPeers is the cost of a step at a gateway that knows so many other homes: an
// offer of 1 KiB to a DID at one of them, from its tags to the disk and the outbox of that
// home. The metric cpu-µs is the processor time of one step, which must not grow with the
// homes.
//
//	go test ./cmd/baton -run=^$ -bench=Peers -benchtime=5000x
func BenchmarkPeers(b *testing.B) {
	for _, homes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("homes=%d", homes), func(b *testing.B) {
			gateway := assemble(b, homes)
			last := federation.DID(fmt.Sprintf("did:web:p%d.test:airc:p%[1]d.test:scout_7", homes-1))
			offers := signedOffers(b, b.N, last)
			before := cpuTime(b, 0)
			b.ResetTimer()
			submitAll(b, gateway.Submit, offers, lanes)
			b.StopTimer()
			reportCPU(b, cpuTime(b, 0)-before, b.N)
		})
	}
}

// assemble returns a gateway that knows so many other homes.
func assemble(tb testing.TB, homes int) main.Still {
	tb.Helper()
	var text strings.Builder
	text.WriteString("[home]\nname = 'gw.test'\n[http]\nlisten = ''\n[admin]\nlisten = ''\nsocket = ''\n[limits]\ndid_events_per_minute = 0\nopen_handoffs_per_did = 0\ninbox_events = 0\ninbox_events_per_sender = 0\ninbox_bytes_per_sender = 0\n")
	for n := range homes {
		fmt.Fprintf(&text, "[[peers]]\nname = 'p%d.test'\ndid = 'did:web:p%[1]d.test'\nurl = 'https://p%[1]d.test'\n", n)
	}
	path := filepath.Join(tb.TempDir(), "baton.toml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	gateway, err := main.Assemble(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := gateway.Close(); err != nil {
			tb.Error(err)
		}
	})
	return gateway
}

package freeq_test

import (
	"crypto/ed25519"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// stepTags is a step as long as most.
func stepTags() map[string]string {
	return map[string]string{
		"+freeq.at/act": "handoff", "+freeq.at/act-verb": "progress", "+freeq.at/act-id": "01K9ZQ0000000000000000000H",
		"+freeq.at/act-note": strings.Repeat("half way ", 20), "+freeq.at/from": string(did("scout")),
		"+freeq.at/eventid": "01K9ZQ0000000000000000001A", "+freeq.at/sig": "ed25519:sUcFiI9KaDkaCapZaN0l0Q:" + strings.Repeat("x", 86),
	}
}

// BenchmarkLink measures the cost of one step on the way out and back in, and how much of it is the
// bare signature: "ratio" is the cost in signatures.
func BenchmarkLink(b *testing.B) {
	key := seeded("our endpoint")
	endpoint := signer("", key)
	line, err := freeq.SealLine(b.Context(), endpoint, stepTags())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("out", func(b *testing.B) {
		raw := timed(func() { ed25519.Sign(key, line) })
		for b.Loop() {
			if _, err := freeq.SealLine(b.Context(), endpoint, stepTags()); err != nil {
				b.Fatal(err)
			}
		}
		report(b, raw)
	})
	b.Run("in", func(b *testing.B) {
		sig := ed25519.Sign(key, line)
		raw := timed(func() { ed25519.Verify(public(key), line, sig) })
		for b.Loop() {
			if _, why := freeq.OpenLine(line, public(key)); why != "" {
				b.Fatal(why)
			}
		}
		report(b, raw)
	})
}

// timed returns the duration of a call.
func timed(call func()) time.Duration {
	const calls = 2000
	start := time.Now()
	for range calls {
		call()
	}
	return time.Since(start) / calls
}

func report(b *testing.B, raw time.Duration) {
	b.Helper()
	each := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(raw)/float64(each), "ratio")
	b.ReportMetric(float64(time.Second)/float64(each), "steps/s")
}

func TestRosterOfTenThousandMembersIsSmall(t *testing.T) {
	const n, most = 10_000, 30 << 20
	nicks, dids := make([]string, n), make([]string, n)
	for i := range n {
		nicks[i] = fmt.Sprintf("user-number-%d", i)
		dids[i] = string(federation.DID(fmt.Sprintf("did:key:z6Mktwtq%048d", i)))
	}
	before := heap()
	kept, known := freeq.KeepMembers(channel, nicks, dids)
	if grown := heap() - before; known != n || grown > most {
		t.Errorf("%d members take %d MiB", known, grown>>20)
	}
	runtime.KeepAlive(kept)
}

package signing_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// BenchmarkVerifySchemes compares a scheme with the bare check of its signature. The two take
// turns, so that the ratio is right on a busy machine.
func BenchmarkVerifySchemes(b *testing.B) {
	for _, v := range readJSON[[]schemeVector](b, "testdata/schemes.json") {
		b.Run(v.Scheme+"/"+strings.ReplaceAll(v.Name, " ", "_"), func(b *testing.B) { benchScheme(b, v) })
	}
}

func benchScheme(b *testing.B, v schemeVector) {
	b.Helper()
	scheme := schemeNamed(b, v.Scheme)
	key := keyOf(mustHex(b, v.Seed))
	message := []byte(v.Message)
	document, err := scheme.Document(message)
	if err != nil {
		b.Fatal(err)
	}
	_, sig, _ := scheme.Encoding.Read(v.Signature)
	var whole, bare time.Duration
	for b.Loop() {
		start := time.Now()
		if verdict, err := scheme.Verify(message, v.Signature, key.Public); verdict != federation.Valid {
			b.Fatal(verdict, err)
		}
		judged := time.Now()
		if !ed25519.Verify(key.Public, document, sig) {
			b.Fatal("the signature does not verify")
		}
		whole, bare = whole+judged.Sub(start), bare+time.Since(judged)
	}
	b.ReportMetric(float64(bare)/float64(whole), "of_raw_rate")
}

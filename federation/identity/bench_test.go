package identity_test

import (
	"strconv"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// BenchmarkKeys measures the cost of each step before its signature is checked: the keys of a DID
// with a cached document.
func BenchmarkKeys(b *testing.B) {
	const known = 1000
	w := &web{pages: map[string]string{}}
	directory := newDirectory(w, federation.SigningKey{DID: "did:web:gw.example", Public: seededKey('s')})
	record := storetest.Open(b)
	source := newKeySource(directory, w, record)
	for i := range known {
		host := "h" + strconv.Itoa(i) + ".example"
		w.pages["https://"+host+"/.well-known/did.json"] = page(federation.DID("did:web:"+host), seededKey('a'))
		if _, err := source.Keys(b.Context(), query(federation.DID("did:web:"+host), seededKey('a'))); err != nil {
			b.Fatal(err)
		}
	}
	for name, did := range map[string]federation.DID{
		"did=web": "did:web:h7.example", "did=key": identity.KeyDID(seededKey('a')),
	} {
		b.Run(name, func(b *testing.B) {
			q := query(did, seededKey('a'))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := source.Keys(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			if len(w.asked) != known {
				b.Errorf("asked %d times, want once for each of %d", len(w.asked), known)
			}
		})
	}
	b.Run("did=web/parallel", func(b *testing.B) {
		q := query("did:web:h7.example", seededKey('a'))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := source.Keys(b.Context(), q); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

package identity_test

import (
	"strconv"
	"testing"

	"baton/federation"
	"baton/federation/identity"
)

// BenchmarkKeys measures what each step costs before its signature is looked at:
// the keys of a DID whose document is at hand.
func BenchmarkKeys(b *testing.B) {
	const known = 1000
	w := &web{pages: map[string]string{}}
	directory := identity.NewDirectory(w, federation.SigningKey{DID: "did:web:gw.example", Public: seededKey('s')})
	source := identity.NewKeySource(directory, owners{})
	for i := range known {
		host := "h" + strconv.Itoa(i) + ".example"
		w.pages["https://"+host+"/.well-known/did.json"] = page(federation.DID("did:web:"+host), seededKey('a'))
		if _, err := source.Keys(b.Context(), federation.DID("did:web:"+host), noon()); err != nil {
			b.Fatal(err)
		}
	}
	for name, did := range map[string]federation.DID{
		"did=web": "did:web:h7.example", "did=key": identity.KeyDID(seededKey('a')), "did=own": "did:web:gw.example",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := source.Keys(b.Context(), did, noon()); err != nil {
					b.Fatal(err)
				}
			}
			if len(w.asked) != known {
				b.Errorf("asked %d times, want once for each of %d", len(w.asked), known)
			}
		})
	}
	b.Run("did=web/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := source.Keys(b.Context(), "did:web:h7.example", noon()); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

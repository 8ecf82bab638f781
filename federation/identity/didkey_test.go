package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mr-tron/base58"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func seededKey(seed byte) ed25519.PublicKey {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	return private.Public().(ed25519.PublicKey)
}

// keyDID spells a did:key of any bytes.
func keyDID(prefix string, key []byte) federation.DID {
	return federation.DID("did:key:z" + base58.Encode(append([]byte(prefix), key...)))
}

func TestKeyDIDNamesItsKey(t *testing.T) {
	for name, did := range map[string]federation.DID{
		"the first example of the method": "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
		"the second":                      "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
		"a key of our own":                identity.KeyDID(seededKey('a')),
		"a key that ends with zeros":      keyDID("\xed\x01", append([]byte{9}, make([]byte, 31)...)),
	} {
		t.Run(name, func(t *testing.T) {
			key, err := identity.ParseKeyDID(did)
			if err != nil {
				t.Fatal(err)
			}
			if got := identity.KeyDID(key); got != did {
				t.Errorf("got %s, want %s", got, did)
			}
		})
	}
	key, err := identity.ParseKeyDID(identity.KeyDID(seededKey('b')))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seededKey('b'), key); diff != "" {
		t.Error(diff)
	}
}

func TestParseKeyDIDAcceptsOneSpelling(t *testing.T) {
	key := seededKey('a')
	good := string(identity.KeyDID(key))
	for name, did := range map[string]federation.DID{
		"another method":       "did:web:gw.example",
		"no key":               "did:key:",
		"no base":              federation.DID(strings.Replace(good, ":z", ":", 1)),
		"another base":         federation.DID(strings.Replace(good, ":z", ":f", 1)),
		"a letter too many":    federation.DID(good + "1"),
		"a letter too few":     federation.DID(good[:len(good)-1]),
		"a leading zero":       federation.DID(strings.Replace(good, ":z", ":z1", 1)),
		"no base58 letter":     federation.DID(strings.Replace(good, "6Mk", "6M0", 1)),
		"a byte too many":      keyDID("\xed\x01", append(key[:32:32], 0)),
		"a byte too few":       keyDID("\xed\x01", key[:31]),
		"a long varint":        keyDID("\xed\x81\x00", key),
		"a key for encryption": keyDID("\xec\x01", key),
		"a secp256k1 key":      "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
		"a fragment":           federation.DID(good + "#key"),
		"a key of order 4":     keyDID("\xed\x01", make([]byte, 32)),
		"another encoding":     keyDID("\xed\x01", append([]byte{0xf0}, append(bytes.Repeat([]byte{0xff}, 30), 0x7f)...)), // y = 3 + p
		"no end":               federation.DID("did:key:z" + strings.Repeat("6", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			if key, err := identity.ParseKeyDID(did); err == nil {
				t.Errorf("got %x, want an error", key)
			}
		})
	}
}

func TestCheckDIDRefusesWhatNoPartyCanProve(t *testing.T) {
	key := seededKey('a')
	good := string(identity.KeyDID(key))
	for did, possible := range map[federation.DID]bool{
		federation.DID(good): true,
		"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme": true,
		"did:plc:z72i7hdynmk6r22z27h6tvur":                          true,
		"did:web:alice.example":                                     true,
		"did:web:alice.example%3A8443:users:a%20b":                  true,
		"did:example:alice":                                         true, // an unknown method has unknown rules
		"did:key:z6Mk":                                              false,
		"did:key:alice":                                             false,
		federation.DID(good + "1"):                                  false,
		keyDID("\xec\x01", key):                                     false, // x25519: no signatures
		keyDID("\xed\x01", make([]byte, 32)):                        false, // of small order
		"did:plc:alice":                                             false,
		"did:plc:z72i7hdynmk6r22z27h6tvu1":                          false, // 1 is not in the alphabet
		"did:plc:z72i7hdynmk6r22z27h6tvurr":                         false,
		"did:web:alice.example.":                                    false, // another spelling of the host
		"did:web:alice.example%3A443":                               false,
		"did:web:alice.example%3Aport":                              false,
		"did:web:alice.example:..:bob":                              false,
		"did:web:alice.example%2Fbob":                               false,
		"did:web:bob%40alice.example":                               false,
		"did:web:alice.example:a%2Fb":                               false,
		federation.DID("did:key:z" + strings.Repeat("6", 1<<8)):     false,
	} {
		if err := identity.CheckDID(did); (err == nil) != possible {
			t.Errorf("%s: %v, want possible %v", did, err, possible)
		}
	}
}

func FuzzParseKeyDID(f *testing.F) {
	f.Add(string(identity.KeyDID(seededKey('a'))))
	f.Add("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
	f.Add("did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme")
	f.Add("did:key:z")
	f.Fuzz(func(t *testing.T, did string) {
		key, err := identity.ParseKeyDID(federation.DID(did))
		if err != nil {
			if errors.Is(err, federation.ErrNotCanonical) {
				t.Errorf("%q: base58 has a second spelling after all", did)
			}
			return
		}
		if got := identity.KeyDID(key); string(got) != did {
			t.Errorf("%q is also %q", did, got)
		}
	})
}

func TestKeyDIDNamesKeysOfEachKind(t *testing.T) {
	for did, kind := range map[federation.DID]federation.KeyKind{
		"did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK":  federation.Ed25519,
		"did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169": federation.P256,
		"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme": federation.Secp256k1,
	} {
		t.Run(string(kind), func(t *testing.T) {
			key, err := identity.ParsePublicKeyDID(did)
			if err != nil || key.Kind != kind {
				t.Fatalf("got %+v, %v, want a key of %s", key, err, kind)
			}
			if got := identity.PublicKeyDID(key); got != did {
				t.Errorf("got %s, want %s", got, did)
			}
			document, err := newDirectory(&web{down: true}).Resolve(t.Context(), did, noon())
			if err != nil {
				t.Fatal(err)
			}
			want := federation.Document{DID: did, Others: []federation.PublicKey{key}, Fetched: noon()}
			if kind == federation.Ed25519 {
				want.Keys, want.Others = []ed25519.PublicKey{key.Bytes}, nil
			}
			if diff := cmp.Diff(want, document); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseKeyDIDRefusesPointsOffTheCurve(t *testing.T) {
	off := append([]byte{2}, make([]byte, 32)...)
	off[32] = 5 // secp256k1 has no point with this x
	for name, did := range map[string]federation.DID{
		"secp256k1":              keyDID("\xe7\x01", off),
		"P-256, written out":     keyDID("\x80\x24", append([]byte{4}, make([]byte, 64)...)),
		"P-256, of another sign": keyDID("\x80\x24", append([]byte{5}, make([]byte, 32)...)),
		"P-256, too short":       keyDID("\x80\x24", off[:32]),
		"a long varint":          keyDID("\x80\xa4\x00", off),
	} {
		t.Run(name, func(t *testing.T) {
			if key, err := identity.ParsePublicKeyDID(did); err == nil {
				t.Errorf("got %+v, want an error", key)
			}
		})
	}
}

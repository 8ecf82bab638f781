package signing_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

func TestLegacyMatchesPublishedAIRCVectors(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	set := readJSON[struct {
		SPKI    string `json:"public_spki_der_b64"`
		Vectors []struct {
			Unsigned  json.RawMessage
			Canonical string
			Signature string `json:"signature_std_b64"`
		}
		CanonicalOnly []struct {
			In  json.RawMessage
			Out string
		} `json:"canonical_only"`
	}](t, filepath.Join(dir, "airc", "airc-signing-vectors.json"))
	if len(set.Vectors) == 0 || len(set.CanonicalOnly) == 0 {
		t.Fatal("no vectors")
	}
	der, err := base64.StdEncoding.DecodeString(set.SPKI)
	if err != nil || len(der) < ed25519.PublicKeySize {
		t.Fatal(err)
	}
	public := ed25519.PublicKey(der[len(der)-ed25519.PublicKeySize:])
	for _, v := range set.Vectors {
		for _, signature := range []string{v.Signature, "ed25519:" + v.Signature, strings.TrimRight(v.Signature, "=")} {
			if found, verdict := signing.Match(v.Unsigned, signature, public, signing.LegacyFive(), signing.LegacyMessage()); verdict != federation.Valid {
				t.Errorf("%s: %v %v, want valid", signature, found.Name, verdict)
			}
		}
		if document, err := signing.LegacyMessage().Document(v.Unsigned); err != nil || v.Canonical != "" && string(document) != v.Canonical {
			t.Errorf("canonical form %s (%v), want %s", document, err, v.Canonical)
		}
	}
	for _, v := range set.CanonicalOnly {
		if got, err := signing.JCS(v.In); err != nil || string(got) != v.Out {
			t.Errorf("canonical form %s (%v), want %s", got, err, v.Out)
		}
	}
}

func TestLegacyMatchesIndependentAIRCVectors(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	type keyPair struct {
		Seed string `json:"seed_hex"`
	}
	set := readJSON[struct {
		Agent, Registry keyPair
		Envelope        struct {
			Unsigned  json.RawMessage
			Canonical string `json:"canonical_utf8"`
			Signature string `json:"signature_b64url"`
		} `json:"seed_envelope"`
		Challenge struct {
			Challenge string
			Text      string `json:"signature_over_ascii_string_b64url"`
			Bytes     string `json:"signature_over_decoded_bytes_b64url"`
		} `json:"seed_challenge"`
		Relay struct {
			Unsigned  json.RawMessage
			Canonical string `json:"canonical_utf8"`
			Signature string `json:"origin_registry_signature"`
		} `json:"v02_relay_envelope"`
		Canonical []struct {
			In   json.RawMessage
			Want string          `json:"rfc8785"`
			Text json.RawMessage `json:"python_legacy_header_bytes_for"`
			Got  string          `json:"bytes"`
		} `json:"canonicalization"`
	}](t, filepath.Join(dir, "airc", "gateway-own-vectors.json"))
	agent, registry := keyOf(mustHex(t, set.Agent.Seed)), keyOf(mustHex(t, set.Registry.Seed))
	for _, c := range []struct {
		scheme    signing.Scheme
		key       federation.SigningKey
		message   []byte
		canonical string
		signature string
	}{
		{signing.Message(), agent, set.Envelope.Unsigned, set.Envelope.Canonical, set.Envelope.Signature},
		{signing.Challenge(), agent, []byte(set.Challenge.Challenge), set.Challenge.Challenge, set.Challenge.Text},
		{signing.DecodedChallenge(), agent, []byte(set.Challenge.Challenge), "", set.Challenge.Bytes},
		{signing.Relay(), registry, set.Relay.Unsigned, set.Relay.Canonical, set.Relay.Signature},
	} {
		signature, document, err := c.scheme.Sign(t.Context(), c.key, c.message)
		if err != nil || signature != c.signature || c.canonical != "" && string(document) != c.canonical {
			t.Errorf("%s: signature %s over %s (%v), want %s over %s", c.scheme.Name, signature, document, err, c.signature, c.canonical)
		}
	}
	for _, v := range set.Canonical {
		if v.Text != nil {
			if got, err := signing.LegacyASCIIHeader().Document(v.Text); err != nil || string(got) != v.Got {
				t.Errorf("escaped form %s (%v), want %s", got, err, v.Got)
			}
			continue
		}
		if got, err := signing.JCS(v.In); err != nil || string(got) != v.Want {
			t.Errorf("canonical form %s (%v), want %s", got, err, v.Want)
		}
	}
}

package signing_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A maker makes the vectors of one scheme by hand: the covered bytes, the name of the key,
// the form of the signature.
type maker struct {
	scheme, name string
	message      map[string]any
	text         string // the message of schemes whose message is no JSON
	uncovered    []string
	covered      []byte // if it is not the canonical form of the rest
	keyID        func(ed25519.PublicKey) string
	write        func(kid, sig string) string
	alphabet     *base64.Encoding
}

// makeVectors returns the vectors of all schemes. The seeds are 32 repeated bytes,
// counted from 0x11.
func makeVectors(t *testing.T) []schemeVector {
	t.Helper()
	var made []schemeVector
	for i, m := range makers() {
		seed := strings.Repeat(hex.EncodeToString([]byte{byte(0x11 + i)}), ed25519.SeedSize)
		private := ed25519.NewKeyFromSeed(mustHex(t, seed))
		public, _ := private.Public().(ed25519.PublicKey)
		covered := m.covered
		if covered == nil {
			members := maps.Clone(m.message)
			for _, name := range m.uncovered {
				delete(members, name)
			}
			covered = secondCanonical(t, members)
		}
		var kid string
		if m.keyID != nil {
			kid = m.keyID(public)
		}
		made = append(made, schemeVector{
			Scheme: m.scheme, Name: m.name, Seed: seed, Message: m.arrives(t), Document: printable(covered), KeyID: kid,
			Signature: m.write(kid, m.alphabet.EncodeToString(ed25519.Sign(private, covered))),
		})
	}
	return made
}

// arrives returns the message as a sender might write it: indented, in an order that
// is not canonical.
func (m maker) arrives(t *testing.T) string {
	t.Helper()
	if m.text != "" {
		return m.text
	}
	text, err := json.MarshalIndent(m.message, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// secondCanonical is RFC 8785 by a library of another author.
func secondCanonical(t *testing.T, members any) []byte {
	t.Helper()
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	value := jsontext.Value(text)
	if err := value.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return value
}

// The ways to write a signature, and to name a key.
func tagged(kid, sig string) string { return "ed25519:" + kid + ":" + sig }
func bare(_, sig string) string     { return sig }
func prefixed(_, sig string) string { return "ed25519:" + sig }
func sixteen(k ed25519.PublicKey) string {
	s := sha256.Sum256(k)
	return base64.RawURLEncoding.EncodeToString(s[:16])
}

func agentKey(k ed25519.PublicKey) string {
	s := sha256.Sum256(k)
	return "k_" + hex.EncodeToString(s[:])[:16]
}

func makers() []maker {
	const challenge = "bobsChallengeAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	decoded, _ := base64.RawURLEncoding.DecodeString(challenge[:43])
	step := map[string]any{
		"from": "did:example:alice", "target": "#ops", "id": "01K9ZQ0000000000000000000H", "handoff": "offer",
		"handoff-id": "01K9ZQ0000000000000000000H", "handoff-to": "did:example:bob", "handoff-task": "naïve <b> & \"q\" \u2028 😀 \u0001",
	}
	unstamped := maps.Clone(step)
	delete(unstamped, "id")
	act := map[string]any{
		"from": "did:example:alice", "target": "dm:did:example:alice,did:example:bob", "id": "01K9ZQ0000000000000000000H",
		"act": "handoff", "act-verb": "offer", "act-title": "Cite\nthree", "act-x-priority": "high",
	}
	receipt := map[string]any{
		"from": "did:web:gw.example", "target": "#bob", "id": "01K9ZQ0000000000000000000J", "act": "handoff", "act-verb": "confirm",
		"act-id": "01K9ZQ0000000000000000000H", "act-subject": "01K9ZQ0000000000000000000K",
	}
	ownReceipt := map[string]any{
		"from": "did:web:gw.example", "target": "#bob", "id": "01K9ZQ0000000000000000000J", "handoff": "confirm",
		"handoff-id": "01K9ZQ0000000000000000000H", "handoff-subject": "01K9ZQ0000000000000000000K",
	}
	envelope := map[string]any{
		"v": "0.1", "id": "AAECAwQFBgcICQoLDA0ODw", "kid": "k", "aud": "gw.example", "from": "scout_7", "to": "bob", "timestamp": 1790000000,
		"body": "ünïcode", "payload": map[string]any{"type": "ack", "data": map[string]any{"f": 0.5, "big": 9007199254740992, "e": 1e-7}},
		"future": []any{nil, true}, "signature": "s", "seq": 4,
	}
	relay := map[string]any{
		"origin_registry": "gw.example", "from": "@scout_7@gw.example", "to": "@bob@peer.example", "body": "hi", "payload": nil,
		"message_id": "m", "timestamp": "2026-09-21T14:13:20.000Z", "origin_registry_signature": "s",
	}
	rotation := map[string]any{"newPublicKey": "bobAAAA", "newKid": "k_1", "signature": "s"}
	revocation := map[string]any{"kid": "k_bob", "reason": "lost", "signature": "s"}
	legacy := map[string]any{
		"v": "0.1", "from": "scout_7", "to": "bob", "text": "é", "body": "é", "timestamp": 1704672000, "nonce": "abc", "signature": "s",
	}
	header := map[string]any{"to": "bob", "body": "é 😀 \u2028"}
	return append([]maker{
		{scheme: "handoff", name: "stamped", message: step, keyID: sixteen, write: tagged, alphabet: base64.RawURLEncoding},
		{scheme: "handoff", name: "without event id", message: unstamped, keyID: sixteen, write: tagged, alphabet: base64.RawURLEncoding},
		{scheme: "act", name: "private", message: act, keyID: sixteen, write: tagged, alphabet: base64.RawURLEncoding},
		{scheme: "receipt", name: "act", message: receipt, keyID: sixteen, write: tagged, alphabet: base64.RawURLEncoding},
		{scheme: "receipt", name: "handoff", message: ownReceipt, keyID: sixteen, write: tagged, alphabet: base64.RawURLEncoding},
		{scheme: "passport", name: "short", message: map[string]any{"v": 1, "home": "bob.example", "signature": "s"}, uncovered: []string{"signature"}, keyID: sixteen, write: tagged, alphabet: base64.RawURLEncoding},
		{scheme: "airc", name: "message", message: envelope, uncovered: []string{"signature", "seq"}, keyID: agentKey, write: bare, alphabet: base64.RawURLEncoding},
		{scheme: "airc-relay", name: "relay", message: relay, uncovered: []string{"origin_registry_signature"}, write: prefixed, alphabet: base64.StdEncoding},
		{scheme: "airc-challenge", name: "text", text: challenge, covered: []byte(challenge), keyID: agentKey, write: bare, alphabet: base64.RawURLEncoding},
		{scheme: "airc-challenge-bytes", name: "bytes", text: challenge[:43], covered: decoded, keyID: agentKey, write: bare, alphabet: base64.RawURLEncoding},
		{scheme: "airc-rotate", name: "request", message: rotation, uncovered: []string{"signature"}, keyID: agentKey, write: bare, alphabet: base64.RawURLEncoding},
		{scheme: "airc-rotate-key", name: "key alone", message: rotation, covered: []byte("bobAAAA"), keyID: agentKey, write: bare, alphabet: base64.RawURLEncoding},
		{scheme: "airc-revoke", name: "request", message: revocation, uncovered: []string{"signature"}, keyID: agentKey, write: bare, alphabet: base64.RawURLEncoding},
		{scheme: "airc-legacy", name: "message", message: legacy, uncovered: []string{"signature"}, write: bare, alphabet: base64.StdEncoding},
		{scheme: "airc-legacy-textless", name: "message", message: legacy, uncovered: []string{"signature", "text"}, write: bare, alphabet: base64.StdEncoding},
		{scheme: "airc-legacy-five", name: "message", message: legacy, uncovered: []string{"signature", "v", "body"}, write: bare, alphabet: base64.StdEncoding},
		{scheme: "airc-header", name: "body", message: header, write: bare, alphabet: base64.StdEncoding},
		{scheme: "airc-header-ascii", name: "body", message: header, covered: []byte(`{"body":"\u00e9 \ud83d\ude00 \u2028","to":"bob"}`), write: bare, alphabet: base64.StdEncoding},
	}, boundMakers()...)
}

// boundMakers make the proofs that name their registry. A Python program made the same six vectors.
func boundMakers() []maker {
	request := func(purpose string, members ...map[string]any) map[string]any {
		made := map[string]any{"aud": "gw.example", "handle": "bob", "purpose": purpose, "timestamp": 1790000000}
		for _, m := range members {
			maps.Copy(made, m)
		}
		return made
	}
	registration := func(key string) map[string]any {
		return map[string]any{"challenge": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "publicKey": key}
	}
	revocation := func(kid string) map[string]any {
		return map[string]any{"kid": kid, "reason": "laptop \"x230\" lost\n"}
	}
	rotation := map[string]any{"newKid": "k_d2f381d7b0b5f1d3", "newPublicKey": "yFOtDwzSthmuqSzuxP1Wok1kmdWEznklfkXP2BObYKc"}
	// Names in another case, names of other proofs, and nested names are not covered.
	besideRegistration := map[string]any{
		"challengeSignature": "s", "Handle": "eve", "recoveryKey": "r", "metadata": map[string]any{"name": "naïve 😀"},
		"capabilities": map[string]any{"payloads": []any{"at.freeq:handoff"}, "handle": "eve"},
	}
	besideRotation := map[string]any{"signature": "s", "newKeySignature": "s", "Purpose": "revoke", "kid": "k_eve", "overlap": 3600.5}
	besideRevocation := map[string]any{"signature": "s", "challenge": "c", "newKid": nil, "Reason": "none", "note": []any{"é"}}
	made := []maker{
		{scheme: "airc-bound-register", message: request("register", registration("vtfSq2aNo--tYTmY8G96v3h186a3Z3qfPOlH1313YKY"))},
		{scheme: "airc-bound-register", message: request("register", registration("kQnbVfeXl6OWRi-4lcKtzqfoaDwvMFbAelR1FVU3tz4"), besideRegistration), uncovered: slices.Collect(maps.Keys(besideRegistration))},
		{scheme: "airc-bound-rotate", message: request("rotate", rotation)},
		{scheme: "airc-bound-rotate", message: request("rotate", rotation, besideRotation), uncovered: slices.Collect(maps.Keys(besideRotation))},
		{scheme: "airc-bound-revoke", message: request("revoke", revocation("k_f31f5d967197f885"))},
		{scheme: "airc-bound-revoke", message: request("revoke", revocation("k_b600306cfa76723f"), besideRevocation), uncovered: slices.Collect(maps.Keys(besideRevocation))},
	}
	for i := range made {
		made[i].name = "these members alone"
		if made[i].uncovered != nil {
			made[i].name = "more members"
		}
		made[i].keyID, made[i].write, made[i].alphabet = agentKey, bare, base64.RawURLEncoding
	}
	return made
}

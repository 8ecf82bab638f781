package main_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/fxamacker/cbor/v2"
	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/passport"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/storetest"
	tags "github.com/baton-gateway/baton/translate/dialect"
)

// pages is documents by the beginning of their addresses.
type pages map[string]string

// Get implements [identity.Fetcher].
func (p pages) Get(_ context.Context, address string) ([]byte, error) {
	for start, page := range p {
		if strings.HasPrefix(address, start) {
			return []byte(page), nil
		}
	}
	return nil, fmt.Errorf("get %s: %w", address, federation.ErrNotFound)
}

// sourceOf returns a source of keys that reads documents, and has a key server behind the
// link "freeq".
func sourceOf(t *testing.T, documents pages) *identity.KeySource {
	t.Helper()
	directory := identity.NewDirectory(identity.DirectoryConfig{PLC: "https://plc.example", Fresh: time.Hour, Negative: time.Minute}, documents)
	return identity.NewKeySource(identity.KeySourceConfig{
		Negative: time.Minute, Peer: func(link string) (string, bool) { return "https://keys.example", link == "freeq" },
	}, directory, documents, storetest.Open(t))
}

// viaDocument resolves a DID whose document has the key, and logs in as it.
func viaDocument(t *testing.T, c claim, did federation.DID, documents pages) admission {
	t.Helper()
	source := sourceOf(t, documents)
	kid := federation.KeyID(c.public)
	keys, err := source.Keys(t.Context(), federation.KeyQuery{DID: did, KeyID: kid, Received: time.Now()})
	taken := err == nil && slices.ContainsFunc(keys, func(key ed25519.PublicKey) bool { return federation.KeyID(key) == kid })
	if c.revoked {
		if err := source.Revoke(t.Context(), did, kid, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	message := []byte("a challenge")
	_, verdict, _ := source.Proved(t.Context(), did, message, c.sign(message), time.Now())
	return admission{taken, verdict == federation.Valid}
}

const (
	aliceDID     = federation.DID("did:web:alice.example")
	aliceAddress = "https://alice.example/.well-known/did.json"
)

// multikeyDocument returns a document of a DID with a key as Multikey.
func multikeyDocument(did federation.DID, c claim) string {
	return fmt.Sprintf(`{"id":%q,"verificationMethod":[{"id":"#k","type":"Multikey","publicKeyMultibase":%q}]}`,
		did, strings.TrimPrefix(string(c.did), "did:key:"))
}

func viaMultikey(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	return viaDocument(t, c, aliceDID, pages{aliceAddress: multikeyDocument(aliceDID, c)})
}

func viaJWK(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	document := fmt.Sprintf(`{"id":%q,"verificationMethod":[{"id":"#k","type":"JsonWebKey2020","publicKeyJwk":{"kty":"OKP","crv":"Ed25519","x":%q}}]}`, aliceDID, c.base64())
	return viaDocument(t, c, aliceDID, pages{aliceAddress: document})
}

// viaPLC is a did:plc whose first operation lists the key.
func viaPLC(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	key, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	encoding, err := cbor.CTAP2EncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	encode := func(operation map[string]any) []byte {
		text, err := encoding.Marshal(operation)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	rotation := identity.PublicKeyDID(federation.PublicKey{Kind: federation.Secp256k1, Bytes: key.PubKey().SerializeCompressed()})
	operation := map[string]any{
		"type": "plc_operation", "rotationKeys": []any{string(rotation)}, "verificationMethods": map[string]any{"atproto": string(c.did)},
		"alsoKnownAs": []any{}, "services": map[string]any{}, "prev": nil,
	}
	unsigned := sha256.Sum256(encode(operation))
	operation["sig"] = base64.RawURLEncoding.EncodeToString(secp256k1ecdsa.SignCompact(key, unsigned[:], true)[1:])
	signed := sha256.Sum256(encode(operation))
	lower := func(raw []byte) string {
		return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))
	}
	did := federation.DID("did:plc:" + lower(signed[:])[:24])
	log, err := json.Marshal([]any{map[string]any{
		"did": did, "cid": "b" + lower(append([]byte{1, 0x71, 0x12, 0x20}, signed[:]...)), "nullified": false,
		"createdAt": "2026-01-01T00:00:00Z", "operation": operation,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return viaDocument(t, c, did, pages{"https://plc.example/": string(log)})
}

// viaHome is another home whose document has the key, and that signs a message.
func viaHome(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	const home = federation.HomeID("home.example")
	source := sourceOf(t, pages{"https://home.example/.well-known/did.json": multikeyDocument(home.DID(), c)})
	kid := federation.KeyID(c.public)
	keys, _ := source.Keys(t.Context(), federation.KeyQuery{DID: home.DID(), KeyID: kid, Received: time.Now()})
	if c.revoked {
		if err := source.Revoke(t.Context(), home.DID(), kid, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	key := federation.SigningKey{Public: c.public, DID: home.DID(), Sign: func(_ context.Context, m []byte) ([]byte, error) { return c.sign(m), nil }}
	message := []byte(`{"type":"voucher"}`)
	signature, err := signing.SignHome(t.Context(), key, message)
	if err != nil {
		t.Fatal(err)
	}
	verdict, _ := signing.VerifyHome(t.Context(), source, home, message, signature, time.Now())
	return admission{len(keys) > 0, verdict == federation.Valid}
}

// viaKeyAPI is the key server of a freeq server, which says that the key is alice's.
func viaKeyAPI(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	source := sourceOf(t, pages{
		aliceAddress:            fmt.Sprintf(`{"id":%q,"verificationMethod":[]}`, aliceDID),
		"https://keys.example/": fmt.Sprintf(`{"did":%q,"public_key":%q}`, aliceDID, c.base64()),
	})
	kid := federation.KeyID(c.public)
	if c.revoked {
		if err := source.Revoke(t.Context(), aliceDID, kid, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := source.Keys(t.Context(), federation.KeyQuery{DID: aliceDID, KeyID: kid, Link: "freeq", Received: time.Now()})
	if err != nil || len(keys) == 0 {
		return admission{}
	}
	if elsewhere, err := source.Keys(t.Context(), federation.KeyQuery{DID: aliceDID, KeyID: kid, Link: "other", Received: time.Now()}); err == nil && len(elsewhere) > 0 {
		t.Error("the key counts for another link")
	}
	message := []byte("a step")
	verdict, err := signing.Challenge().Verify(message, c.signature(message), keys[0])
	return admission{true, err == nil && verdict == federation.Valid}
}

// checked reports whether a configuration with some tables is without mistakes.
func (e *entrances) checked(t *testing.T, tables string) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "baton.toml")
	if err := os.WriteFile(path, []byte("[home]\nname = \"gw.test\"\n[irc.client]\nlisten = \"127.0.0.1:1\"\n"+tables), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), program, "config", "check", "--config", path).Run() == nil
}

// viaBinding binds a name to the did:key, in the configuration and over the operator API.
func viaBinding(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	name := e.handle()
	taken := e.checked(t, fmt.Sprintf("[[bindings]]\nnetwork = \"client\"\nname = %q\ndid = %q\n", name, c.did))
	kept := exec.CommandContext(t.Context(), program, "bind", "add", "client", name, string(c.did), "--reason", "test", "--config", e.config).Run() == nil
	if kept != taken {
		t.Errorf("the configuration takes it: %t, the operator API: %t", taken, kept)
	}
	return admission{taken: taken || kept}
}

// viaEndpoint is a freeq server whose endpoint id is the key, without and with
// its ticket.
func viaEndpoint(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	table := "[[irc.freeq]]\nname = \"fq\"\nserver_name = \"irc.freeq.example\"\npeer_api = \"https://irc.freeq.example\"\nchannels = [\"#ops\"]\n"
	ticket := "endpoint" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append(append([]byte{0}, c.public...), 0)))
	alone := e.checked(t, table+fmt.Sprintf("endpoint_id = %q\n", hex.EncodeToString(c.public)))
	if with := e.checked(t, table+fmt.Sprintf("endpoint_id = %q\naddress = %q\n", hex.EncodeToString(c.public), ticket)); with != alone {
		t.Errorf("the id is taken alone: %t, with its ticket: %t", alone, with)
	}
	return admission{taken: alone}
}

func viaPassport(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "federation", "passport", "testdata", "passport.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p passport.Passport
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	p.Keys = append(p.Keys, passport.Key{ID: federation.KeyID(c.public), DID: c.did, Public: c.base64(), Source: "did:key"})
	if text, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	checker := passport.Checker{Read: tags.FromDocument, Replay: lifecycle.Shipped().Replay, KeyDID: identity.KeyDID}
	report := checker.Verify(t.Context(), text)
	if len(report.Findings) == 0 {
		t.Error("a passport that was changed has no finding")
	}
	return admission{taken: !slices.ContainsFunc(report.Findings, func(f passport.Finding) bool { return f.Code == passport.KeyEncoding })}
}

// viaCard signs the card of an external A2A agent.
func viaCard(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	card := map[string]any{
		"name": "Signed", "description": "x", "version": "1", "capabilities": map[string]any{"streaming": false}, "skills": []any{},
		"supportedInterfaces": []any{map[string]any{"url": server.URL + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
	}
	plain, err := json.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(plain)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"EdDSA","jku":"` + server.URL + `/keys","kid":"k"}`))
	card["signatures"] = []any{map[string]any{"protected": header, "signature": c.signature([]byte(header + "." + encode(canonical)))}}
	for path, document := range map[string]any{
		"GET /keys":                        map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": c.base64()}}},
		"GET /.well-known/agent-card.json": card,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(document) }) // the client may be gone
	}
	found, err := a2aclient.Inspect(t.Context(), server.URL, true, identity.NewTransport(identity.FetchConfig{AllowPrivate: true}))
	return admission{taken: err == nil && found.Key != ""}
}

// viaSigner is a command that keeps the keys of the gateway, and says that this is one.
func viaSigner(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	_, err := identity.Signer{"sh", "-c", "echo " + c.base64()}.Public(t.Context(), identity.ServerKey)
	return admission{taken: err == nil}
}

// viaRecord is a key that the record has from before keys were parsed.
func viaRecord(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	message := []byte("a step")
	verdict, err := signing.Challenge().Verify(message, c.signature(message), c.public)
	valid := err == nil && verdict == federation.Valid
	return admission{valid, valid}
}

// viaStep is a step that a did:key signed. From a key that cannot be an identity it is
// refused for good, with the code of a malformed value.
func viaStep(t *testing.T, _ *entrances, c claim) admission {
	t.Helper()
	source := sourceOf(t, pages{})
	if c.revoked {
		if err := source.Revoke(t.Context(), c.did, federation.KeyID(c.public), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	ev := federationtest.Offer(1, c.did, aliceDID)
	ev.Arrival.Received = time.Now()
	key := federation.SigningKey{Public: c.public, DID: c.did, Sign: func(_ context.Context, m []byte) ([]byte, error) { return c.sign(m), nil }}
	ev, err := signing.Seal(t.Context(), key, ev)
	if err != nil {
		t.Fatal(err)
	}
	_, verdict, err := signing.Verify(t.Context(), source, ev)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	if c.useless && (!isRefusal || refused.Code != federation.InvalidTag || verdict != federation.Invalid) {
		t.Errorf("the step is judged %v, %v, want %s", verdict, err, federation.InvalidTag)
	}
	return admission{verdict == federation.Valid, verdict == federation.Valid}
}
